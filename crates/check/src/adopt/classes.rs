//! The existing RuntimeClasses that select the nodes of a group, as those of its pool.

use std::collections::BTreeMap;

use winpool_api::{QuantityText, RuntimeClassIsolation, RuntimeClassScope, RuntimeClassSpec, Taint, names::label};
use winpool_core::{Named, kubernetes::quantity::Quantity, release_labels};
use winpool_facts::{
    containerd::{HYPERV_HANDLER, PROCESS_HANDLER},
    runtimes::DOCKER_HANDLER,
};
use winpool_rules::pool::{RuntimeClassView, Snapshot, check::hyperv_overhead};
use winpool_workload::{Scheduling, System, system_of_class};

use super::{
    groups::Group,
    taints::{GroupTaints, is_for_windows},
};

/// The labels of every Windows node, in a selector without effect beside a build.
const OF_EVERY_NODE: [(&str, &str); 4] =
    [(label::OS, "windows"), (label::BETA_OS, "windows"), (label::ARCH, "amd64"), ("beta.kubernetes.io/arch", "amd64")];
/// The most classes of a pool.
const MOST: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub struct AdoptedClass {
    pub class: RuntimeClassSpec,
    /// How the existing class differs from what the pool needs, if it is adopted.
    pub difference: Option<String>,
    /// Whether the isolation follows from the handler.
    pub has_known_handler: bool,
}

/// A RuntimeClass that selects nodes of a group and is not in its pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmittedClass {
    pub name: String,
    pub reason: OmissionReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OmissionReason {
    /// The spec of a pool cannot express this selector.
    Selector(BTreeMap<String, String>),
    /// The class does not tolerate this taint of the pool, which keeps the pods of others off its nodes.
    Untolerated(Taint),
    /// Another pool has a class of this name that cannot be shared.
    Taken(String),
    /// The pool has as many classes as it can.
    TooMany,
}

pub fn of_group(snapshot: &Snapshot, group: &Group, taints: &GroupTaints) -> (Vec<AdoptedClass>, Vec<OmittedClass>) {
    let (mut classes, mut omitted) = (Vec::new(), Vec::new());
    for existing in snapshot.runtime_classes.values() {
        let selector = existing.selector();
        let scope = scope(&selector, group);
        if scope.is_none() && !selects(existing, &selector, group) {
            continue;
        }
        let reason = match (scope, untolerated(existing, taints)) {
            (Some(scope), None) if classes.len() < MOST => {
                classes.push(adopted(existing, scope));
                continue;
            }
            (Some(_), None) => OmissionReason::TooMany,
            (Some(_), Some(taint)) => OmissionReason::Untolerated(taint.clone()),
            (None, _) => OmissionReason::Selector(selector),
        };
        omitted.push(OmittedClass { name: existing.name().to_owned(), reason });
    }
    (classes, omitted)
}

/// The first taint that separates the nodes of a pool from other Windows nodes and that a class does not tolerate. A pool
/// with this class would add the toleration, and so let the pods of others run on its nodes.
fn untolerated<'t>(existing: &RuntimeClassView, taints: &'t GroupTaints) -> Option<&'t Taint> {
    let scheduling = Scheduling::of_class(&existing.object);
    taints.taints.iter().find(|taint| !is_for_windows(taint) && !scheduling.tolerates(taint))
}

/// The scope of a selector that a class of the pool has, or that differs from it only in the labels of every Windows node.
fn scope(selector: &BTreeMap<String, String>, group: &Group) -> Option<RuntimeClassScope> {
    let of_every_node = |(key, value): &(&str, &str)| OF_EVERY_NODE.contains(&(*key, *value));
    let labels = selector.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let special: BTreeMap<&str, &str> = labels.filter(|label| !of_every_node(label)).collect();
    let (build, release) = (group.build.to_string(), release_labels::key_of(group.build));
    let of_build = (label::WINDOWS_BUILD, build.as_str());
    let of_pool = (label::POOL, group.name.as_str());
    match special.into_iter().collect::<Vec<_>>().as_slice() {
        [only] if *only == of_build => Some(RuntimeClassScope::Build),
        [only] if *only == (release.as_str(), label::RUNS_VALUE) => Some(RuntimeClassScope::Compatible),
        [one, other] if [*one, *other] == [of_build, of_pool] => Some(RuntimeClassScope::Pool),
        _ => None,
    }
}

/// Whether a class is for the nodes of the group: by its selector, else by a handler that only Windows has.
fn selects(existing: &RuntimeClassView, selector: &BTreeMap<String, String>, group: &Group) -> bool {
    let matches_node =
        || group.nodes.iter().any(|node| selector.iter().all(|(key, value)| node.labels.get(key) == Some(value)));
    let is_for_windows = || system_of_class(&existing.object) == Some(System::Windows);
    matches_node() && (!selector.is_empty() || is_for_windows())
}

fn adopted(existing: &RuntimeClassView, scope: RuntimeClassScope) -> AdoptedClass {
    let handler = existing.object.handler.as_str();
    let (isolation, written) = match handler {
        PROCESS_HANDLER => (RuntimeClassIsolation::Process, ""),
        HYPERV_HANDLER => (RuntimeClassIsolation::HyperV, ""),
        other if other.contains("hyper") => (RuntimeClassIsolation::HyperV, other),
        other => (RuntimeClassIsolation::Process, other),
    };
    let class = RuntimeClassSpec {
        name: existing.name().to_owned(),
        isolation,
        handler: written.to_owned(),
        scope,
        tolerations: Vec::new(),
        overhead: overhead(existing, isolation),
        adopt: false,
    };
    AdoptedClass { class, difference: None, has_known_handler: written.is_empty() || written == DOCKER_HANDLER }
}

/// The overhead of an existing class; empty if it is the default.
fn overhead(existing: &RuntimeClassView, isolation: RuntimeClassIsolation) -> BTreeMap<String, QuantityText> {
    let amounts = existing.object.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.as_ref());
    let present: BTreeMap<String, QuantityText> =
        amounts.into_iter().flatten().map(|(name, amount)| (name.clone(), QuantityText(amount.0.clone()))).collect();
    let parsed = |amounts: &BTreeMap<String, QuantityText>| -> BTreeMap<String, Option<Quantity>> {
        amounts.iter().map(|(name, amount)| (name.clone(), amount.0.parse().ok())).collect()
    };
    let is_default = isolation == RuntimeClassIsolation::HyperV && parsed(&present) == parsed(&hyperv_overhead());
    if is_default { BTreeMap::new() } else { present }
}
