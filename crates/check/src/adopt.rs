//! Pools and profiles in mode Observe for the Windows nodes that belong to no pool. On a consistent cluster, these pools change
//! nothing in mode Enforce, besides labels and annotations of winpool. What they would change otherwise, the planner computes.

mod changes;
mod classes;
mod configz;
mod groups;
mod pool;
mod profile;
mod selection;
mod taints;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use self::{
    changes::AdoptionChanges,
    classes::{AdoptedClass, OmissionReason, OmittedClass},
    configz::KubeletConfiguration,
    groups::{GroupOrigin, platform, version_name},
    pool::AdoptedPool,
    profile::{AdoptedProfile, SettingsSource},
    selection::SelectionProblem,
    taints::GroupTaints,
};
use winpool_api::{Mode, RuntimeClassState};

use self::{groups::Group, taints::Preference};
use winpool_core::node::WindowsNode;
use winpool_rules::pool::{
    Snapshot,
    plan::{Phase, Plan, Planner},
};
use winpool_workload::Workloads;

#[derive(Clone, Debug, Default)]
pub struct AdoptOptions {
    /// The keys of labels that name the pool of a node, which take precedence over those of platforms.
    pub pool_labels: Vec<String>,
    /// Whether the pools refer to the profiles. They then write a configuration for each node.
    pub use_profiles: bool,
    /// The configurations that kubelets use, by the names of their nodes, as far as they are known.
    pub kubelets: BTreeMap<String, KubeletConfiguration>,
}

#[derive(Clone, Debug, Default)]
pub struct Adoption {
    pub pools: Vec<AdoptedPool>,
    /// The number of nodes that already belong to a pool.
    pub assigned: usize,
    /// The nodes that are not in exactly one pool.
    pub problems: Vec<SelectionProblem>,
}

pub fn adopt(snapshot: &Snapshot, options: &AdoptOptions) -> Adoption {
    // Whether pods tolerate a taint is not a matter of what is adopted.
    let snapshot = Snapshot { pods: None, workloads: Workloads::Off, ..snapshot.clone() };
    let membership = snapshot.membership();
    let unassigned: Vec<&WindowsNode> = membership.unassigned().collect();
    let all: Vec<&WindowsNode> = snapshot.nodes.values().map(AsRef::as_ref).collect();
    let taken: BTreeSet<&str> = snapshot.pools.names().collect();
    let groups = groups::groups(&unassigned, &all, &options.pool_labels, &taken);
    let preference = Preference::new(&groups);
    let pools = groups.iter().map(|group| adopted_pool(&snapshot, group, &preference, options));
    let mut pools: Vec<AdoptedPool> = pools.collect();
    let snapshot = observing(&snapshot, &pools);
    for pool in &mut pools {
        resolve_classes(&snapshot, pool);
        pool.changes = enforced(&snapshot, pool).as_ref().map(AdoptionChanges::of).unwrap_or_default();
    }
    let problems = selection::problems(&snapshot, &unassigned, &pools);
    Adoption { assigned: all.len() - unassigned.len(), pools, problems }
}

fn adopted_pool(snapshot: &Snapshot, group: &Group, preference: &Preference, options: &AdoptOptions) -> AdoptedPool {
    let taints = GroupTaints::of(group, preference);
    let (classes, omitted_classes) = classes::of_group(snapshot, group, &taints);
    AdoptedPool {
        name: group.name.clone(),
        build: group.build,
        nodes: group.nodes.iter().map(|node| node.name.clone()).collect(),
        origin: group.origin.clone(),
        divisible_by: group.divisible_by.clone(),
        selector: group.selector.clone(),
        taints,
        classes,
        omitted_classes,
        profile: AdoptedProfile::of(&group.nodes, &options.kubelets),
        uses_profile: options.use_profiles,
        changes: AdoptionChanges::default(),
    }
}

/// Adopts the RuntimeClasses that differ from what the pool needs, and omits those that it cannot have.
fn resolve_classes(snapshot: &Snapshot, pool: &mut AdoptedPool) {
    let Some(Phase::Active(active)) = enforced(snapshot, pool).map(|plan| plan.phase) else { return };
    for class in active.classes {
        let Some(explanation) = class.explanation else { continue };
        if class.state == RuntimeClassState::NameTaken {
            pool.classes.retain(|adopted| adopted.class.name != class.name);
            let reason = OmissionReason::Taken(explanation.problem);
            pool.omitted_classes.push(OmittedClass { name: class.name, reason });
        } else if let Some(adopted) = pool.classes.iter_mut().find(|adopted| adopted.class.name == class.name) {
            adopted.class.adopt = class.state == RuntimeClassState::NotOurs;
            adopted.difference = Some(explanation.problem);
        }
    }
}

/// The plan of a pool in mode Enforce, while the other new ones are in mode Observe.
fn enforced(snapshot: &Snapshot, pool: &AdoptedPool) -> Option<Plan> {
    let mut snapshot = snapshot.clone();
    snapshot.pools.insert(Arc::new(pool.parsed(Mode::Enforce, snapshot.now)));
    Planner::new(&snapshot).plan(&pool.name)
}

fn observing(snapshot: &Snapshot, pools: &[AdoptedPool]) -> Snapshot {
    let mut snapshot = snapshot.clone();
    for pool in pools {
        snapshot.pools.insert(Arc::new(pool.parsed(Mode::Observe, snapshot.now)));
    }
    snapshot.membership = snapshot.membership();
    snapshot
}
