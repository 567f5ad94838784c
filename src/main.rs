//! The winpool binary: parses the command line and runs the command.

use std::process::ExitCode;

use winpool::Cli;

fn main() -> ExitCode {
    Cli::of_process().run()
}
