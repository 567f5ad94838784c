//! What existing nodes and machines keep, although a new version of winpool renders other settings.

use winpool_api::{
    conditions::{CONFIG_IN_EFFECT, ComputedCondition},
    names::reason,
};
use winpool_core::{
    kind::Kind,
    text::{about_nodes, counted, some_of},
};

use super::input::{ReportInput, names};
use crate::pool::{
    Snapshot,
    cluster_api::{ClusterApiPlan, ClusterApiState, GroupPlan},
    plan::ActivePool,
    renderings::{self, HeldRendering},
};

/// `ConfigInEffect` while nodes or machines keep an earlier rendering; `None` otherwise.
pub fn changed(input: &ReportInput) -> Option<ComputedCondition> {
    let held = input.nodes(|member| input.active.configs.is_held(&member.node));
    let configs = input.active.configs.held(input.snapshot);
    let groups: Vec<_> = held_groups(&input.active.cluster_api).collect();
    let renderings: Vec<&HeldRendering> = configs.iter().chain(groups.iter().map(|(_, held)| *held)).collect();
    if renderings.is_empty() {
        return None;
    }
    let nodes = about_nodes(names(&held), |nodes, names| {
        let keep = nodes.agree("keeps its", "keep their");
        let pairs = configs.iter().map(|held| format!("{} → {}", held.from, held.to));
        format!("{nodes} {keep} ConfigMap: {names} ({})", some_of(pairs))
    });
    let machines = (!groups.is_empty()).then(|| {
        let texts = groups.iter().map(|(group, held)| {
            let machines = counted(usize::try_from(group.machines).unwrap_or(usize::MAX), "machine");
            format!(
                "{} {} keeps its template and {machines} ({} → {})",
                group.kind.name(),
                group.name,
                held.from,
                held.to
            )
        });
        some_of(texts.collect::<Vec<_>>())
    });
    let subjects = nodes.into_iter().chain(machines).collect::<Vec<_>>().join(", ");
    let new: Vec<&str> = renderings.iter().map(|held| held.to.as_str()).collect();
    let message = format!(
        "this version of winpool renders other settings from the same profile, and {subjects}. status.pending lists the \
         differences. {}. {}",
        renderings::remedy(input.pool, input.spec, &new),
        input.list()
    );
    Some(CONFIG_IN_EFFECT.because(reason::RENDERING_CHANGED, message).about(held.len().max(groups.len())))
}

fn held_groups(plan: &ClusterApiPlan) -> impl Iterator<Item = (&GroupPlan, &HeldRendering)> {
    let groups = match &plan.state {
        Some(ClusterApiState::Installed(Some(selected))) => selected.groups.as_slice(),
        _ => &[],
    };
    groups.iter().filter_map(|group| Some((group, group.held.as_ref()?)))
}

/// What existing nodes and machines would change to, as text.
pub fn pending(snapshot: &Snapshot, active: &ActivePool) -> Vec<String> {
    let configs = active.configs.held(snapshot);
    let of_nodes = configs.iter().flat_map(|held| held.changes(Kind::CONFIG_MAP.name));
    let of_machines =
        held_groups(&active.cluster_api).flat_map(|(group, held)| held.changes(group.kind.bootstrap().name));
    of_nodes.chain(of_machines).collect()
}
