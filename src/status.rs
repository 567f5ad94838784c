//! `winpool status`: what is wrong with pools, the worst first, and how far their rollouts are. Read-only.

pub(super) mod read;
mod text;
mod watch;

use std::collections::BTreeSet;

use read::Reader;
use winpool_api::names::DEFAULT_NAMESPACE;

use super::{
    CommandError, connect, input,
    output::{self, ReportFormat},
    pools::check_names,
    progress::Progress,
};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is 0 if no pool has a problem, and 1 if one has. More than four problems of several pools are one \
                        line each: name a pool for all about it. With --watch the command ends when no rollout runs any more."
)]
pub(super) struct Args {
    /// The pools to report on [default: all pools, and Windows nodes in no pool]
    #[arg(value_name = "POOL")]
    pools: Vec<String>,
    /// Print the progress of rollouts and rotations until none runs, then the status
    #[arg(short, long)]
    watch: bool,
    /// Also print the capacity of each pool: pods, addresses, requests and volumes. It reads all pods
    #[arg(long)]
    capacity: bool,
    /// The namespace of the operator
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// The output format. With --watch, JSON and YAML have the final status only
    #[arg(short, long, value_enum, default_value_t)]
    output: ReportFormat,
    #[command(flatten)]
    cluster: connect::Args,
}

/// Prints the status. Fails if a pool has a problem, or does not exist.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let Args { pools, watch, capacity, namespace, output: format, cluster } = args;
    let namespace = input::namespace(namespace)?;
    let names: BTreeSet<String> = pools.into_iter().collect();
    let overview = connect::runtime()?.block_on(async {
        let progress = Progress::start("reading the cluster", "request");
        let reader = Reader { client: progress.counting(cluster.client().await?), namespace, names, capacity };
        let pools = reader.pools().await?;
        check_names("", reader.names.iter().map(String::as_str), pools.names())?;
        let overview = reader.overview(pools.clone()).await;
        drop(progress);
        match watch {
            true => watch::until_done(&reader, pools, overview, format == ReportFormat::Text).await,
            false => Ok(overview),
        }
    })?;
    output::report(format, &overview, |all| text::text(all, output::terminal_width()), overview.summary())
}
