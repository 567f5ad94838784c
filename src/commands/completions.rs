//! `winpool completions` and `winpool man`: what shells and `man` read, from the definition of the command line.

use std::{fs, path::PathBuf};

use clap_complete::Shell;

use super::{Failure, output, program};

/// The options of `winpool completions`, as typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell whose completion script is printed
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completion script of a shell.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let (name, mut script) = (program::executable(), Vec::new());
    clap_complete::generate(args.shell, &mut program::command().name(name).bin_name(name), name, &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// The options of `winpool man`, as typed.
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// Write winpool.1, and one page for each command, into this directory
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Writes the manual pages.
pub(super) fn write_manual(args: &ManArgs) -> Result<(), Failure> {
    let pages = program::command().disable_help_subcommand(true);
    fs::create_dir_all(&args.out)
        .and_then(|()| clap_mangen::generate_to(pages, &args.out))
        .map_err(|error| Failure::Usage(format!("cannot write manual pages to {}: {error}", args.out.display())))
}
