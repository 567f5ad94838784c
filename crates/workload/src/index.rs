//! An index of all workloads with the results of their checks. When a pod changes, only this pod is checked again.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, LazyLock},
};

use winpool_api::names::label::HOSTNAME;
use winpool_core::image::{Lookup, RuntimeReport};
use winpool_facts::known_issues::{ComponentVersion, NodeComponent, PodFeature, ServiceFeature};

use super::{
    Controller, IssueKind, MemoryDefaults, Pod, Requests, Service, Storage, Template, VolumeIssue, WorkloadIssue,
    WorkloadName,
    check::{ImageStatus, Lookups, PodAssessment, PoolIssue, check_pod, check_template},
    scheduling_state::SchedulingState,
};

const MAX_REQUESTS: usize = 8;
/// The maximum number of workloads in a summary for each kind of issue. It also limits the number of events.
const MAX_NAMED: usize = 50;

#[derive(Debug, Default)]
pub struct WorkloadIndex {
    state: SchedulingState,
    pods: HashMap<Arc<str>, CheckedPod>,
    controllers: HashMap<Arc<WorkloadName>, CheckedController>,
    /// The LimitRanges of each namespace, by key.
    defaults: HashMap<String, BTreeMap<String, Arc<MemoryDefaults>>>,
    /// The reports of container runtimes about the sandboxes of pods, by the key of the pod and the name of the event.
    sandboxes: HashMap<String, BTreeMap<String, RuntimeReport>>,
    /// The Services of each namespace that known issues depend on, by key.
    services: HashMap<String, BTreeMap<String, Arc<Service>>>,
    services_are_read: bool,
    lookups: Lookups,
    by_node: HashMap<String, HashSet<Arc<str>>>,
    /// The volumes of the cluster, if they are read.
    storage: Option<Storage>,
    /// The pods that need the lookup of an image.
    by_image: HashMap<String, HashSet<Arc<str>>>,
    /// The node labels that workloads select by, with the number of these workloads.
    selected_by: BTreeMap<String, u32>,
    totals: HashMap<String, PoolTotals>,
    changed: BTreeSet<String>,
}

#[derive(Debug)]
struct CheckedPod {
    pod: Arc<Pod>,
    /// `None` for pods that concern no pool, which are the majority in most clusters.
    assessment: Option<Box<PodAssessment>>,
}

#[derive(Debug)]
struct CheckedController {
    controller: Arc<Controller>,
    issues: Vec<PoolIssue>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRequest {
    /// The pool of a pod with the image, if it is known.
    pub pool: Option<String>,
    /// The namespace of that pod.
    pub namespace: String,
    pub pull_secrets: Vec<String>,
}

/// How many images need a registry lookup, by its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupCounts {
    pub found: usize,
    pub failed: usize,
    pub pending: usize,
}

/// The sort key of requests: whether there are no secrets, the secrets, the namespace, and the pool.
type RequestKey<'e> = (bool, &'e [String], &'e str, Option<&'e str>);

impl CheckedPod {
    fn request(&self) -> Option<RequestKey<'_>> {
        let (secrets, pool) = (&self.pod.template.pull_secrets, self.assessment.as_ref()?.pool.as_deref());
        Some((secrets.is_empty(), secrets, &self.pod.workload.namespace, pool))
    }
}

impl From<RequestKey<'_>> for ImageRequest {
    fn from((_, secrets, namespace, pool): RequestKey<'_>) -> Self {
        Self { pool: pool.map(str::to_owned), namespace: namespace.to_owned(), pull_secrets: secrets.to_vec() }
    }
}

/// The requests, first one of each namespace, so that the Secrets of one do not displace those of others.
fn fairly(requests: BTreeSet<RequestKey<'_>>) -> impl Iterator<Item = RequestKey<'_>> {
    let mut namespaces = BTreeSet::new();
    let (first, others): (Vec<_>, Vec<_>) =
        requests.into_iter().partition(|(_, _, namespace, _)| namespaces.insert(*namespace));
    first.into_iter().chain(others)
}

#[derive(Debug, Default)]
struct PoolTotals {
    pods: u32,
    images: BTreeMap<ImageStatus, u32>,
    /// The pods with an image that is too many updates behind.
    updates_behind: u32,
    classes: BTreeMap<String, u32>,
    features: BTreeMap<(PodFeature, Arc<WorkloadName>), u32>,
    components: BTreeMap<(NodeComponent, ComponentVersion), u32>,
    services: BTreeMap<(ServiceFeature, Arc<str>), u32>,
    /// The exact sum of the memory limits by node. It must not saturate, because the limit of a removed pod is
    /// subtracted, and no number of pods overflows it.
    memory: HashMap<String, i128>,
    requests: Requests,
    /// The pods with volumes that drivers mount.
    with_volumes: BTreeSet<Arc<str>>,
    /// Each issue with the number of pods that have it, by kind and workload.
    issues: BTreeMap<(IssueKind, Arc<WorkloadName>), BTreeMap<WorkloadIssue, u32>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Workloads {
    #[default]
    Off,
    Waiting,
    Known(BTreeMap<String, Arc<PoolWorkloads>>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolWorkloads {
    /// The pods on the nodes of the pool, and those that can be scheduled to it.
    pub pods: u32,
    pub cannot_run: u32,
    pub suspected: u32,
    pub unknown: u32,
    /// The pods with an image that is too many updates behind.
    pub updates_behind: u32,
    pub classes: BTreeMap<String, u32>,
    /// The workloads with issues, worst first.
    pub issues: BTreeMap<IssueKind, AffectedWorkloads>,
    pub features: BTreeMap<PodFeature, BTreeSet<Arc<WorkloadName>>>,
    pub components: BTreeSet<(NodeComponent, ComponentVersion)>,
    /// The Services of the pods with each feature that known issues depend on; `None` if Services are not read.
    pub services: Option<BTreeMap<ServiceFeature, BTreeSet<Arc<str>>>>,
    pub requests: Requests,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AffectedWorkloads {
    pub count: usize,
    /// The first of them with their issue, by name.
    pub first: Vec<(Arc<WorkloadName>, WorkloadIssue)>,
}

impl PoolWorkloads {
    /// That of a pool without pods, which have no Services.
    pub fn empty() -> Self {
        Self { services: Some(BTreeMap::new()), ..Self::default() }
    }
}

impl Workloads {
    /// The summary of the workloads of a pool; `None` if they are not read. A pool without pods has an empty one.
    pub fn of(&self, pool: &str) -> Option<&PoolWorkloads> {
        static EMPTY: LazyLock<PoolWorkloads> = LazyLock::new(PoolWorkloads::empty);
        match self {
            Self::Known(pools) => Some(pools.get(pool).map_or(&*EMPTY, AsRef::as_ref)),
            Self::Off | Self::Waiting => None,
        }
    }
}

impl WorkloadIndex {
    pub fn set_pod(&mut self, key: &str, pod: Option<Arc<Pod>>) {
        self.remove_pod(key);
        let Some(pod) = pod else { return };
        if let Some(node) = pod.node.as_ref().filter(|node| self.state.nodes.contains_key(*node)) {
            self.by_node.entry(node.clone()).or_default().insert(pod.key.clone());
        }
        self.insert_pod(pod);
    }

    pub fn set_controller(&mut self, name: &Arc<WorkloadName>, controller: Option<Arc<Controller>>) {
        if let Some(checked) = self.controllers.remove(name) {
            self.count_selected_labels(&checked.controller.template, false);
            self.count_issues(name, &checked.issues, false);
        }
        if let Some(controller) = controller {
            self.insert_controller(controller);
        }
    }

    /// Adds, replaces or removes a LimitRange, and checks the controllers in its namespace.
    pub fn set_memory_defaults(&mut self, namespace: &str, key: &str, defaults: Option<Arc<MemoryDefaults>>) {
        set_nested(&mut self.defaults, namespace, key, defaults);
        self.recheck_controllers(|controller| controller.workload.namespace == namespace);
    }

    /// Services are read: the first list of them is complete.
    pub fn read_services(&mut self) {
        if !self.services_are_read {
            self.services_are_read = true;
            self.changed.extend(self.totals.keys().cloned());
        }
    }

    /// Adds, replaces or removes a Service, and counts the pods that it selects again.
    pub fn set_service(&mut self, namespace: &str, key: &str, service: Option<Arc<Service>>) {
        let now = service.filter(|service| !service.features.is_empty());
        let before = self.services.get(namespace).and_then(|services| services.get(key)).cloned();
        if before == now {
            return;
        }
        let both = [before.as_ref(), now.as_ref()];
        let is_selected = |pod: &Pod| both.into_iter().flatten().any(|service| service.selects(pod));
        let pods: Vec<_> = self.pods.values().map(|one| &one.pod).filter(|pod| is_selected(pod)).cloned().collect();
        for pod in &pods {
            self.remove_pod(&pod.key);
        }
        set_nested(&mut self.services, namespace, key, now);
        for pod in pods {
            self.set_pod(&pod.key.clone(), Some(pod));
        }
    }

    /// Replaces what is known of volumes and drivers.
    pub fn set_storage(&mut self, storage: Option<Storage>) {
        self.storage = storage;
        let with_volumes = self.totals.iter().filter(|(_, totals)| !totals.with_volumes.is_empty());
        self.changed.extend(with_volumes.map(|(pool, _)| pool.clone()));
    }

    /// Adds, replaces or removes an event about the sandbox of a pod, and checks the pod.
    pub fn set_sandbox_report(&mut self, pod: &str, event: &str, report: Option<RuntimeReport>) {
        set_nested(&mut self.sandboxes, pod, event, report);
        self.recheck_pods([Arc::from(pod)]);
    }

    /// Adds the result of a registry lookup, and checks the pods with the image.
    pub fn set_lookup(&mut self, image: &str, lookup: Arc<Lookup>) {
        if self.lookups.get(image) == Some(&lookup) {
            return;
        }
        self.lookups.insert(image.to_owned(), lookup);
        let pods = self.by_image.get(image).cloned().unwrap_or_default();
        self.recheck_pods(pods);
    }

    pub fn lookup_counts(&self) -> LookupCounts {
        let mut counts = LookupCounts::default();
        for image in self.by_image.keys() {
            *match self.lookups.get(image).map(AsRef::as_ref) {
                Some(Lookup::Found(_)) => &mut counts.found,
                Some(Lookup::Failed(_)) => &mut counts.failed,
                None => &mut counts.pending,
            } += 1;
        }
        counts
    }

    pub fn remove_unused_lookups(&mut self) {
        self.lookups.retain(|image, _| self.by_image.contains_key(image));
    }

    /// Replaces the scheduling state, and checks the workloads that depend on the changes.
    pub fn set_state(&mut self, state: SchedulingState) {
        let before = std::mem::replace(&mut self.state, state);
        if before == self.state {
            return;
        }
        if (&before.pools, &before.classes, &before.unassigned)
            != (&self.state.pools, &self.state.classes, &self.state.unassigned)
        {
            self.recheck_all();
            return;
        }
        let names = before.nodes.keys().chain(self.state.nodes.keys());
        let changed = |name: &&String| before.nodes.get(*name) != self.state.nodes.get(*name);
        let nodes: HashSet<String> = names.filter(changed).cloned().collect();
        // A pod may be indexed before its node, and may select a nonexistent node by name.
        let depends = |checked: &&CheckedPod| match &checked.pod.node {
            Some(node) => nodes.contains(node) && !before.nodes.contains_key(node),
            None => checked.pod.template.selects_by_host(),
        };
        let mut keys: HashSet<Arc<str>> =
            self.pods.values().filter(depends).map(|checked| checked.pod.key.clone()).collect();
        keys.extend(nodes.iter().filter_map(|node| self.by_node.get(node)).flatten().cloned());
        self.recheck_pods(keys);
        self.recheck_controllers(|controller| controller.template.selects_by_host());
    }

    pub fn selected_labels(&self) -> BTreeSet<String> {
        self.selected_by.keys().cloned().collect()
    }

    /// Whether the checks may depend on a node label. They always may depend on the host name.
    pub fn selects_by(&self, label: &str) -> bool {
        label == HOSTNAME || self.selected_by.contains_key(label)
    }

    /// Whether workloads select by node labels that the scheduling state does not have.
    pub fn needs_more_labels(&self) -> bool {
        self.state.selected_labels.as_ref().is_some_and(|known| self.selected_by.keys().any(|key| !known.contains(key)))
    }

    pub fn state(&self) -> &SchedulingState {
        &self.state
    }

    /// The pools whose workloads changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    pub fn pool_of(&self, key: &str) -> Option<&str> {
        self.pods.get(key)?.assessment.as_ref()?.pool.as_deref()
    }

    /// The images that need a registry lookup, with the requests of their pods, whose credentials may differ.
    pub fn image_requests(&self) -> impl Iterator<Item = (&str, Vec<ImageRequest>)> {
        self.by_image.iter().map(|(image, keys)| {
            let pods = keys.iter().filter_map(|key| self.pods.get(key));
            let requests: BTreeSet<RequestKey> = pods.filter_map(CheckedPod::request).collect();
            (image.as_str(), fairly(requests).take(MAX_REQUESTS).map(ImageRequest::from).collect())
        })
    }

    /// The object that events about a workload regard, with its uid: the workload if it is indexed, else its first pod.
    pub fn event_object(&self, workload: &Arc<WorkloadName>) -> Option<(Arc<WorkloadName>, &str)> {
        if let Some(checked) = self.controllers.get(workload) {
            return Some((workload.clone(), &checked.controller.uid));
        }
        let of_workload = self.pods.values().map(|checked| &checked.pod).filter(|pod| pod.workload == *workload);
        let pod = of_workload.min_by(|a, b| a.key.cmp(&b.key))?;
        let name = pod.key.rsplit('/').next()?.to_owned();
        let name = WorkloadName { kind: "Pod".to_owned(), namespace: workload.namespace.clone(), name };
        Some((Arc::new(name), &pod.uid))
    }

    pub fn len(&self) -> usize {
        self.pods.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub fn summary(&self, pool: &str) -> PoolWorkloads {
        let Some(totals) = self.totals.get(pool) else { return PoolWorkloads::empty() };
        let count = |status| totals.images.get(&status).copied().unwrap_or_default();
        let mut issues: BTreeMap<IssueKind, AffectedWorkloads> = BTreeMap::new();
        let volumes = self.volume_issues(pool, totals);
        let first = |(key, of_workload): (_, &BTreeMap<WorkloadIssue, u32>)| (key, of_workload.keys().next().cloned());
        let volumes = volumes.iter().map(|(key, issue)| (key, Some(WorkloadIssue::Volume(issue.clone()))));
        for ((kind, workload), issue) in totals.issues.iter().map(first).chain(volumes) {
            let affected = issues.entry(*kind).or_default();
            affected.count += 1;
            if let Some(issue) = issue.filter(|_| affected.first.len() < MAX_NAMED) {
                affected.first.push((workload.clone(), issue));
            }
        }
        let nodes = self.overcommitted_nodes(totals);
        if !nodes.first.is_empty() {
            issues.insert(IssueKind::MemoryOvercommitted, nodes);
        }
        PoolWorkloads {
            pods: totals.pods,
            cannot_run: count(ImageStatus::Incompatible),
            suspected: count(ImageStatus::Suspected),
            unknown: count(ImageStatus::Unknown),
            updates_behind: totals.updates_behind,
            classes: totals.classes.clone(),
            issues,
            features: by_feature(totals.features.keys()),
            components: totals.components.keys().copied().collect(),
            services: (self.services_are_read || totals.pods == 0).then(|| by_feature(totals.services.keys())),
            requests: totals.requests.clone(),
        }
    }

    /// The volumes of the pods of a pool that their nodes do not mount: the first of each kind and workload.
    fn volume_issues(&self, pool: &str, totals: &PoolTotals) -> BTreeMap<(IssueKind, Arc<WorkloadName>), VolumeIssue> {
        let mut issues = BTreeMap::new();
        let Some(storage) = self.storage.as_ref().filter(|_| !totals.with_volumes.is_empty()) else { return issues };
        let nodes = self.state.nodes.iter().filter(|(_, node)| node.pool.as_deref() == Some(pool));
        let mut nodes: Vec<&str> = nodes.map(|(name, _)| name.as_str()).collect();
        nodes.sort_unstable();
        let pods = totals.with_volumes.iter().filter_map(|key| self.pods.get(key));
        let pods: Vec<&Pod> = pods.map(|checked| checked.pod.as_ref()).collect();
        for (pod, issue) in storage.issues(&nodes, &pods) {
            issues.entry((issue.kind(), pod.workload.clone())).or_insert(issue);
        }
        issues
    }

    /// The nodes whose allocatable memory is less than the memory limits of their pods.
    fn overcommitted_nodes(&self, totals: &PoolTotals) -> AffectedWorkloads {
        let overcommitted = |(node, limits): (&String, &i128)| {
            let memory = self.state.nodes.get(node)?.memory.filter(|memory| *limits > i128::from(*memory))?;
            let issue = WorkloadIssue::MemoryOvercommitted { allocatable: memory, limits: *limits };
            let name = WorkloadName { kind: "Node".to_owned(), namespace: String::new(), name: node.clone() };
            Some((Arc::new(name), issue))
        };
        let mut first: Vec<_> = totals.memory.iter().filter_map(overcommitted).collect();
        first.sort();
        let count = first.len();
        first.truncate(MAX_NAMED);
        AffectedWorkloads { count, first }
    }

    fn recheck_all(&mut self) {
        let pods: Vec<_> = self.pods.drain().map(|(_, checked)| checked.pod).collect();
        let controllers: Vec<_> = self.controllers.drain().map(|(_, checked)| checked.controller).collect();
        self.changed.extend(self.totals.drain().map(|(pool, _)| pool));
        self.by_node.clear();
        self.by_image.clear();
        self.selected_by.clear();
        for controller in controllers {
            self.insert_controller(controller);
        }
        for pod in pods {
            let key = pod.key.clone();
            self.set_pod(&key, Some(pod));
        }
    }

    fn recheck_pods(&mut self, keys: impl IntoIterator<Item = Arc<str>>) {
        for key in keys {
            if let Some(pod) = self.pods.get(&key).map(|checked| checked.pod.clone()) {
                self.set_pod(&key, Some(pod));
            }
        }
    }

    fn recheck_controllers(&mut self, depends: impl Fn(&Controller) -> bool) {
        let controllers = self.controllers.values().map(|checked| &checked.controller);
        let dependent: Vec<_> = controllers.filter(|controller| depends(controller)).cloned().collect();
        for controller in dependent {
            self.set_controller(&controller.workload.clone(), Some(controller));
        }
    }

    fn insert_pod(&mut self, pod: Arc<Pod>) {
        let sandbox = self.sandboxes.get(&*pod.key).and_then(|events| events.values().next_back());
        let assessment = check_pod(&self.state, &pod, &self.lookups, sandbox);
        let assessment = Some(assessment).filter(|assessment| *assessment != PodAssessment::default()).map(Box::new);
        if let Some(assessment) = &assessment {
            for image in &assessment.images_to_look_up {
                self.by_image.entry(image.clone()).or_default().insert(pod.key.clone());
            }
            self.count_pod(&pod, assessment, true);
        }
        self.count_selected_labels(&pod.template, true);
        self.pods.insert(pod.key.clone(), CheckedPod { pod, assessment });
    }

    fn insert_controller(&mut self, controller: Arc<Controller>) {
        let issues = match controller.active {
            true => check_template(&self.state, &controller.workload, &self.with_defaults(&controller)),
            false => Vec::new(),
        };
        self.count_selected_labels(&controller.template, true);
        self.count_issues(&controller.workload, &issues, true);
        self.controllers.insert(controller.workload.clone(), CheckedController { controller, issues });
    }

    fn with_defaults<'c>(&self, controller: &'c Controller) -> Cow<'c, Template> {
        match self.defaults.get(&controller.workload.namespace).and_then(|ranges| ranges.values().next()) {
            Some(defaults) => Cow::Owned(defaults.fill_in(controller.template.as_ref().clone())),
            None => Cow::Borrowed(&controller.template),
        }
    }

    fn remove_pod(&mut self, key: &str) {
        let Some(CheckedPod { pod, assessment }) = self.pods.remove(key) else { return };
        self.count_selected_labels(&pod.template, false);
        if let Some(node) = &pod.node {
            remove_from(&mut self.by_node, node, key);
        }
        let Some(assessment) = assessment else { return };
        for image in &assessment.images_to_look_up {
            remove_from(&mut self.by_image, image, key);
        }
        self.count_pod(&pod, &assessment, false);
    }

    /// Adds a pod to the totals of its pool, or subtracts it.
    fn count_pod(&mut self, pod: &Pod, assessment: &PodAssessment, add: bool) {
        self.count_issues(&pod.workload, &assessment.issues, add);
        let Some(pool) = &assessment.pool else { return };
        self.changed.insert(pool.clone());
        let totals = self.totals.entry(pool.clone()).or_default();
        totals.pods = step(totals.pods, add);
        count(&mut totals.images, assessment.images, add);
        if assessment.issues.iter().any(|one| one.issue.kind() == IssueKind::ImageUpdatesBehind) {
            totals.updates_behind = step(totals.updates_behind, add);
        }
        if let Some(class) = &pod.template.runtime_class {
            count(&mut totals.classes, class.clone(), add);
        }
        if !pod.template.volumes.is_empty() {
            match add {
                true => totals.with_volumes.insert(pod.key.clone()),
                false => totals.with_volumes.remove(&pod.key),
            };
        }
        for feature in pod.template.features.iter() {
            count(&mut totals.features, (feature, pod.workload.clone()), add);
        }
        for component in &pod.template.components {
            count(&mut totals.components, *component, add);
        }
        let of_namespace = self.services.get(&pod.workload.namespace).into_iter().flat_map(BTreeMap::values);
        for service in of_namespace.filter(|service| service.selects(pod)) {
            for feature in &service.features {
                count(&mut totals.services, (*feature, service.key.clone()), add);
            }
        }
        totals.requests.count(pod, add);
        if let Some(node) = &pod.node {
            let memory = totals.memory.entry(node.clone()).or_default();
            let limit = i128::from(assessment.memory_limit);
            *memory = memory.saturating_add(if add { limit } else { -limit });
            if *memory == 0 {
                totals.memory.remove(node);
            }
        }
    }

    fn count_selected_labels(&mut self, template: &Template, add: bool) {
        template.selected_labels().for_each(|key| count(&mut self.selected_by, key.clone(), add));
    }

    fn count_issues(&mut self, workload: &Arc<WorkloadName>, issues: &[PoolIssue], add: bool) {
        for PoolIssue { pool, issue } in issues {
            self.changed.insert(pool.clone());
            let totals = self.totals.entry(pool.clone()).or_default();
            let key = (issue.kind(), workload.clone());
            let of_workload = totals.issues.entry(key.clone()).or_default();
            count(of_workload, issue.clone(), add);
            if of_workload.is_empty() {
                totals.issues.remove(&key);
            }
        }
    }
}

/// At most [`MAX_NAMED`] objects with each feature.
fn by_feature<'t, F: Copy + Ord + 't, N: Clone + Ord + 't>(
    counted: impl IntoIterator<Item = &'t (F, N)>,
) -> BTreeMap<F, BTreeSet<N>> {
    let mut by_feature: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (feature, object) in counted {
        let objects = by_feature.entry(*feature).or_default();
        if objects.len() < MAX_NAMED {
            objects.insert(object.clone());
        }
    }
    by_feature
}

/// Sets or removes the value of a nested key; the outer key is removed with its last value.
fn set_nested<V>(all: &mut HashMap<String, BTreeMap<String, V>>, key: &str, name: &str, value: Option<V>) {
    let values = all.entry(key.to_owned()).or_default();
    match value {
        Some(value) => values.insert(name.to_owned(), value),
        None => values.remove(name),
    };
    if values.is_empty() {
        all.remove(key);
    }
}

/// Removes a pod from the set of a key; the key is removed with the last pod.
fn remove_from(sets: &mut HashMap<String, HashSet<Arc<str>>>, key: &str, pod: &str) {
    if let Some(pods) = sets.get_mut(key) {
        pods.remove(pod);
        if pods.is_empty() {
            sets.remove(key);
        }
    }
}

fn step(count: u32, add: bool) -> u32 {
    if add { count.saturating_add(1) } else { count.saturating_sub(1) }
}

/// Counts one more of a key, or one less; a key without any is removed.
pub(super) fn count<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K, add: bool) {
    let count = step(counts.get(&key).copied().unwrap_or_default(), add);
    if count == 0 {
        counts.remove(&key);
    } else {
        counts.insert(key, count);
    }
}
