//! Pools: their specs, their nodes, and the plans that lead to their desired state.

pub mod affected;
pub mod assignment;
pub mod check;
pub mod classes;
pub mod cluster_api;
pub mod config_in_effect;
pub mod configs;
mod consents;
pub mod delivery;
mod evictions;
pub mod maintenance;
mod member;
pub mod membership;
mod node_config;
pub mod nodes;
pub mod plan;
pub mod relevance;
pub mod renderings;
pub mod rollout;
mod scheduling_state;
mod selector;
mod snapshot;
pub mod stranding;
pub mod taint_replacement;

use std::collections::BTreeMap;

use derive_more::Display;
use jiff::Timestamp;
use kube::core::DynamicObject;

pub use consents::{Consent, Consents};
pub use node_config::NodeConfigView;
pub use snapshot::{ConfigMapView, ProfileView, RuntimeClassView, Snapshot};

use winpool_api::{
    DeletionPolicy, DiagnosisRequest, LabelSelector, Mode, RuntimeClassIsolation, RuntimeClassScope, Taint, Toleration,
    WindowsNodePoolStatus, names::annotation,
};
use winpool_facts::Build;

use self::{cluster_api::ClusterApiRules, maintenance::MaintenanceWindows, rollout::RolloutRules};
use winpool_core::{Problem, ResourceVersion, kubernetes::quantity::Quantity, named, node::WindowsNode};
use winpool_render::allowances::Allowances;

/// A `WindowsNodePool`, parsed once when it is received.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    pub name: String,
    pub uid: String,
    pub resource_version: ResourceVersion,
    pub generation: i64,
    /// The `creationTimestamp`. The older pool takes precedence.
    pub created: Option<Timestamp>,
    pub deleting: bool,
    /// Whether the spec has `paused: true`, which made it invalid: then not even a cleanup is done.
    pub paused: bool,
    pub finalizers: Vec<String>,
    /// The changes that the annotations allow.
    pub consents: Consents,
    pub diagnosis_request: Option<DiagnosisRequest>,
    /// The parsed spec, or its problems.
    pub spec: Result<Spec, Vec<Problem>>,
    pub status: WindowsNodePoolStatus,
}

/// The parsed spec of a pool: all values are valid, and defaults are set.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub windows_version: String,
    pub build: Build,
    pub members: Members,
    pub profile: Option<String>,
    pub taints: Vec<Taint>,
    pub replaces_taints: Vec<Taint>,
    pub min_revision: u32,
    pub labels: BTreeMap<String, String>,
    /// Mistakes of single entries, which are not written. A stored pool with them is applied without the entries.
    pub refused: Vec<Problem>,
    pub runtime_classes: Vec<RuntimeClass>,
    /// How agents apply the configurations; `None` without agents.
    pub rollout: Option<RolloutRules>,
    /// The machines of Cluster API that become nodes; `None` if there are none.
    pub cluster_api: Option<ClusterApiRules>,
    /// When nodes may begin to change, and machines be replaced.
    pub maintenance: MaintenanceWindows,
    pub mode: Mode,
    pub deletion_policy: DeletionPolicy,
}

impl Spec {
    /// Whether winpool brings the configuration onto the nodes.
    pub fn delivers(&self) -> bool {
        self.rollout.is_some() || self.cluster_api.is_some()
    }
}

/// The nodes of a pool. Displayed as the argument of `kubectl get nodes -l`, or `fallback`.
#[derive(Clone, Debug, PartialEq, Display)]
pub enum Members {
    /// The Windows nodes that match the selector.
    Selector(LabelSelector),
    /// The Windows nodes that no other pool selects.
    #[display("fallback")]
    Fallback,
}

/// A RuntimeClass in the spec of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeClass {
    pub name: String,
    pub isolation: RuntimeClassIsolation,
    pub handler: String,
    pub scope: RuntimeClassScope,
    pub tolerations: Vec<Toleration>,
    pub overhead: BTreeMap<String, Quantity>,
    pub adopt: bool,
}

named!(Pool: name);

impl Pool {
    /// Parses a stored pool, which may have another schema.
    pub fn from_object(object: DynamicObject) -> Self {
        let DynamicObject { metadata, data, .. } = object;
        let name = metadata.name.unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        let spec = data.get("spec").cloned().unwrap_or_default();
        Self {
            paused: spec["paused"] == true,
            spec: check::spec(&name, spec),
            status: check::status(data.get("status")),
            name,
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.into(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            consents: Consents::read(&annotations),
            diagnosis_request: annotations.get(annotation::DIAGNOSE).and_then(|request| request.parse().ok()),
        }
    }

    /// The pool without the labels that are not allowed.
    #[must_use]
    pub fn within(self, allowances: &Allowances) -> Self {
        let checked = self.spec.map(|mut spec| {
            spec.refused.extend(spec.labels.keys().filter_map(|key| allowances.problem_of_label(key)));
            spec.labels.retain(|key, _| allowances.problem_of_label(key).is_none());
            spec
        });
        Self { spec: checked, ..self }
    }

    /// A deleted pool whose name is still in records.
    pub fn deleted(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            uid: String::new(),
            resource_version: ResourceVersion::default(),
            generation: 0,
            created: None,
            deleting: true,
            paused: false,
            finalizers: Vec::new(),
            consents: Consents::default(),
            diagnosis_request: None,
            spec: Err(Vec::new()),
            status: WindowsNodePoolStatus::default(),
        }
    }

    /// Whether changes are written: the spec is valid, and the mode is Enforce.
    pub fn enforces(&self) -> bool {
        self.spec.as_ref().is_ok_and(|spec| spec.mode == Mode::Enforce)
    }

    /// Whether the pool keeps its nodes: the mode is Enforce or unknown.
    pub fn keeps_nodes(&self) -> bool {
        self.spec.as_ref().map_or(true, |spec| spec.mode == Mode::Enforce)
    }

    /// The machines of Cluster API that become nodes of the pool, if it uses it.
    pub fn cluster_api(&self) -> Option<&ClusterApiRules> {
        self.spec.as_ref().ok()?.cluster_api.as_ref()
    }

    /// Whether the pool uses Cluster API, or has used it and may have to remove something.
    pub fn uses_cluster_api(&self) -> bool {
        self.cluster_api().is_some() || self.status.cluster_api.is_some()
    }

    /// Whether the pool writes objects of Cluster API in a namespace, or has written some that may be left.
    pub fn has_machines_in(&self, namespace: &str) -> bool {
        let now = self.cluster_api().map(|rules| rules.namespace.as_str());
        let before = self.status.cluster_api.as_ref().map(|status| status.namespace.as_str());
        [now, before].contains(&Some(namespace))
    }

    pub fn selects(&self, node: &WindowsNode) -> bool {
        let members = self.spec.as_ref().map(|spec| &spec.members);
        matches!(members, Ok(Members::Selector(selector)) if selector.matches(&node.labels))
    }

    /// Whether the pool takes the nodes that no selector matches.
    pub fn is_fallback(&self) -> bool {
        self.spec.as_ref().is_ok_and(|spec| spec.members == Members::Fallback)
    }

    /// The order of precedence: older pools first, then by name.
    pub fn precedence(&self) -> (Option<Timestamp>, &str) {
        (self.created, &self.name)
    }
}
