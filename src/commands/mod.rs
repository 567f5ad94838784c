//! The command line: what a person types, and what it means.
//!
//! Each command has two halves: `Args` is what was typed, `Settings` what it means; only settings are acted on.

mod cleanup;
mod connect;
mod crds;
mod input;
pub mod lint;
mod migrate;
pub mod output;
mod plan;
mod registry;
pub mod render;
mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use jiff::{Zoned, civil::Date, tz::TimeZone};

use crate::domain::tables;

/// Keeps Windows nodes of a Kubernetes cluster as WindowsNodePools describe them.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110, after_help = EXIT_STATUS)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_STATUS: &str = "Exit status: 0 fine, 1 problems found in the input, 2 wrong usage, \
    3 the cluster could not be reached or refused.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator: keep the Windows nodes as the WindowsNodePools describe them, until it is told to stop
    Run(run::Args),
    /// Print the CustomResourceDefinitions
    Crds(crds::Args),
    /// Print what the operator would write for the resources in files; no cluster is asked
    Render(render::Args),
    /// Print what would change in the cluster, or what an upgrade would break; nothing is written
    Plan(plan::Args),
    /// Say what is wrong with manifests for Windows nodes: workloads, Services and our own resources; no cluster is asked
    Lint(lint::Args),
    /// Say what becomes of a pool's workloads on another Windows or in another pool; nothing is written
    Migrate(migrate::Args),
    /// Take off by hand what pools have added to nodes and cluster, with the operator gone
    Cleanup(cleanup::Args),
}

impl Cli {
    /// Runs the command to its end, says on stderr what went wrong, and gives the exit status.
    pub fn run(self) -> ExitCode {
        // The operator says it in its log.
        let notice = tables::old(today()).filter(|_| !matches!(self.command, Command::Run(_)));
        if let Some(text) = notice {
            input::note(&text);
        }
        let ended = match self.command {
            Command::Run(args) => run::Settings::try_from(args).and_then(run::run),
            Command::Crds(args) => crds::Settings::try_from(args).and_then(crds::run),
            Command::Render(args) => render::Settings::try_from(args).and_then(render::run),
            Command::Plan(args) => plan::Settings::try_from(args).and_then(plan::run),
            Command::Lint(args) => lint::Settings::try_from(args).and_then(lint::run),
            Command::Migrate(args) => migrate::Settings::try_from(args).and_then(migrate::run),
            Command::Cleanup(args) => cleanup::Settings::try_from(args).and_then(cleanup::run),
        };
        match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("winpool: {failure}");
                failure.status()
            }
        }
    }
}

/// The day, in UTC; `WINPOOL_TODAY` is in its place where it is set, so that what is printed can be the same on any day.
fn today() -> Date {
    let named = std::env::var("WINPOOL_TODAY").ok().and_then(|text| text.parse().ok());
    named.unwrap_or_else(|| Zoned::now().with_time_zone(TimeZone::UTC).date())
}

/// Why a command did not end well; each kind has its exit status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The input was read and has problems: exit status 1.
    #[error("{0}")]
    Problems(String),
    /// What was typed cannot be done, such as writing to a folder that is a file: exit status 2.
    #[error("{0}")]
    Usage(String),
    /// The cluster could not be reached or refused: exit status 3.
    #[error("{0}")]
    Cluster(String),
    /// winpool itself is wrong: exit status 101, as after a panic.
    #[error("{0}")]
    Defect(String),
    /// A second signal of this name did not let winpool end in order: exit status 130, as shells have it.
    #[error("{0} came twice: stopped at once")]
    Interrupted(&'static str),
}

impl Failure {
    /// The exit status.
    pub fn status(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Problems(_) => 1,
            Self::Usage(_) => 2,
            Self::Cluster(_) => 3,
            Self::Defect(_) => 101,
            Self::Interrupted(_) => 130,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_every_command_and_option_says_what_it_does() {
        let mut cli = Cli::command();
        cli.build();
        cli.clone().debug_assert();
        for command in cli.get_subcommands().filter(|command| command.get_name() != "help") {
            assert!(command.get_about().is_some(), "{} has no help", command.get_name());
            for option in command.get_arguments() {
                assert!(option.get_help().is_some(), "{} {} has no help", command.get_name(), option.get_id());
            }
        }
    }

    #[test]
    fn an_unknown_command_is_wrong_usage() {
        let usage = ExitCode::from(2);
        let error = Cli::try_parse_from(["winpool", "fly"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert_eq!(format!("{:?}", Failure::Usage("no".into()).status()), format!("{usage:?}"));
    }
}
