//! The workloads of a cluster, for the commands that can do without them.

use kube::Client;
use winpool_operator::cluster;
use winpool_rules::pool::Snapshot;

use super::input;

/// Adds the workloads to a snapshot. If they cannot be read, prints what follows from that, and returns the snapshot
/// without them.
pub(super) async fn added(client: &Client, snapshot: Snapshot, consequence: &str) -> Snapshot {
    match cluster::list_workloads(client).await {
        Ok((pods, controllers)) => Snapshot { pods: Some(pods), controllers, ..snapshot },
        Err(error) => {
            input::note(&format!("{consequence}: {error}"));
            snapshot
        }
    }
}
