//! The plan for the machines of a pool.

use std::collections::BTreeSet;

use jiff::Timestamp;
use winpool_core::node::WindowsNode;

use super::{
    annotations,
    group::{GroupPlan, GroupPlanner, Reference},
    rules::ClusterApiRules,
    state::{ClusterApiObjects, ClusterApiState},
    stored::{self, StoredTemplates},
    templates::{self, ClusterApiPool, TemplateRenderer},
    views::{GroupKind, MachineView, TemplateView, key_of},
};
use crate::{
    operation::{Step, Steps, Write},
    pool::{Pool, Snapshot, Spec},
};

/// The plan for the machines of a pool.
#[derive(Clone, Debug, Default)]
pub struct ClusterApiPlan {
    /// The selected groups, if the Cluster exists; `None` if the pool does not use Cluster API.
    pub state: Option<ClusterApiState<Option<Box<Selected>>>>,
    pub secrets: Vec<Write>,
    pub create: Vec<Write>,
    /// Changes MachineDeployments and MachinePools.
    pub patch: Vec<Write>,
    /// Deletes unused templates, their Secrets in a first step.
    pub prune: [Vec<Write>; 2],
}

/// The machines that a pool selects.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The groups, by name.
    pub groups: Vec<GroupPlan>,
    /// The groups that match the selector and belong to another cluster, with its name.
    pub of_other_clusters: Vec<(String, String)>,
    /// Whether the nodes of the machines are in another cluster.
    pub elsewhere: bool,
}

impl ClusterApiPlan {
    fn groups(&self) -> impl Iterator<Item = &GroupPlan> {
        let selected = self.state.as_ref().and_then(|state| state.installed()?.as_ref());
        selected.into_iter().flat_map(|selected| &selected.groups)
    }

    /// Whether a group is to refer to a template of which this holds, and does not yet.
    pub fn switches_to(&self, holds: impl Fn(&str) -> bool) -> bool {
        self.groups().any(|group| group.template.as_ref().is_ok_and(|name| group.current != *name && holds(name)))
    }

    /// The maintenance window in which machines are replaced, if they wait for one.
    pub fn awaited_window(&self) -> Option<Timestamp> {
        self.groups().find_map(|group| match group.reference {
            Reference::AwaitsWindow(begins) => Some(begins),
            _ => None,
        })
    }

    /// Adds the writes to the plan of the pool.
    pub fn add_steps(&self, steps: &mut Steps) {
        let [secrets, templates] = &self.prune;
        steps.add(Step::CreateSecrets, self.secrets.iter().cloned());
        steps.add(Step::CreateTemplates, self.create.iter().cloned());
        steps.add(Step::Groups, self.patch.iter().cloned());
        steps.add(Step::PruneSecrets, secrets.iter().cloned());
        steps.add(Step::PruneTemplates, templates.iter().cloned());
    }
}

/// Plans the machines of a pool.
pub fn plan(snapshot: &Snapshot, (pool, spec): (&Pool, &Spec), members: &[&WindowsNode]) -> ClusterApiPlan {
    let abandoned = annotations::abandoned(snapshot, pool);
    let of_state = |state| ClusterApiPlan {
        state,
        patch: abandoned.clone(),
        prune: stored::delete(&templates_of_other_kinds(snapshot, pool)),
        ..ClusterApiPlan::default()
    };
    let Some(rules) = &spec.cluster_api else { return of_state(None) };
    let Some(objects) = snapshot.cluster_api.installed() else {
        return of_state(Some(snapshot.cluster_api.and_then(|_| None)));
    };
    let Some(cluster) = objects.clusters.get(&key_of(&rules.namespace, &rules.cluster)) else {
        return of_state(Some(ClusterApiState::Installed(None)));
    };
    let matching = objects.groups(rules.kind).into_iter().filter(|group| rules.matches(group));
    let (own, others): (Vec<_>, Vec<_>) = matching.partition(|group| rules.selects(group));
    let of = ClusterApiPool { pool, spec, rules };
    let renderer = TemplateRenderer::new(snapshot, objects, of);
    let stored = StoredTemplates { objects, of };
    let templates =
        templates::of_groups(&renderer, (objects, rules), |template| stored.problem(template), &own, members);
    let planner = GroupPlanner { snapshot, objects, of, cluster_paused: cluster.paused, renderer: &renderer };
    let groups: Vec<_> = own.iter().zip(&templates).map(|(group, templates)| planner.plan(group, templates)).collect();
    let patch = groups.iter().filter_map(|group| group.patch.clone()).chain(abandoned).collect();
    let (secrets, create) = stored.missing(&templates);
    let unused: Vec<_> =
        stored.unused(&templates).into_iter().chain(templates_of_other_kinds(snapshot, pool)).collect();
    let prune = stored::delete(&unused);
    let selected = Selected {
        of_other_clusters: others.iter().map(|group| (group.name.clone(), group.cluster.clone())).collect(),
        elsewhere: is_elsewhere(snapshot, objects, rules),
        groups,
    };
    let state = Some(ClusterApiState::Installed(Some(Box::new(selected))));
    ClusterApiPlan { state, secrets, create, patch, prune }
}

/// The templates of a pool that no longer uses Cluster API or this kind of group, if nothing refers to them.
fn templates_of_other_kinds<'a>(snapshot: &'a Snapshot, pool: &'a Pool) -> Vec<(GroupKind, &'a TemplateView)> {
    unreferenced_templates(snapshot, pool, |kind| pool.cluster_api().is_none_or(|rules| rules.kind != kind))
}

fn unreferenced_templates<'a>(
    snapshot: &'a Snapshot,
    pool: &'a Pool,
    of: impl Fn(GroupKind) -> bool,
) -> Vec<(GroupKind, &'a TemplateView)> {
    let Some(objects) = snapshot.cluster_api.installed() else { return Vec::new() };
    let kinds = GroupKind::ALL.into_iter().filter(|kind| of(*kind));
    kinds.flat_map(|kind| stored::unreferenced(objects, kind, pool, |_| false)).collect()
}

/// Whether a pool may have written objects of Cluster API that cannot be read now, so that its cleanup has to wait.
pub fn is_unknown(snapshot: &Snapshot, pool: &Pool) -> bool {
    pool.uses_cluster_api() && matches!(snapshot.cluster_api, ClusterApiState::Unknown)
}

/// Removes what a pool added, when it is deleted with Cleanup, in two steps. Templates that machines may still need are kept.
pub fn removed(snapshot: &Snapshot, pool: &Pool) -> [Vec<Write>; 2] {
    let [mut first, second] = stored::delete(&unreferenced_templates(snapshot, pool, |_| true));
    first.extend(annotations::of_deleted(snapshot, pool));
    [first, second]
}

/// Whether objects of Cluster API are left that a pool created or annotated.
pub fn has_left_objects(snapshot: &Snapshot, pool: &Pool) -> bool {
    let Some(objects) = snapshot.cluster_api.installed() else { return false };
    let templates = GroupKind::ALL.into_iter().flat_map(|kind| stored::own(objects, kind, pool));
    templates.count() > 0 || !annotations::of_deleted(snapshot, pool).is_empty()
}

/// Whether the machines of a pool have nodes, and none of them is in this cluster.
pub fn are_elsewhere(snapshot: &Snapshot, spec: &Spec) -> bool {
    let objects = snapshot.cluster_api.installed();
    spec.cluster_api.as_ref().zip(objects).is_some_and(|(rules, objects)| is_elsewhere(snapshot, objects, rules))
}

fn is_elsewhere(snapshot: &Snapshot, objects: &ClusterApiObjects, rules: &ClusterApiRules) -> bool {
    let groups = objects.groups(rules.kind).into_iter().filter(|group| rules.selects(group));
    let keys: BTreeSet<String> = groups.map(|group| key_of(&group.namespace, &group.name)).collect();
    let is_of = |machine: &MachineView| machine.kind == rules.kind && keys.contains(&machine.group);
    let of_groups = objects.machines.values().filter(|machine| is_of(machine));
    let mut nodes = of_groups.filter_map(|machine| machine.node.as_deref()).peekable();
    nodes.peek().is_some() && nodes.all(|node| !snapshot.nodes.contains(node))
}

#[cfg(test)]
mod tests;
