//! A pool: what it says, which nodes it has, what has to change, and what its status says.

pub mod affected;
pub mod assignment;
pub mod check;
pub mod classes;
pub mod configs;
pub mod delivery;
mod events;
mod evictions;
pub mod nodes;
pub mod plan;
pub mod relevance;
mod snapshot;
pub mod status;
mod verdicts;

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::DynamicObject;

pub use snapshot::{ConfigMapView, ProfileView, RuntimeClassView, Snapshot};

use super::Problem;
use crate::{
    api::{
        DeletionPolicy, LabelSelector, Mode, RuntimeClassIsolation, RuntimeClassScope, Taint, Toleration,
        WindowsNodePoolStatus, names::annotation,
    },
    domain::quantity::Quantity,
    facts::Build,
};

/// A `WindowsNodePool` as the rules see it: parsed once when it arrives.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The version of the object.
    pub resource_version: String,
    /// The generation of its spec.
    pub generation: i64,
    /// When it was made: the older pool wins a conflict.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// The generation whose nodes may be let go.
    pub allow_release: Option<String>,
    /// The generation whose windowsVersion may strand pods.
    pub allow_strand: Option<String>,
    /// The generation whose NoExecute taints may evict pods.
    pub allow_evict: Option<String>,
    /// What it asks for, or every mistake in it.
    pub spec: Result<Spec, Vec<Problem>>,
    /// The status as it is stored.
    pub status: WindowsNodePoolStatus,
}

/// A pool's spec, parsed: every value is one that can be acted on.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The Windows version, as written.
    pub windows_version: String,
    /// The build that it means.
    pub build: Build,
    /// Which nodes are the pool's.
    pub members: Members,
    /// The profile to render.
    pub profile: Option<String>,
    /// The taints kept on the nodes.
    pub taints: Vec<Taint>,
    /// The labels kept on the nodes.
    pub labels: BTreeMap<String, String>,
    /// The RuntimeClasses.
    pub runtime_classes: Vec<RuntimeClass>,
    /// Whether to write.
    pub mode: Mode,
    /// Whether writes are stopped for now.
    pub paused: bool,
    /// What the deletion of the pool does.
    pub deletion_policy: DeletionPolicy,
}

/// Which nodes are a pool's.
#[derive(Clone, Debug, PartialEq)]
pub enum Members {
    /// The Windows nodes that the selector chooses.
    Selector(LabelSelector),
    /// The Windows nodes that no other pool chooses.
    Fallback,
}

/// A RuntimeClass that a pool asks for, with the defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeClass {
    /// Its name.
    pub name: String,
    /// How containers are kept apart from the host.
    pub isolation: RuntimeClassIsolation,
    /// The handler in the container runtime.
    pub handler: String,
    /// Which nodes it leads to.
    pub scope: RuntimeClassScope,
    /// Tolerations beside those for the taints.
    pub tolerations: Vec<Toleration>,
    /// What a pod costs beside its containers.
    pub overhead: BTreeMap<String, Quantity>,
    /// Whether a class that somebody else made is taken over.
    pub adopt: bool,
}

impl Pool {
    /// A pool as it is stored, under whatever schema.
    pub fn from_object(object: DynamicObject) -> Self {
        let DynamicObject { metadata, data, .. } = object;
        let name = metadata.name.unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        let spec = data.get("spec").cloned().unwrap_or_default();
        Self {
            spec: check::spec(&name, spec),
            status: check::status(data.get("status")),
            name,
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            allow_release: annotations.get(annotation::ALLOW_RELEASE).cloned(),
            allow_strand: annotations.get(annotation::ALLOW_STRAND).cloned(),
            allow_evict: annotations.get(annotation::ALLOW_EVICT).cloned(),
        }
    }

    /// A pool of which nothing is left but its name in records.
    pub fn gone(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            uid: String::new(),
            resource_version: String::new(),
            generation: 0,
            created: None,
            deleting: true,
            finalizers: Vec::new(),
            allow_release: None,
            allow_strand: None,
            allow_evict: None,
            spec: Err(Vec::new()),
            status: WindowsNodePoolStatus::default(),
        }
    }

    /// Whether an `allow-…` annotation is for the generation that is asked for now.
    pub fn allows(&self, annotation: Option<&String>) -> bool {
        annotation.is_some_and(|text| text.trim() == self.generation.to_string())
    }

    /// The command that gives an `allow-…` annotation for the generation that is asked for now.
    pub fn allow_command(&self, annotation: &str) -> String {
        format!("kubectl annotate wnp {} {annotation}={} --overwrite", self.name, self.generation)
    }

    /// Whether the pool writes: its spec is valid, in mode Enforce and not paused.
    pub fn enforces(&self) -> bool {
        self.spec.as_ref().is_ok_and(|spec| spec.mode == Mode::Enforce && !spec.paused)
    }

    /// Whether the pool keeps the nodes that it takes: it does not only observe.
    pub fn keeps_nodes(&self) -> bool {
        self.spec.as_ref().map_or(true, |spec| spec.mode == Mode::Enforce)
    }

    /// Pools in the order in which they win: older first, then by name.
    pub fn precedence(&self) -> (Option<Timestamp>, &str) {
        (self.created, &self.name)
    }

    /// Whether another version of the pool says the same to the rules.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let versionless = |pool: &Self| Self { resource_version: String::new(), ..pool.clone() };
        versionless(self) == versionless(other)
    }
}
