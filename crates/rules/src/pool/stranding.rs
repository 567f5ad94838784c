//! New taints with which pods would stay Pending: they wait until the pods tolerate them.
//!
//! The decision is made once for each taint of a pool, for all its nodes. A taint that the pool has begun to set is also
//! set on new nodes, without another check.

use std::{
    cell::{LazyCell, RefCell},
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use winpool_api::{Taint, TaintEffect, TaintKey};
use winpool_core::{image::RuntimeReport, kubernetes::WorkloadName, node::WindowsNode};
use winpool_workload::{Pod, Scheduling, System, Template, system_of_class};

use super::{Consent, Pool, RuntimeClassView, Snapshot, Spec, membership::PoolNodes};
use crate::ownership::AppliedKeys;

/// The taints of a pool that wait for its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeferredTaints {
    /// The taints that may be set: those that the pool has begun to set, and those that no pod prevents.
    pub begun: BTreeSet<Taint>,
    /// The others.
    pub held: BTreeSet<TaintKey>,
    /// The workloads that prevent a taint, with the remedy; empty if pods are not known yet.
    pub workloads: BTreeMap<Taint, BTreeMap<Arc<WorkloadName>, Remedy>>,
}

/// What to change so that the pods of a workload tolerate a taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// Add the toleration to the pods.
    Toleration,
    /// The same, or use this RuntimeClass of the pool.
    TolerationOrClass(String),
    /// Add the toleration to this RuntimeClass of the pods, or to the pods.
    TolerationOfClass(String),
    /// The template has the toleration already, and pods of an earlier template remain.
    ReplacePods,
}

impl DeferredTaints {
    /// Decides for the taints of a pool. `will_tolerate`: whether the plan changes the RuntimeClass of this name to tolerate
    /// them.
    pub fn of_pool(
        snapshot: &Snapshot,
        (pool, spec): (&Pool, &Spec),
        nodes: &PoolNodes,
        applied: &AppliedKeys,
        will_tolerate: &dyn Fn(&str) -> bool,
    ) -> Self {
        let is_new = |taint: &&Taint| {
            taint.excludes_pods() && !has_begun(snapshot, pool, nodes, applied, taint) && !is_allowed(pool, taint)
        };
        let new: Vec<&Taint> = spec.taints.iter().filter(is_new).collect();
        if new.is_empty() {
            return Self { begun: spec.taints.iter().cloned().collect(), ..Self::default() };
        }
        let check = || {
            let members = nodes.nodes().map(|node| (node.name.as_str(), node)).collect();
            Check { snapshot, spec, members, will_tolerate, selecting: RefCell::default() }.workloads(&new)
        };
        let workloads = if snapshot.pods.is_some() { check() } else { BTreeMap::new() };
        let waits =
            |taint: &&Taint| new.contains(taint) && (snapshot.pods_are_awaited() || workloads.contains_key(*taint));
        let (held, begun): (Vec<&Taint>, Vec<&Taint>) = spec.taints.iter().partition(waits);
        let (held, begun) = (held.into_iter().map(TaintKey::from).collect(), begun.into_iter().cloned().collect());
        Self { begun, held, workloads }
    }
}

/// Whether a pool has taints that it has not begun to set, which may wait for workloads.
pub fn has_new_taints(pool: &Pool) -> bool {
    let begun = pool.status.applied.taint_values.as_ref();
    let is_new = |taint: &Taint| taint.excludes_pods() && begun.is_none_or(|begun| !begun.contains(&taint.to_string()));
    pool.enforces() && pool.spec.as_ref().is_ok_and(|spec| spec.taints.iter().any(is_new))
}

/// Whether the pool has begun to set a taint. A pool that was created again, or that an earlier version of the operator
/// wrote, has begun to set the taints that it has added to nodes.
fn has_begun(snapshot: &Snapshot, pool: &Pool, nodes: &PoolNodes, applied: &AppliedKeys, taint: &Taint) -> bool {
    if let Some(begun) = &pool.status.applied.taint_values {
        return begun.contains(&taint.to_string());
    }
    let key = TaintKey::from(taint);
    let has_added = |node: &Arc<WindowsNode>| {
        applied.owns_taint(snapshot.ownership.record_state(node), &key)
            && node.taints.iter().any(|present| taint == present)
    };
    nodes.recorded.iter().any(has_added)
}

/// Whether the administrator allows pods to stay Pending. To allow that pods are evicted includes it.
fn is_allowed(pool: &Pool, taint: &Taint) -> bool {
    let may_evict = taint.effect == TaintEffect::NoExecute && pool.consents.allow(Consent::Evict(&[taint]));
    may_evict || pool.consents.allow(Consent::Pending(&[taint]))
}

/// The check of the pods of a pool.
struct Check<'a> {
    snapshot: &'a Snapshot,
    spec: &'a Spec,
    members: BTreeMap<&'a str, &'a WindowsNode>,
    will_tolerate: &'a dyn Fn(&str) -> bool,
    /// The results of [`Self::selects_member`], because most pods share the template of others.
    selecting: RefCell<HashMap<TemplateId, bool>>,
}

/// A template, by its address, and whether a DaemonSet creates its pods.
type TemplateId = (*const Template, bool);

/// A pod template, and how its pods are created.
#[derive(Clone, Copy)]
struct Created<'t> {
    template: &'t Template,
    /// The DaemonSet controller ignores the RuntimeClass.
    by_daemon_set: bool,
}

impl<'t> Created<'t> {
    fn id(self) -> TemplateId {
        (std::ptr::from_ref(self.template), self.by_daemon_set)
    }

    /// The RuntimeClass that counts when the pods are created.
    fn class(self) -> Option<&'t str> {
        self.template.runtime_class.as_deref().filter(|_| !self.by_daemon_set)
    }
}

impl<'a> Check<'a> {
    /// The workloads whose next pods would not tolerate the taints.
    fn workloads(&self, taints: &[&Taint]) -> BTreeMap<Taint, BTreeMap<Arc<WorkloadName>, Remedy>> {
        let mut stranded: BTreeMap<Taint, BTreeMap<Arc<WorkloadName>, Remedy>> = BTreeMap::new();
        // Most pods share the template of others.
        let mut untolerated: HashMap<TemplateId, Vec<&Taint>> = HashMap::new();
        // Only needed if a pod is stranded.
        let of_workloads = LazyCell::new(|| self.created_by_controllers().collect::<HashMap<_, _>>());
        let replaces_pods = |name: &Arc<WorkloadName>, taint: &Taint| {
            of_workloads.get(name).is_some_and(|created| self.tolerates(*created, taint))
        };
        for (name, created) in self.pods().chain(self.controllers()) {
            let of_template = untolerated
                .entry(created.id())
                .or_insert_with(|| taints.iter().copied().filter(|taint| !self.tolerates(created, taint)).collect());
            for taint in of_template {
                let workloads = stranded.entry((*taint).clone()).or_default();
                workloads.entry(name.clone()).or_insert_with(|| match replaces_pods(name, taint) {
                    true => Remedy::ReplacePods,
                    false => self.remedy(created),
                });
            }
        }
        stranded
    }

    /// The Windows pods on the nodes of the pool, and those that wait for one of them. The next pod of a DaemonSet is
    /// created from its current template.
    fn pods(&self) -> impl Iterator<Item = (&'a Arc<WorkloadName>, Created<'a>)> {
        let pods = self.snapshot.pods.iter().flat_map(|pods| pods.values()).map(AsRef::as_ref);
        pods.filter(|pod| !pod.finished && !pod.is_static && pod.workload.kind != "DaemonSet")
            .map(|pod| (pod, Created { template: &pod.template, by_daemon_set: false }))
            .filter(|(pod, created)| match &pod.node {
                Some(node) => self.members.contains_key(node.as_str()) && self.runs_on_windows(pod),
                None => self.selects_member(*created),
            })
            .map(|(pod, created)| (&pod.workload, created))
    }

    /// The objects that create Windows pods for the nodes of the pool.
    fn controllers(&self) -> impl Iterator<Item = (&'a Arc<WorkloadName>, Created<'a>)> {
        self.created_by_controllers().filter(|(_, created)| self.selects_member(*created))
    }

    /// The objects that create pods.
    fn created_by_controllers(&self) -> impl Iterator<Item = (&'a Arc<WorkloadName>, Created<'a>)> {
        let active = self.snapshot.controllers.iter().filter(|controller| controller.active);
        active.map(|controller| {
            let by_daemon_set = controller.workload.kind == "DaemonSet";
            (&controller.workload, Created { template: &controller.template, by_daemon_set })
        })
    }

    /// Whether a pod on a Windows node is for Windows. One that does not say so is if it has started: a Linux pod that was
    /// scheduled there cannot.
    fn runs_on_windows(&self, pod: &Pod) -> bool {
        let started = || pod.reports.contains(&Some(RuntimeReport::Started));
        self.system(&pod.template).map_or_else(started, |system| system == System::Windows)
    }

    fn system(&self, template: &Template) -> Option<System> {
        template.system(|class| system_of_class(&self.class(class)?.object))
    }

    fn class(&self, name: &str) -> Option<&'a RuntimeClassView> {
        self.snapshot.runtime_classes.get(name).map(AsRef::as_ref)
    }

    /// The scheduling of the RuntimeClass of a pod.
    fn class_scheduling(&self, created: Created) -> Scheduling {
        let class = created.class().and_then(|name| self.class(name));
        class.map(|class| Scheduling::of_class(&class.object)).unwrap_or_default()
    }

    /// Whether the pods are for Windows and can be scheduled to a node of the pool with its present taints.
    fn selects_member(&self, created: Created) -> bool {
        if let Some(known) = self.selecting.borrow().get(&created.id()) {
            return *known;
        }
        let selects = self.selects_any(created);
        self.selecting.borrow_mut().insert(created.id(), selects);
        selects
    }

    fn selects_any(&self, created: Created) -> bool {
        let template = created.template;
        if self.system(template) != Some(System::Windows) {
            return false;
        }
        let of_class = self.class_scheduling(created).node_selector;
        let selector = || template.scheduling.node_selector.iter().chain(&of_class);
        let tolerates = |taint: &Taint| !taint.excludes_pods() || self.tolerates(created, taint);
        let matches = |node: &WindowsNode| {
            selector().all(|(key, value)| node.labels.get(key) == Some(value))
                && template.affinity_matches(&node.labels, &node.name, |_| true)
                && node.lasting_taints().all(|taint| tolerates(&taint))
        };
        self.members.values().any(|node| matches(node))
    }

    /// Whether the next pods tolerate a taint, after the RuntimeClasses of the pool were changed.
    fn tolerates(&self, created: Created, taint: &Taint) -> bool {
        let by_class =
            || created.class().is_some_and(self.will_tolerate) || self.class_scheduling(created).tolerates(taint);
        created.template.scheduling.tolerates(taint) || by_class()
    }

    fn remedy(&self, created: Created) -> Remedy {
        match &created.template.runtime_class {
            _ if created.by_daemon_set => Remedy::Toleration,
            Some(class) => Remedy::TolerationOfClass(class.clone()),
            None => match self.spec.runtime_classes.first() {
                Some(class) => Remedy::TolerationOrClass(class.name.clone()),
                None => Remedy::Toleration,
            },
        }
    }
}

impl Remedy {
    /// What to write so that a workload tolerates a taint.
    pub fn instruction(&self, taint: &Taint) -> String {
        let toleration = toleration_text(taint);
        match self {
            Self::Toleration => format!("add toleration {toleration}"),
            Self::TolerationOrClass(class) => format!("add toleration {toleration}, or runtimeClassName: {class}"),
            Self::TolerationOfClass(class) => {
                format!("add toleration {toleration} to RuntimeClass {class} or to the pods")
            }
            Self::ReplacePods => {
                "its template has the toleration, but pods of an earlier template remain. Complete the rollout, or delete them"
                    .to_owned()
            }
        }
    }
}

/// The toleration of a taint as YAML in one line.
fn toleration_text(Taint { key, value, effect }: &Taint) -> String {
    let effect = effect.name();
    match value.as_str() {
        "" => format!("{{key: {key}, operator: Exists, effect: {effect}}}"),
        value => format!("{{key: {key}, value: {value:?}, effect: {effect}}}"),
    }
}
