//! The adoption of a fleet that others have tainted: with each taint in use, with Deployments, DaemonSets and RuntimeClasses made
//! by hand. A watch of all pods and nodes shows that no pod was ever Pending because of winpool.

mod classes;
mod fleet;
mod steps;
mod triggers;

use std::sync::Arc;

use anyhow::Result;
use e2e::{cluster::Cluster, control_plane::Options, fixture::SharedCluster, shared::Shared};

/// Windows Server 2022.
const SERVER_2022: &str = "10.0.20348.2700";

async fn shared() -> Arc<SharedCluster> {
    static SHARED: Shared<SharedCluster> = Shared::new();
    // The images are in no registry.
    SHARED.get(async || SharedCluster::start(Options::default(), &["--registry=off"]).await).await.unwrap()
}

async fn connect(shared: &SharedCluster) -> Result<Cluster> {
    Cluster::connect(shared.control_plane.clone()).await
}
