//! A pool for existing nodes, and what its comment explains.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;
use winpool_api::{DeletionPolicy, LabelSelector, Mode, ProfileRef, WindowsNodePoolSpec};
use winpool_facts::Build;
use winpool_rules::pool::{Pool, check};

use super::{
    changes::AdoptionChanges,
    classes::{AdoptedClass, OmittedClass},
    groups::{GroupOrigin, version_name},
    profile::AdoptedProfile,
    taints::GroupTaints,
};

#[derive(Clone, Debug)]
pub struct AdoptedPool {
    pub name: String,
    pub build: Build,
    pub nodes: Vec<String>,
    pub origin: GroupOrigin,
    pub divisible_by: Vec<String>,
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
        let profile = self.profile.as_ref().filter(|_| self.uses_profile);
        WindowsNodePoolSpec {
            windows_version: version_name(self.build),
            node_selector: Some(self.selector.clone()),
            fallback: false,
            profile_ref: profile.map(|_| ProfileRef { name: self.name.clone() }),
            taints: self.taints.taints.clone(),
            replaces_taints: self.taints.replaced.clone(),
            min_revision: 0,
            labels: BTreeMap::new(),
            runtime_classes: Some(self.classes.iter().map(|adopted| adopted.class.clone()).collect()),
            delivery: None,
            mode,
            paused: None,
            deletion_policy: DeletionPolicy::default(),
        }
    }

    /// The pool as the operator reads it.
    pub fn parsed(&self, mode: Mode, created: Timestamp) -> Pool {
        let spec = check::spec(&self.name, json!(self.spec(mode)));
        Pool { spec, generation: 1, created: Some(created), deleting: false, ..Pool::deleted(&self.name) }
    }
}
