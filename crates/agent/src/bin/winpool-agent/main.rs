//! The agent of winpool on a Windows node.

#![allow(clippy::disallowed_methods)] // I/O, and time

#[cfg(windows)]
mod log;
#[cfg(windows)]
mod node;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::{Parser, Subcommand};
use winpool_api::names::DEFAULT_NAMESPACE;
use winpool_core::kubernetes::duration;
use winpool_render::allowances::AllowedHost;

/// Applies the configuration of a WindowsNodeConfig to the Windows node that it runs on
#[derive(Debug, Parser)]
#[command(name = "winpool-agent", version, max_term_width = 110, after_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    action: Action,
}

const EXIT_STATUS: &str = "Exit status: 0 success, 1 the node could not be changed, 2 usage error, \
    3 the cluster could not be reached or refused the request.";

#[derive(Debug, Subcommand)]
#[cfg_attr(not(windows), allow(dead_code))] // the agent configures Windows
enum Action {
    /// Apply the configuration of this node's WindowsNodeConfig, verify it, and roll it back if it does not work
    Run(RunArgs),
    /// Restore the configuration that the node had before a change that is not confirmed yet
    Restore(RestoreArgs),
    /// Restore the configuration that the node had before the first change, and remove the files of the agent. Stop the agent
    /// before
    Uninstall(LimitArgs),
}

#[derive(Debug, clap::Args)]
#[cfg_attr(not(windows), allow(dead_code))]
struct RunArgs {
    /// The name of the node
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node: String,
    /// The namespace of the operator, where it stores ConfigMaps
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// A host to which a configuration may send image pulls, names of pods and proxied connections: HOST, HOST:PORT, *.DOMAIN or *, with
    /// http:// before it if its certificate need not be verified; may be repeated
    #[arg(long, env = "WINPOOL_ALLOW_HOSTS", value_name = "HOST", value_delimiter = ',')]
    allow_hosts: Vec<AllowedHost>,
    #[command(flatten)]
    limits: LimitArgs,
    /// How often to compare the node with the applied configuration, and to check a refused one again
    #[arg(long, env = "WINPOOL_CHECK_INTERVAL", value_name = "DURATION", default_value = "5m", value_parser = positive)]
    check_interval: Duration,
    /// The log level (error, warn, info, debug, trace), or levels by module such as info,winpool=debug
    #[arg(
        long,
        env = "WINPOOL_LOG",
        value_name = "FILTER",
        default_value = "info,kube_client=error,kube_runtime=error"
    )]
    log: String,
}

/// The time limits of a change. How long the operator may take to confirm it is in the WindowsNodeConfig.
#[derive(Debug, clap::Args)]
#[cfg_attr(not(windows), allow(dead_code))]
struct LimitArgs {
    /// How long a service may take to stop before its processes are killed, and to start
    #[arg(long, env = "WINPOOL_SERVICE_TIMEOUT", value_name = "DURATION", default_value = "1m", value_parser = positive)]
    service_timeout: Duration,
    /// How long the restarted services must be healthy without interruption
    #[arg(long, env = "WINPOOL_STABLE", value_name = "DURATION", default_value = "15s", value_parser = positive)]
    stable: Duration,
    /// How long the restarted services may take to be healthy, before the change is rolled back
    #[arg(long, env = "WINPOOL_VERIFY_TIMEOUT", value_name = "DURATION", default_value = "3m", value_parser = positive)]
    verify_timeout: Duration,
}

/// A duration in the format of Go that is not zero.
fn positive(text: &str) -> Result<Duration, &'static str> {
    let nanos = duration::parse(text).and_then(|nanos| u64::try_from(nanos).ok()).filter(|nanos| *nanos > 0);
    nanos.map(Duration::from_nanos).ok_or("write a number and a unit, such as 15s or 1m30s")
}

#[derive(Debug, clap::Args)]
#[cfg_attr(not(windows), allow(dead_code))]
struct RestoreArgs {
    /// Run as the Windows service that the agent installs while a change is not confirmed
    #[arg(long)]
    service: bool,
}

/// Why the program ends.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(windows), allow(dead_code))]
enum Failure {
    /// The node could not be changed: exit status 1.
    #[error("this node: {0}")]
    Node(#[from] std::io::Error),
    /// The options are invalid, or the program cannot run here: exit status 2.
    #[error("{0}")]
    Usage(String),
    /// The cluster could not be reached or refused a request: exit status 3.
    #[error("{0}")]
    Cluster(String),
}

fn main() -> ExitCode {
    match node::run(Cli::parse().action) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody may read it.
            let _ = writeln!(io::stderr(), "winpool-agent: {failure}");
            ExitCode::from(match failure {
                Failure::Node(_) => 1,
                Failure::Usage(_) => 2,
                Failure::Cluster(_) => 3,
            })
        }
    }
}

#[cfg(not(windows))]
mod node {
    use super::{Action, Failure};

    pub fn run(_: Action) -> Result<(), Failure> {
        Err(Failure::Usage("the agent configures Windows nodes: run it on Windows, as config/agent does".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

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
    fn a_duration_has_units_and_is_not_zero() {
        for (text, expected) in [("15s", Some(15_000)), ("1m30s", Some(90_000)), ("0", None), ("15", None), ("", None)]
        {
            assert_eq!(positive(text).ok(), expected.map(Duration::from_millis), "{text}");
        }
    }
}
