//! A control plane with the operator's resources installed, and the questions that tests ask of it.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, anyhow, ensure};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    audit::Request,
    control_plane::{ControlPlane, Options, User},
    install::install,
    wait::{eventually, stays, until},
};

/// How long anything that the operator has to bring about may take.
pub const SOON: Duration = Duration::from_secs(60);
/// The label by which the operator says which pool a node is in.
pub const POOL_LABEL: &str = "winpool.dev/pool";
/// How long the operator has to write nothing to count as at rest.
const REST: Duration = Duration::from_secs(2);

/// A control plane with the operator's resources installed.
pub struct World {
    /// The control plane.
    pub control_plane: ControlPlane,
    /// A client that may do everything.
    pub client: Client,
}

/// A condition of one of the operator's resources.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Condition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The stable reason.
    pub reason: String,
    /// The words.
    pub message: String,
}

impl World {
    /// Starts a control plane without scheduler and controller manager, and installs `crds/` and `config/default`.
    ///
    /// # Errors
    /// When either does not work.
    pub async fn start() -> Result<Self> {
        let world = Self::bare().await?;
        install(&world.control_plane)?;
        Ok(world)
    }

    /// Starts the same control plane and installs nothing.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn bare() -> Result<Self> {
        let control_plane = ControlPlane::start(Options::api_server_only()).await?;
        let client = control_plane.client(User::Admin).await?;
        Ok(Self { control_plane, client })
    }

    /// The Nodes.
    #[must_use]
    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// The objects of a kind of `winpool.dev/v1alpha1`.
    #[must_use]
    pub fn custom(&self, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "winpool.dev".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "winpool.dev/v1alpha1".to_owned(),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
        };
        Api::all_with(self.client.clone(), &resource)
    }

    /// The WindowsNodePools.
    #[must_use]
    pub fn pools(&self) -> Api<DynamicObject> {
        self.custom("WindowsNodePool")
    }

    /// Applies an object of `winpool.dev/v1alpha1` as a person does who keeps it in Git.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn apply(&self, kind: &str, name: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "winpool.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec,
        });
        self.custom(kind).patch(name, &PatchParams::apply("a-person").force(), &Patch::Apply(object)).await?;
        Ok(())
    }

    /// Applies a pool of the nodes labelled `agentpool=<name>`, with one NoSchedule taint.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn apply_pool(&self, name: &str, windows_version: &str, taint: (&str, &str)) -> Result<()> {
        let (key, value) = taint;
        let spec = json!({
            "windowsVersion": windows_version,
            "nodeSelector": { "matchLabels": { "agentpool": name } },
            "taints": [{ "key": key, "value": value, "effect": "NoSchedule" }],
        });
        self.apply("WindowsNodePool", name, &spec).await
    }

    /// A pool as it is now.
    ///
    /// # Errors
    /// When there is none.
    pub async fn pool(&self, name: &str) -> Result<Value> {
        Ok(serde_json::to_value(self.pools().get(name).await?)?)
    }

    /// A condition of a pool, for the generation that it has now.
    ///
    /// # Errors
    /// When the operator has not yet said it.
    pub async fn condition(&self, pool: &str, kind: &str) -> Result<Condition> {
        let object = self.pool(pool).await?;
        let generation = &object["metadata"]["generation"];
        let conditions = object["status"]["conditions"].as_array();
        let told = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
        let told = told.ok_or_else(|| anyhow!("pool {pool} has no condition {kind}: {}", object["status"]))?;
        ensure!(told["observedGeneration"] == *generation, "pool {pool}: {told} is not about generation {generation}");
        Ok(serde_json::from_value(told.clone())?)
    }

    /// Waits until a condition of a pool has this status and reason, and returns it.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn until_condition(&self, pool: &str, kind: &str, status: &str, reason: &str) -> Result<Condition> {
        let wish = format!("pool {pool} has {kind}={status}/{reason}");
        let holds = |told: &Condition| told.status == status && told.reason == reason;
        until(&wish, SOON, || self.condition(pool, kind), holds).await
    }

    /// Waits until a pool says that all is as its present spec asks.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn until_as_specified(&self, pool: &str) -> Result<()> {
        self.until_condition(pool, "Ready", "True", "AsSpecified").await.map(drop)
    }

    /// The names of the nodes of a pool that carry a taint of this key and value.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn guarded(&self, pool: &str, taint: (&str, &str)) -> Result<Vec<String>> {
        let nodes = self.nodes().list(&ListParams::default().labels(&format!("{POOL_LABEL}={pool}"))).await?;
        let guarded = nodes.items.into_iter().filter(|node| has_taint(node, taint.0, taint.1));
        Ok(guarded.filter_map(|node| node.metadata.name).collect())
    }

    /// Waits until `count` nodes of a pool carry a taint.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn until_guarded(&self, pool: &str, taint: (&str, &str), count: usize) -> Result<()> {
        let wish = format!("{count} nodes of pool {pool} have the taint {taint:?}");
        let number = || async { Ok(self.guarded(pool, taint).await?.len()) };
        until(&wish, SOON, number, |number| *number == count).await.map(drop)
    }

    /// What the operator has written, refused requests too.
    ///
    /// # Errors
    /// When the audit log cannot be read.
    pub fn writes(&self) -> Result<Vec<Request>> {
        Ok(self.requests()?.into_iter().filter(Request::is_write).collect())
    }

    /// How often the operator has changed each node.
    ///
    /// # Errors
    /// When the audit log cannot be read.
    pub fn node_changes(&self) -> Result<BTreeMap<String, usize>> {
        let mut changes = BTreeMap::new();
        for write in self.writes()?.into_iter().filter(|write| write.resource == "nodes" && write.code < 300) {
            *changes.entry(write.name).or_default() += 1;
        }
        Ok(changes)
    }

    /// Waits until the operator is at rest, and holds it to that: it writes nothing.
    ///
    /// # Errors
    /// When it does not come to rest, or writes again.
    pub async fn until_quiet(&self) -> Result<()> {
        self.until_quiet_about(|_| true).await
    }

    /// [`Self::until_quiet`], as far as the writes that concern the caller go.
    ///
    /// # Errors
    /// When it does not come to rest, or writes again.
    pub async fn until_quiet_about(&self, concerns: impl Fn(&Request) -> bool) -> Result<()> {
        let writes = || async { Ok(self.writes()?.into_iter().filter(&concerns).collect::<Vec<_>>()) };
        let rests = || async {
            let before = writes().await?.len();
            stays("nothing is written", REST, writes, |now| now.len() == before).await
        };
        eventually("the operator has nothing left to write", SOON, rests).await?;
        let before = writes().await?.len();
        let fresh = || async { Ok(writes().await?.split_off(before)) };
        stays("an unchanged world is not written to", REST, fresh, Vec::is_empty).await
    }

    /// Holds the operator to the shipped RBAC: nothing that it asked for was forbidden.
    ///
    /// # Errors
    /// With what was.
    pub fn nothing_was_forbidden(&self) -> Result<()> {
        let forbidden: Vec<_> = self.requests()?.into_iter().filter(Request::is_forbidden).collect();
        ensure!(forbidden.is_empty(), "the shipped RBAC does not allow {forbidden:#?}");
        Ok(())
    }

    fn requests(&self) -> Result<Vec<Request>> {
        self.control_plane.requests_of(User::Operator)
    }
}

/// The taints of a node.
pub fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Whether a node has a taint of this key and value.
#[must_use]
pub fn has_taint(node: &Node, key: &str, value: &str) -> bool {
    taints(node).iter().any(|taint| taint.key == key && taint.value.as_deref().unwrap_or_default() == value)
}
