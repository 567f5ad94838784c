//! The command line of winpool.

use std::process::ExitCode;

use clap::Parser;
use winpool::commands::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
