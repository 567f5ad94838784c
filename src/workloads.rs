//! The objects of a cluster, for the commands that can do without some of them.

use kube::Client;
use winpool_operator::cluster;
use winpool_rules::pool::Snapshot;

use super::{CommandError, input};

/// The objects in the cluster. What of Cluster API may not be read is noted.
pub(super) async fn snapshot(client: &Client, namespace: &str) -> Result<Snapshot, CommandError> {
    let (snapshot, missing) = cluster::list_snapshot(client, namespace).await?;
    missing.iter().for_each(|error| input::note(&format!("what follows from Cluster API is not known: {error}")));
    Ok(snapshot)
}

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
