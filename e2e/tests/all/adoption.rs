//! The adoption of a fleet that others have tainted: with each taint in use, with Deployments, DaemonSets and RuntimeClasses made
//! by hand. A watch of all pods and nodes shows that no pod was ever Pending because of winpool.

mod classes;
mod fleet;
mod steps;
mod triggers;

use anyhow::Result;
use e2e::{cluster::Cluster, control_plane::Options, fixture::SharedCluster};
use tokio::sync::OnceCell;

/// Windows Server 2022.
const SERVER_2022: &str = "10.0.20348.2700";

async fn shared() -> &'static SharedCluster {
    static SHARED: OnceCell<SharedCluster> = OnceCell::const_new();
    // The images are in no registry.
    SHARED.get_or_init(async || SharedCluster::start(Options::default(), &["--registry=off"]).await.unwrap()).await
}

/// A cluster whose operator does not read workloads.
async fn without_workloads() -> &'static SharedCluster {
    static SHARED: OnceCell<SharedCluster> = OnceCell::const_new();
    SHARED.get_or_init(async || SharedCluster::start(Options::default(), &["--workloads=off"]).await.unwrap()).await
}

async fn connect(shared: &SharedCluster) -> Result<Cluster> {
    Cluster::connect(shared.control_plane.clone()).await
}
