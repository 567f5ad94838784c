//! Writes the files of a release.

use std::path::Path;

use anyhow::Result;
use clap::Parser;
use release::command::ReleaseCommand;

fn main() -> Result<()> {
    ReleaseCommand::parse().run(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
}
