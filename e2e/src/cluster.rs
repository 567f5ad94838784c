//! A control plane with a client for it, and the operations that tests and programs need. What waits (`until_…`,
//! `apply_pool_and_wait`) does so for at most [`SOON`].

mod nodes;
mod pools;
mod requests;

use std::{fmt::Debug, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope,
    api::{
        authentication::v1::TokenRequest,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Node, ServiceAccount},
        node::v1::RuntimeClass,
    },
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use winpool_api::{WindowsNodePool, WindowsRuntimeProfile, names::annotation};
use winpool_facts::known_issues::KNOWN_ISSUES;

use crate::{
    control_plane::{ControlPlane, OPERATOR_NAMESPACE, Options, User},
    install::CRDS,
    kubectl::{kubectl, kubectl_with_input},
    kubelet::{Kubelets, SimulatedNode},
    operator::Operator,
};

/// The time limit for a change by the operator. Most changes take less than a second; a busy machine needs much longer.
pub const SOON: Duration = Duration::from_secs(600);
/// The time limit for a status in which only counts change, which is written every half minute.
pub const COUNTED: Duration = Duration::from_secs(600);
/// Key and value of the taint that pools set by default.
pub const OS_WINDOWS: (&str, &str) = ("os", "windows");
pub const DEFAULT_TAINT: &str = "os=windows:NoSchedule";
/// The label with the pool of a node, which the operator sets.
pub const POOL_LABEL: &str = "winpool.dev/pool";
/// The label with which the pools of tests select their nodes.
pub const NODE_LABEL: &str = "agentpool";

/// A control plane, and a client with all permissions. The client belongs to the async runtime in which it was created;
/// the control plane ends when its last `Arc` is dropped.
#[derive(Clone)]
pub struct Cluster {
    pub control_plane: Arc<ControlPlane>,
    pub client: Client,
}

impl Cluster {
    /// Starts a control plane without scheduler and controller manager, and installs `crds/` and `config/default`.
    pub async fn start() -> Result<Self> {
        Self::start_with(Options::api_server_only()).await
    }

    /// Like [`Self::start`], with these programs and arguments.
    pub async fn start_with(options: Options) -> Result<Self> {
        Self::connect(Arc::new(ControlPlane::start_installed(options).await?)).await
    }

    /// Creates a client for a running control plane.
    pub async fn connect(control_plane: Arc<ControlPlane>) -> Result<Self> {
        let client = control_plane.client(User::Admin).await?;
        Ok(Self { control_plane, client })
    }

    pub async fn start_operator(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Operator> {
        Operator::start(&self.control_plane, arguments, environment).await
    }

    pub async fn start_kubelets(&self, nodes: Vec<SimulatedNode>) -> Result<Kubelets> {
        Kubelets::start(self.client.clone(), nodes).await
    }

    /// Runs `kubectl` with all permissions, and returns its standard output.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl(&self.control_plane, User::Admin, arguments)
    }

    /// Deletes the shipped CustomResourceDefinitions, and with them every pool and profile.
    pub fn delete_crds(&self) -> Result<()> {
        self.kubectl(&[&["delete"], &CRDS[..]].concat()).map(drop)
    }

    /// [`Self::kubectl`] with an object on its standard input, for `apply -f -`.
    pub fn kubectl_with_input(&self, arguments: &[&str], input: &Value) -> Result<String> {
        kubectl_with_input(&self.control_plane, User::Admin, arguments, &input.to_string())
    }
}

/// Objects.
impl Cluster {
    /// The objects of a cluster-scoped kind.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = ClusterResourceScope>,
        K::DynamicType: Default,
    {
        Api::all(self.client.clone())
    }

    /// The objects of a kind in a namespace.
    pub fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The host of the operator that holds the Lease; that of a pod is its name.
    pub async fn leader(&self) -> Result<String> {
        let lease = self.namespaced::<Lease>(OPERATOR_NAMESPACE).get("winpool").await?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        // Random digits follow.
        Ok(holder.rsplit_once('_').context("no leader")?.0.to_owned())
    }

    /// A token of a ServiceAccount.
    pub async fn token(&self, namespace: &str, account: &str) -> Result<String> {
        let accounts = self.namespaced::<ServiceAccount>(namespace);
        let request = TokenRequest::default();
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        Ok(answer.status.context("the token")?.token)
    }

    pub fn nodes(&self) -> Api<Node> {
        self.api()
    }

    pub fn classes(&self) -> Api<RuntimeClass> {
        self.api()
    }

    /// The ConfigMaps in the operator's namespace.
    pub fn config_maps(&self) -> Api<ConfigMap> {
        self.namespaced(OPERATOR_NAMESPACE)
    }

    /// The WindowsNodePools as dynamic objects, because some may not match the operator's types.
    pub fn pools(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<WindowsNodePool>(&()))
    }

    /// The WindowsRuntimeProfiles as dynamic objects, because some may not match the operator's types.
    pub fn profiles(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<WindowsRuntimeProfile>(&()))
    }

    /// Applies a profile with server-side apply.
    pub async fn apply_profile(&self, name: &str, spec: Value) -> Result<()> {
        apply(&self.profiles(), profile_object(name, spec)).await
    }

    /// Applies a pool with server-side apply.
    pub async fn apply_pool(&self, name: &str, spec: Value) -> Result<()> {
        apply(&self.pools(), pool_object(name, spec)).await
    }
}

/// The specification of a pool for Windows Server 2022 that selects the nodes labelled `agentpool=<name>`, with further
/// fields or others; `null` removes a field.
pub fn pool_spec(name: &str, fields: Value) -> Value {
    let spec = json!({ "windowsVersion": "ltsc2022", "nodeSelector": { "matchLabels": { NODE_LABEL: name } } });
    with_fields(spec, fields)
}

/// Merges `fields` into an object; `null` removes a field.
pub fn with_fields(mut object: Value, fields: Value) -> Value {
    if let (Some(all), Value::Object(fields)) = (object.as_object_mut(), fields) {
        all.extend(fields);
        all.retain(|_, value| !value.is_null());
    }
    object
}

/// A pool with this specification; without one if it is `null`. It acknowledges every known issue, because the versions of
/// simulated nodes are those of the server under test, and old ones have many.
pub fn pool_object(name: &str, spec: Value) -> Value {
    let issues: Vec<_> = KNOWN_ISSUES.iter().map(|issue| issue.entry.code).collect();
    let mut pool = custom_object("WindowsNodePool", name, spec);
    pool["metadata"]["annotations"] = json!({ annotation::ACKNOWLEDGE_ISSUES: issues.join(",") });
    pool
}

/// A profile with this specification; without one if it is `null`.
pub fn profile_object(name: &str, spec: Value) -> Value {
    custom_object("WindowsRuntimeProfile", name, spec)
}

fn custom_object(kind: &str, name: &str, spec: Value) -> Value {
    let object = json!({ "apiVersion": "winpool.dev/v1alpha1", "kind": kind, "metadata": { "name": name } });
    with_fields(object, json!({ "spec": spec }))
}

async fn apply(api: &Api<DynamicObject>, object: Value) -> Result<()> {
    let name = object["metadata"]["name"].as_str().context("a name")?.to_owned();
    api.patch(&name, &PatchParams::apply("a-person").force(), &Patch::Apply(object)).await?;
    Ok(())
}

pub async fn create<K>(api: &Api<K>, object: Value) -> Result<K>
where
    K: Clone + Serialize + DeserializeOwned + Debug,
{
    Ok(api.create(&PostParams::default(), &serde_json::from_value(object)?).await?)
}

/// Changes an object with a merge patch, like a manual edit.
pub async fn edit<K>(api: &Api<K>, name: &str, patch: Value) -> Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
