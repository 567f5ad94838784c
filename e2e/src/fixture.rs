//! One control plane and one operator for many tests, and for each test objects of its own in it.

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
    cluster::{Cluster, NODE_LABEL, pool_spec, with_fields},
    control_plane::{ControlPlane, Options},
    install::install,
    kubelet::{Kubelets, SimulatedNode},
    operator::Operator,
    wait::stays,
};

/// How long nothing of a fixture has to be written until it counts as idle.
const IDLE: Duration = Duration::from_millis(600);
/// How long the kubelets of an idle fixture report, and nothing may be written.
const REPORTING: Duration = Duration::from_millis(1500);

/// A control plane with the operator's resources, and the operator. It owns no client, so one in a `static` can serve many
/// `#[tokio::test]`s; each connects to it by a [`Fixture`]. The operator comes first, so that it ends first.
#[derive(Clone, Debug)]
pub struct SharedCluster {
    /// The operator.
    pub operator: Arc<Operator>,
    /// The control plane.
    pub control_plane: Arc<ControlPlane>,
}

impl SharedCluster {
    /// Starts both, the operator with these arguments.
    ///
    /// # Errors
    /// When either does not become ready.
    pub async fn start(options: Options, arguments: &[&str]) -> Result<Self> {
        let control_plane = ControlPlane::start(options).await?;
        install(&control_plane)?;
        let operator = Operator::start(&control_plane, arguments, &[]).await?;
        Ok(Self { operator: Arc::new(operator), control_plane: Arc::new(control_plane) })
    }
}

/// The objects of one test in a cluster that it shares: the name of each begins with the name of the fixture.
pub struct Fixture {
    /// The name.
    pub name: &'static str,
    /// The kubelets of the nodes.
    pub kubelets: Kubelets,
    /// The operator.
    pub operator: Arc<Operator>,
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
#[must_use]
pub fn windows(fixture: &str, number: u32, kernel_version: &str) -> SimulatedNode {
    SimulatedNode::windows(&format!("{fixture}-{number}"), kernel_version).label(NODE_LABEL, fixture)
}

/// [`pool_spec`] with one RuntimeClass, named as the pool: the one by the name of the Windows version would be shared with
/// other tests.
#[must_use]
pub fn spec(name: &str, fields: Value) -> Value {
    with_fields(pool_spec(name, json!({ "runtimeClasses": [{ "name": name }] })), fields)
}

impl Fixture {
    /// Begins with these nodes.
    pub async fn new(shared: &SharedCluster, name: &'static str, nodes: Vec<SimulatedNode>) -> Result<Self> {
        let cluster = Cluster::connect(shared.control_plane.clone()).await?;
        let names = nodes.iter().map(|node| node.name.clone()).collect();
        let kubelets = cluster.start_kubelets(nodes).await?;
        Ok(Self { name, kubelets, operator: shared.operator.clone(), cluster, nodes: names })
    }

    /// Begins with one node of Windows Server 2022, `<fixture>-1`.
    pub async fn with_one_node(shared: &SharedCluster, name: &'static str) -> Result<Self> {
        Self::new(shared, name, vec![windows(name, 1, "10.0.20348.2700")]).await
    }

    /// Registers further nodes.
    pub async fn add_nodes(&mut self, nodes: Vec<SimulatedNode>) -> Result<()> {
        self.nodes.extend(nodes.iter().map(|node| node.name.clone()));
        self.kubelets.add(nodes).await
    }

    /// What the operator has written of this fixture.
    pub fn own_writes(&self) -> Result<Vec<Request>> {
        Ok(self.writes()?.into_iter().filter(|write| write.name.starts_with(self.name)).collect())
    }

    /// How often the operator has changed a node.
    pub fn changes_of(&self, node: &str) -> Result<usize> {
        Ok(self.node_changes()?.remove(node).unwrap_or_default())
    }

    /// Every kubelet reports, and a label that concerns no pool changes on every node, so that the operator reconciles.
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

    /// Waits until nothing of this fixture is written any more, and checks that it stays so while its kubelets report.
    pub async fn until_idle(&self) -> Result<()> {
        let before = self.settled_writes(IDLE, |write| write.name.starts_with(self.name)).await?;
        let fresh = || async {
            self.report().await?;
            Ok(self.own_writes()?.split_off(before))
        };
        stays("nothing that is unchanged is written again", REPORTING, fresh, Vec::is_empty).await
    }
}
