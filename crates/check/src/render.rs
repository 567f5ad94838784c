//! The objects that the operator would apply for the resources in files, from its plans.

mod compatibility;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use winpool_api::{
    RuntimeClassState,
    names::{annotation, reason},
};
use winpool_core::{Explanation, Objects, Problem, node::WindowsNode, text::some_of};
use winpool_rules::{
    operation::{Action, Write, WriteTarget},
    pool::{
        Pool, Snapshot, Spec,
        configs::{ExpectedNode, Rendering, Unrendered},
        plan::{ActivePool, Phase, Plan, Planner},
    },
};

use crate::manifests::{LocatedProblem, Location, ManifestSet};

/// What the operator would apply to an idle cluster.
#[derive(Debug, Default)]
pub struct Rendered {
    /// RuntimeClasses, by name.
    pub runtime_classes: BTreeMap<String, Value>,
    /// ConfigMaps, by name.
    pub config_maps: BTreeMap<String, Value>,
    pub nodes: BTreeMap<String, Value>,
    pub notes: Vec<String>,
    /// Whether a pool without nodes was rendered for the expected nodes.
    pub uses_expected_nodes: bool,
}

/// The snapshot of a cluster with only these resources and nodes, at no particular time.
pub fn snapshot(resources: &ManifestSet, nodes: Objects<WindowsNode>, namespace: impl Into<String>) -> Snapshot {
    Snapshot {
        namespace: namespace.into(),
        pools: resources.pools.values().map(|(pool, _)| pool.clone()).collect(),
        profiles: resources.profiles.values().map(|(profile, _)| profile.clone()).collect(),
        nodes,
        ..Snapshot::default()
    }
}

/// Renders all pools of a snapshot; `resources` has their locations.
pub fn render(
    snapshot: &Snapshot,
    expected_nodes: &[ExpectedNode],
    resources: &ManifestSet,
) -> Result<Rendered, Vec<LocatedProblem>> {
    let planner = Planner::new(snapshot).expecting(expected_nodes.to_vec());
    let mut rendered = Rendered::default();
    let mut problems = Vec::new();
    for name in snapshot.pools.names() {
        let (Some(plan), Some((_, location))) = (planner.plan(name), resources.pools.get(name)) else { continue };
        if let (Phase::Active(active), Ok(spec)) = (&plan.phase, &plan.pool.spec) {
            problems.extend(class_problems(spec, active).map(|problem| location.problem(problem)));
            problems.extend(config_problems(&plan.pool, spec, active, expected_nodes, location, resources));
            rendered.uses_expected_nodes |= active.members.is_empty() && spec.profile.is_some();
            rendered.notes.extend(notes(&plan, active));
        } else {
            rendered.notes.push(format!("pool {name} is being deleted and was not rendered"));
        }
        if problems.is_empty() {
            plan.steps.into_writes().chain(plan.withheld).for_each(|write| rendered.add(write));
        }
    }
    let in_no_pool: Vec<_> = planner.unassigned().map(|node| node.name.as_str()).collect();
    if !in_no_pool.is_empty() {
        rendered.notes.push(format!("in no pool, and not tainted by winpool: {}", some_of(&in_no_pool)));
    }
    if problems.is_empty() {
        return Ok(rendered);
    }
    problems.sort();
    problems.dedup();
    Err(problems)
}

impl Rendered {
    fn add(&mut self, write: Write) {
        let (name, body) = (write.object.name.clone(), write.body().into_owned());
        match write.action {
            // Pools that share a class plan the same object.
            Action::ApplyRuntimeClass => drop(self.runtime_classes.entry(name).or_insert(body)),
            Action::CreateConfigMap => drop(self.config_maps.insert(name, body)),
            Action::PatchNode => drop(self.nodes.insert(name, node(&write.object, body))),
            _ => {}
        }
    }
}

fn node(object: &WriteTarget, mut patch: Value) -> Value {
    patch["apiVersion"] = json!(object.kind.api_version());
    patch["kind"] = json!(object.kind.name);
    patch["metadata"]["name"] = json!(object.name);
    patch
}

/// RuntimeClasses that the operator would not apply.
fn class_problems(spec: &Spec, active: &ActivePool) -> impl Iterator<Item = Problem> {
    let taken = active.classes.iter().filter(|class| class.state == RuntimeClassState::NameTaken);
    taken.filter_map(|class| {
        let index = spec.runtime_classes.iter().position(|wanted| wanted.name == class.name).unwrap_or_default();
        let Explanation { problem, remedy } = class.explanation.clone()?;
        Some(Problem::new(format!("spec.runtimeClasses[{index}].name"), problem, remedy))
    })
}

/// Configurations that the operator would not apply, or that do not work on their nodes.
fn config_problems(
    pool: &Pool,
    spec: &Spec,
    active: &ActivePool,
    expected_nodes: &[ExpectedNode],
    location: &Location,
    resources: &ManifestSet,
) -> Vec<LocatedProblem> {
    let name = spec.profile.as_deref().unwrap_or_default();
    let profile = resources.profiles.get(name);
    match &active.configs.state {
        // The problems of an invalid profile are reported when it is read.
        Rendering::NotUsed | Rendering::Invalid(_) | Rendering::ProfilesRefused | Rendering::ConfigMapsRefused => {
            Vec::new()
        }
        Rendering::NotFound => {
            let wrong = format!("there is no WindowsRuntimeProfile {name} in the files");
            let remedy = "add its file with -f, or correct the name";
            vec![location.problem(Problem::new("spec.profileRef.name", wrong, remedy))]
        }
        Rendering::Rendered(failures) => {
            let in_profile = profile.map_or(location, |(_, location)| location);
            let valid = profile.and_then(|(profile, _)| profile.profile.as_ref().ok());
            let on_nodes = valid
                .map(|profile| compatibility::problems(profile, &pool.name, spec, &active.members, expected_nodes));
            let problems = grouped(pool, failures).chain(on_nodes.into_iter().flatten());
            problems.map(|problem| locate(problem, location, in_profile)).collect()
        }
    }
}

/// Locates the fields of a profile in the profile, and the fields of nodes in the pool that selects them.
pub fn locate(problem: Problem, pool: &Location, profile: &Location) -> LocatedProblem {
    if problem.path.starts_with("spec.") { profile.problem(problem) } else { pool.problem(problem) }
}

/// Each problem once, with the variants that have it.
fn grouped(pool: &Pool, failures: &[Unrendered]) -> impl Iterator<Item = Problem> {
    let mut variants: BTreeMap<&Problem, Vec<String>> = BTreeMap::new();
    for failure in failures {
        for problem in &failure.problems {
            variants.entry(problem).or_default().push(failure.variant.to_string());
        }
    }
    variants.into_iter().map(|(problem, variants)| {
        let wrong = format!("{} (pool {}, {})", problem.wrong, pool.name, some_of(&variants));
        Problem { wrong, ..problem.clone() }
    })
}

/// What prevents the operator from applying the objects.
fn notes(plan: &Plan, active: &ActivePool) -> Vec<String> {
    let name = &plan.pool.name;
    let mut notes = Vec::new();
    if !plan.pool.enforces() {
        notes.push(format!("pool {name} has mode Observe: the operator does not apply its objects"));
    }
    let evicting = active.members.iter().filter(|member| member.has(reason::WOULD_EVICT));
    let evicting: Vec<_> = evicting.map(|member| member.node.name.as_str()).collect();
    if !evicting.is_empty() {
        notes.push(format!(
            "pool {name}: NoExecute taints would evict pods from {}, and are not applied without annotation {}",
            some_of(evicting),
            annotation::ALLOW_EVICT
        ));
    }
    notes
}
