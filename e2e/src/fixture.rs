//! One control plane and one operator for many tests, with separate objects for each test.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    audit::Request,
    cluster::{Cluster, NODE_LABEL, SOON, pool_spec, with_fields},
    control_plane::{ControlPlane, Options},
    kubelet::{Kubelets, SimulatedNode},
    operator::Operator,
    wait::{eventually, stays},
};

/// A fixture is idle if none of its objects was written for this time.
const IDLE: Duration = Duration::from_millis(600);
/// How long the operator must not write while the kubelets of an idle fixture report.
const REPORTING: Duration = Duration::from_millis(1500);

/// A control plane with the operator's resources, and the operator. It owns no client, so many `#[tokio::test]`s can
/// use one that is [`Shared`](crate::shared::Shared); each connects to it with a [`Fixture`]. The operator is the first field,
/// so that it is dropped first.
#[derive(Debug)]
pub struct SharedCluster {
    pub operator: Operator,
    pub control_plane: Arc<ControlPlane>,
}

impl SharedCluster {
    /// Starts both; `arguments` are the operator's.
    pub async fn start(options: Options, arguments: &[&str]) -> Result<Self> {
        let control_plane = ControlPlane::start_installed(options).await?;
        let operator = Operator::start(&control_plane, arguments, &[]).await?;
        Ok(Self { operator, control_plane: Arc::new(control_plane) })
    }
}

/// The objects of one test in a shared cluster. Their names begin with the name of the fixture.
pub struct Fixture {
    pub name: &'static str,
    pub kubelets: Kubelets,
    pub shared: Arc<SharedCluster>,
    cluster: Cluster,
    nodes: Vec<String>,
}

impl Deref for Fixture {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

/// A node `<fixture>-<number>`, labelled `agentpool=<fixture>`.
pub fn windows(fixture: &str, number: u32, kernel_version: &str) -> SimulatedNode {
    SimulatedNode::windows(&format!("{fixture}-{number}"), kernel_version).label(NODE_LABEL, fixture)
}

/// [`pool_spec`] with one RuntimeClass that has the name of the pool: the default name, which contains the Windows
/// version, would be shared with other tests.
pub fn spec(name: &str, fields: Value) -> Value {
    with_fields(pool_spec(name, json!({ "runtimeClasses": [{ "name": name }] })), fields)
}

impl Fixture {
    pub async fn new(shared: Arc<SharedCluster>, name: &'static str, nodes: Vec<SimulatedNode>) -> Result<Self> {
        let cluster = Cluster::connect(shared.control_plane.clone()).await?;
        let names = nodes.iter().map(|node| node.name.clone()).collect();
        let kubelets = cluster.start_kubelets(nodes).await?;
        Ok(Self { name, kubelets, shared, cluster, nodes: names })
    }

    /// Creates a fixture with one node of Windows Server 2022, `<fixture>-1`.
    pub async fn with_one_node(shared: Arc<SharedCluster>, name: &'static str) -> Result<Self> {
        Self::new(shared, name, vec![windows(name, 1, "10.0.20348.2700")]).await
    }

    /// The operator's writes to objects of this fixture.
    pub fn own_writes(&self) -> Result<Vec<Request>> {
        Ok(self.writes()?.into_iter().filter(|write| write.name.starts_with(self.name)).collect())
    }

    /// Makes every kubelet report, and changes a label that no pool uses on every node, so that the operator
    /// reconciles.
    pub async fn report(&self) -> Result<()> {
        static REPORTS: AtomicU32 = AtomicU32::new(0);
        let number = REPORTS.fetch_add(1, Ordering::Relaxed).to_string();
        for node in &self.nodes {
            self.kubelets.change(node, |_| ()).await?;
            let patch = json!({ "metadata": { "labels": { "example.com/report": number } } });
            self.nodes().patch_metadata(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(())
    }

    /// Waits until the operator writes no object of this fixture, also while the kubelets report. It always writes some if it
    /// writes again what is unchanged.
    pub async fn until_idle(&self) -> Result<()> {
        let idle = || async {
            let before = self.writes_until_idle(IDLE, |write| write.name.starts_with(self.name)).await?;
            let fresh = || async {
                self.report().await?;
                Ok(self.own_writes()?.split_off(before))
            };
            stays("nothing that is unchanged is written again", REPORTING, fresh, Vec::is_empty).await
        };
        eventually("nothing that is unchanged is written again", SOON, idle).await
    }
}
