//! A pool for existing nodes, with the evidence for each value.

use jiff::Timestamp;
use serde_json::json;
use winpool_api::{DeletionPolicy, LabelSelector, Mode, ProfileRef, Taint, WindowsNodePoolSpec};
use winpool_facts::Build;
use winpool_rules::pool::{Pool, check};

use super::{
    changes::AdoptionChanges,
    classes::{AdoptedClass, OmittedClass},
    groups::{GroupOrigin, version_name},
    profile::AdoptedProfile,
    taints::{GroupTaints, TaintUse},
};

/// A pool for existing nodes.
#[derive(Clone, Debug)]
pub struct AdoptedPool {
    pub name: String,
    pub build: Build,
    pub nodes: Vec<String>,
    /// Why these nodes are one pool.
    pub origin: GroupOrigin,
    /// Other labels by which the nodes could be divided.
    pub divisible_by: Vec<String>,
    /// The selector of the nodes.
    pub selector: LabelSelector,
    pub taints: GroupTaints,
    pub classes: Vec<AdoptedClass>,
    /// RuntimeClasses that select nodes of the pool and are not in its spec.
    pub omitted_classes: Vec<OmittedClass>,
    /// The profile; `None` if no node reports its resources.
    pub profile: Option<AdoptedProfile>,
    pub uses_profile: bool,
    /// What mode Enforce would change, besides the labels and annotations of winpool.
    pub changes: AdoptionChanges,
}

impl AdoptedPool {
    pub fn spec(&self, mode: Mode) -> WindowsNodePoolSpec {
        let taints = |uses: &[TaintUse]| -> Vec<Taint> { uses.iter().map(|used| used.taint.clone()).collect() };
        let profile = self.profile.as_ref().filter(|_| self.uses_profile);
        WindowsNodePoolSpec {
            windows_version: version_name(self.build),
            node_selector: Some(self.selector.clone()),
            fallback: false,
            profile_ref: profile.map(|_| ProfileRef { name: self.name.clone() }),
            taints: taints(&self.taints.taints),
            replaces_taints: taints(&self.taints.replaced),
            min_revision: 0,
            labels: std::collections::BTreeMap::new(),
            runtime_classes: Some(self.classes.iter().map(|adopted| adopted.class.clone()).collect()),
            delivery: None,
            mode,
            paused: false,
            deletion_policy: DeletionPolicy::default(),
        }
    }

    /// The pool as the operator reads it.
    pub fn parsed(&self, mode: Mode, created: Timestamp) -> Pool {
        let spec = check::spec(&self.name, json!(self.spec(mode)));
        Pool { spec, generation: 1, created: Some(created), deleting: false, ..Pool::deleted(&self.name) }
    }
}
