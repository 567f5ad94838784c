//! The command line.
//!
//! Each command has `Args`, the options as typed, and validates them first: into `Settings` if it has many.

#![allow(clippy::disallowed_methods)] // I/O, and time

pub mod admission_policies;
pub mod adopt;
mod check;
mod cleanup;
mod completions;
mod configz;
mod connect;
mod crds;
mod doctor;
mod evidence;
mod explain;
mod input;
mod junit;
pub mod lint;
mod migrate;
mod node_logs;
pub mod output;
mod plan;
mod policies;
mod pools;
mod program;
mod progress;
mod recommend;
mod registry;
pub mod render;
mod run;
mod signals;
mod status;
mod verify;
mod workloads;
mod wrap;

use std::{env, process::ExitCode};

use clap::{FromArgMatches as _, Parser, Subcommand};
use jiff::{Zoned, civil::Date, tz::TimeZone};
use winpool_core::tables;
use winpool_facts::feature_gates;
use winpool_operator::cluster::ListError;

use output::Color;

/// Manages the Windows nodes of a Kubernetes cluster as specified by WindowsNodePools
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110, after_help = EXIT_STATUS)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// When output has colours
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    color: Color,
}

const EXIT_STATUS: &str = "Exit status: 0 success, 1 problems found, 2 usage error, \
    3 the cluster could not be reached or refused the request.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator
    Run(run::Args),
    /// Print the CustomResourceDefinitions
    Crds(crds::Args),
    /// Print the optional admission policies
    Policies(policies::Args),
    /// Print what the operator would apply for the resources in files (works offline)
    Render(render::Args),
    /// Print what is wrong with the pools of a cluster, the worst first, and how far rollouts are (read-only)
    Status(status::Args),
    /// Check that winpool is installed and works: exit status 0 if so (read-only)
    Check(check::Args),
    /// Find the cause of a problem of a pool, a Windows node or a pod, with evidence and remedy (read-only)
    Doctor(doctor::Args),
    /// Print what would change in the cluster, or what an upgrade would break (read-only)
    Plan(plan::Args),
    /// Check manifests of workloads, Services and winpool resources for Windows nodes (works offline)
    Lint(lint::Args),
    /// Check whether a pool's workloads would run on another Windows version or in another pool (read-only)
    Migrate(migrate::Args),
    /// Run Jobs on the nodes of a pool, which check that pods run and reach each other, and remove them
    Verify(verify::Args),
    /// Measure what the system uses on the nodes of a pool, and recommend what to reserve for it (read-only)
    Recommend(recommend::Args),
    /// Write pools and profiles for the existing Windows nodes of a cluster, for review (read-only)
    Adopt(adopt::Args),
    /// Remove the labels, taints and objects that winpool added, after it was uninstalled
    Cleanup(cleanup::Args),
    /// Explain a code of winpool lint, a condition, a reason, a symptom or a known issue
    Explain(explain::Args),
    /// Print the completion script of a shell, or of kubectl
    Completions(completions::Args),
    /// Print the words that complete a command line, for completion scripts
    #[command(name = "__complete", hide = true)]
    Complete(completions::CompleteArgs),
    /// Write the manual pages
    Man(completions::ManArgs),
    /// Print the version, and the newest minor of Kubernetes whose sources were read
    Version,
}

impl Cli {
    /// The arguments of this process. Invalid ones end it, with the reason on stderr and exit status 2.
    pub fn of_process() -> Self {
        let typed = program::command().try_get_matches().and_then(|matches| Self::from_arg_matches(&matches));
        typed.unwrap_or_else(|error| {
            Color::among(&typed_words()).apply();
            error.exit()
        })
    }

    /// Runs the command, prints its failure to stderr and returns the exit status.
    pub fn run(self) -> ExitCode {
        self.color.apply();
        // The operator logs the warning.
        let warning = tables::old(today()).filter(|_| !matches!(self.command, Command::Run(_) | Command::Complete(_)));
        warning.iter().for_each(|text| input::note(text));
        let result = match self.command {
            Command::Run(args) => run::run(args),
            Command::Crds(args) => crds::run(args),
            Command::Policies(args) => policies::run(args),
            Command::Render(args) => render::run(args),
            Command::Status(args) => status::run(args),
            Command::Check(args) => check::run(args),
            Command::Doctor(args) => doctor::run(args),
            Command::Plan(args) => plan::run(args),
            Command::Lint(args) => lint::Settings::try_from(args).and_then(lint::run),
            Command::Migrate(args) => migrate::run(args),
            Command::Verify(args) => verify::run(args),
            Command::Recommend(args) => recommend::run(args),
            Command::Adopt(args) => adopt::run(args),
            Command::Cleanup(args) => cleanup::run(args),
            Command::Explain(args) => explain::run(args),
            Command::Completions(args) => completions::run(&args),
            Command::Complete(args) => completions::complete(&args),
            Command::Man(args) => completions::write_manual(&args),
            Command::Version => output::print(&version()),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                input::note(&failure.with_place(&connect::Args::among(&typed_words())));
                failure.status()
            }
        }
    }
}

/// The arguments of this process that are Unicode.
fn typed_words() -> Vec<String> {
    env::args_os().filter_map(|word| word.into_string().ok()).collect()
}

/// The value of an option among words that are typed, of which others are unknown: `--option VALUE` or `--option=VALUE`.
fn typed_value(words: &[String], option: &str) -> Option<String> {
    let after = |(index, word): (usize, &String)| match word.strip_prefix(option)? {
        "" => words.get(index + 1).cloned(),
        rest => rest.strip_prefix('=').map(str::to_owned),
    };
    words.iter().enumerate().find_map(after)
}

/// What `winpool version` prints.
fn version() -> String {
    let (version, newest) = (env!("CARGO_PKG_VERSION"), feature_gates::NEWEST_READ);
    format!("winpool {version}\nKubernetes up to {newest} was read\n{}", tables::known_good(today()))
}

/// The present day in UTC, or the value of `WINPOOL_TODAY` for reproducible output.
fn today() -> Date {
    let fixed = std::env::var("WINPOOL_TODAY").ok().and_then(|text| text.parse().ok());
    fixed.unwrap_or_else(|| Zoned::now().with_time_zone(TimeZone::UTC).date())
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Problems were found: exit status 1.
    #[error("{0}")]
    Problems(String),
    /// The options are invalid, or a file cannot be read or written: exit status 2.
    #[error("{0}")]
    Usage(String),
    /// The cluster could not be reached or refused a request: exit status 3.
    #[error("{0}")]
    Cluster(String),
    /// Another replica of the operator may write now: exit status 4.
    #[error("{0}")]
    NotLeader(String),
    /// The API server is older than winpool supports: exit status 5.
    #[error("{0}")]
    Unsupported(String),
    /// A bug in winpool: exit status 101, as after a panic.
    #[error("{0}")]
    Internal(String),
    /// A second signal of this name interrupted the shutdown: exit status 130, as in shells.
    #[error("received {0} twice, stopped immediately")]
    Interrupted(&'static str),
}

impl From<ListError> for CommandError {
    fn from(error: ListError) -> Self {
        Self::Cluster(error.to_string())
    }
}

impl CommandError {
    /// The text of the failure. If the cluster is its cause: with context and server.
    fn with_place(&self, cluster: &connect::Args) -> String {
        let place = matches!(self, Self::Cluster(_)).then(|| cluster.place()).flatten();
        place.map_or_else(|| self.to_string(), |place| format!("{self} ({place})"))
    }

    pub fn status(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Problems(_) => 1,
            Self::Usage(_) => 2,
            Self::Cluster(_) => 3,
            Self::NotLeader(_) => 4,
            Self::Unsupported(_) => 5,
            Self::Internal(_) => 101,
            Self::Interrupted(_) => 130,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_and_option_has_help() {
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
    fn an_unknown_command_is_a_usage_error() {
        let usage = ExitCode::from(2);
        let error = Cli::try_parse_from(["winpool", "fly"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert_eq!(format!("{:?}", CommandError::Usage("no".into()).status()), format!("{usage:?}"));
    }
}
