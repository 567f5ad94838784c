//! The objects that the operator would write, from its own plans.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fit;
use crate::{
    api::{RuntimeClassState, names::annotation},
    domain::{
        Problem,
        conditions::some_of,
        operation::{NodePatch, Operation, Parts},
        pool::{
            Pool, Snapshot, Spec,
            configs::{ConfigState, Newcomer, Unrendered},
            plan::{Active, Phase, Plan, Planner},
        },
    },
    manifests::{Mistake, Place, Resources},
};

/// What the operator would write, once everything has settled.
#[derive(Debug, Default)]
pub struct Rendered {
    /// RuntimeClasses, by name.
    pub runtime_classes: BTreeMap<String, Value>,
    /// ConfigMaps, by name.
    pub config_maps: BTreeMap<String, Value>,
    /// What changes on each node, by its name.
    pub nodes: BTreeMap<String, Value>,
    /// What a person should know, though it is no mistake.
    pub notes: Vec<String>,
    /// Whether some pool was rendered for nodes that may come, because none is there.
    pub for_newcomers: bool,
}

impl Rendered {
    /// All objects in their order.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.runtime_classes.values().chain(self.config_maps.values()).chain(self.nodes.values())
    }
}

/// Renders all pools of a snapshot; `resources` says where each is written.
///
/// # Errors
/// What cannot be rendered, in order of files and lines.
pub fn render(snapshot: &Snapshot, newcomers: &[Newcomer], resources: &Resources) -> Result<Rendered, Vec<Mistake>> {
    let planner = Planner::new(snapshot).expecting(newcomers.to_vec());
    let mut rendered = Rendered::default();
    let mut mistakes = Vec::new();
    for name in snapshot.pools.keys() {
        let (Some(plan), Some((_, place))) = (planner.plan(name), resources.pools.get(name)) else { continue };
        if let (Phase::Active(active), Ok(spec)) = (&plan.phase, &plan.pool.spec) {
            mistakes.extend(class_mistakes(spec, active).map(|problem| place.mistake(problem)));
            mistakes.extend(config_mistakes(&plan.pool, spec, active, newcomers, place, resources));
            rendered.for_newcomers |= active.members.is_empty() && spec.profile.is_some();
            rendered.notes.extend(notes(&plan, spec, active));
        } else {
            rendered.notes.push(format!("pool {name} is being deleted: nothing is rendered for it"));
        }
        if mistakes.is_empty() {
            plan.steps.into_iter().flatten().chain(plan.withheld).for_each(|operation| rendered.add(operation));
        }
    }
    let alone: Vec<_> = planner.in_no_pool().map(|node| node.name.as_str()).collect();
    if !alone.is_empty() {
        rendered.notes.push(format!("in no pool, so no pool keeps Linux pods off: {}", some_of(&alone)));
    }
    if mistakes.is_empty() {
        return Ok(rendered);
    }
    mistakes.sort();
    mistakes.dedup();
    Err(mistakes)
}

impl Rendered {
    fn add(&mut self, operation: Operation) {
        match operation {
            // Pools that share a class all say the same of it.
            Operation::ApplyRuntimeClass { name, body, .. } => {
                self.runtime_classes.entry(name).or_insert(body);
            }
            Operation::ApplyConfigMap { name, body } => {
                self.config_maps.insert(name, body);
            }
            Operation::PatchNode(patch) => {
                self.nodes.insert(patch.node.clone(), node(&patch));
            }
            Operation::AddFinalizer { .. }
            | Operation::RemoveFinalizer { .. }
            | Operation::RecordApplied { .. }
            | Operation::StripRuntimeClass { .. }
            | Operation::DeleteRuntimeClass { .. }
            | Operation::DeleteConfigMap { .. } => {}
        }
    }
}

/// The patch of a node as an object, without the version: the lock means nothing in a file.
fn node(patch: &NodePatch) -> Value {
    let mut object = patch.body(Parts::ALL);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    object["apiVersion"] = json!("v1");
    object["kind"] = json!("Node");
    object["metadata"]["name"] = json!(patch.node);
    object
}

/// RuntimeClasses that the operator would not make.
fn class_mistakes(spec: &Spec, active: &Active) -> impl Iterator<Item = Problem> {
    let taken = active.classes.iter().filter(|class| class.state == RuntimeClassState::NameTaken);
    taken.map(|class| {
        let index = spec.runtime_classes.iter().position(|asked| asked.name == class.name).unwrap_or_default();
        let (wrong, remedy) = class.message.rsplit_once(": ").unwrap_or((&class.message, ""));
        Problem::new(format!("spec.runtimeClasses[{index}].name"), wrong, remedy)
    })
}

/// Configurations that the operator would not make.
fn config_mistakes(
    pool: &Pool,
    spec: &Spec,
    active: &Active,
    newcomers: &[Newcomer],
    place: &Place,
    resources: &Resources,
) -> Vec<Mistake> {
    let profile = spec.profile.as_deref().unwrap_or_default();
    let given = resources.profiles.get(profile);
    match &active.configs.state {
        // The mistakes of an invalid profile were told when it was read.
        ConfigState::NotUsed | ConfigState::Invalid(_) => Vec::new(),
        ConfigState::NotFound => {
            let wrong = format!("there is no WindowsRuntimeProfile {profile} in the files");
            let remedy = "add its file with -f, or correct the name";
            vec![place.mistake(Problem::new("spec.profileRef.name", wrong, remedy))]
        }
        ConfigState::Rendered(failures) => {
            // What is wrong with a profile is in its file; what is wrong with a node, is told where the pool asks for it.
            let of_profile = given.map_or(place, |(_, place)| place);
            let place_of = |problem: &Problem| if problem.path.starts_with("spec.") { of_profile } else { place };
            let valid = given.and_then(|(profile, _)| profile.profile.as_ref().ok());
            let unfit = valid.map(|profile| fit::problems(profile, &pool.name, spec, &active.members, newcomers));
            let problems = by_problem(pool, failures).chain(unfit.into_iter().flatten());
            problems.map(|problem| place_of(&problem).mistake(problem)).collect()
        }
    }
}

/// Each problem once, with the variants that have it.
fn by_problem(pool: &Pool, failures: &[Unrendered]) -> impl Iterator<Item = Problem> {
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

/// Where the operator would not do at once what is rendered.
fn notes(plan: &Plan, spec: &Spec, active: &Active) -> Vec<String> {
    let name = &plan.pool.name;
    let mut notes = Vec::new();
    if !plan.pool.enforces() {
        let why = if spec.paused { "is paused" } else { "only observes" };
        notes.push(format!("pool {name} {why}: the operator writes none of what is rendered for it"));
    }
    let waiting: Vec<_> = active.members.iter().filter(|member| !member.plan.would_evict.is_empty()).collect();
    if !waiting.is_empty() {
        notes.push(format!(
            "pool {name}: NoExecute taints would evict pods from {}, and wait for the annotation {}",
            some_of(waiting.iter().map(|member| member.node.name.as_str())),
            annotation::ALLOW_EVICT
        ));
    }
    notes
}
