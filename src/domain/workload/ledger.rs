//! The verdicts on all workloads, kept up with every change: a pod that changes costs its own verdict and no more.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{
    Controller, MemoryDefaults, Pod, Template, WorkloadName,
    ground::Ground,
    judge::{Finding, Images, Judgement, Trap, judge_pod, judge_template},
};
use crate::{
    api::names::label::HOSTNAME,
    domain::{
        image::{Lookup, Said},
        quantity::Quantity,
    },
};

/// How many ways to ask for an image are tried.
const WAYS: usize = 8;
/// How many workloads a summary names for each trap: as many as may be told in events.
const NAMED: usize = 50;

/// All workloads with the verdicts on them.
#[derive(Debug, Default)]
pub struct Ledger {
    ground: Ground,
    pods: HashMap<Arc<str>, Entry>,
    controllers: HashMap<Arc<WorkloadName>, Judged>,
    /// The LimitRanges of each namespace, by key.
    defaults: HashMap<String, BTreeMap<String, Arc<MemoryDefaults>>>,
    /// What runtimes said of the sandboxes of pods, by the key of the pod and the name of the event that says so.
    sandboxes: HashMap<String, BTreeMap<String, Said>>,
    /// What registries said, by image.
    lookups: HashMap<String, Arc<Lookup>>,
    /// The pods on each Windows node.
    by_node: HashMap<String, HashSet<Arc<str>>>,
    /// The pods that wait for what the registry says of an image.
    by_image: HashMap<String, HashSet<Arc<str>>>,
    /// The labels of nodes that pods and what makes them ask for, with how often.
    asked: BTreeMap<String, u32>,
    tallies: HashMap<String, Tally>,
    changed: BTreeSet<String>,
}

#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    /// Pods that are nothing to any pool have no verdict, which are most in most clusters.
    judgement: Option<Box<Judgement>>,
}

#[derive(Debug)]
struct Judged {
    controller: Arc<Controller>,
    findings: Vec<Finding>,
}

/// A way to ask for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The pool that a pod with it is on or bound for, as far as that is known.
    pub pool: Option<String>,
    /// The namespace of that pod.
    pub namespace: String,
    /// The pull secrets that the pod names.
    pub pull_secrets: Vec<String>,
}

/// The ways with secrets come first: whether there are none, these, the namespace, and the pool.
type Way<'e> = (bool, &'e [String], &'e str, Option<&'e str>);

impl Entry {
    fn way(&self) -> Option<Way<'_>> {
        let (secrets, pool) = (&self.pod.template.pull_secrets, self.judgement.as_ref()?.pool.as_deref());
        Some((secrets.is_empty(), secrets, &self.pod.workload.namespace, pool))
    }
}

impl From<Way<'_>> for Want {
    fn from((_, secrets, namespace, pool): Way<'_>) -> Self {
        Self { pool: pool.map(str::to_owned), namespace: namespace.to_owned(), pull_secrets: secrets.to_vec() }
    }
}

/// What the verdicts on the workloads of one pool add up to.
#[derive(Debug, Default)]
struct Tally {
    pods: u32,
    images: BTreeMap<Images, u32>,
    classes: BTreeMap<String, u32>,
    /// By node, the exact sum of the limits: what one pod adds is subtracted again when it goes, so the sum must not
    /// saturate. No number of pods overflows it.
    memory: HashMap<String, i128>,
    /// By trap and workload: each story, with how many pods tell it.
    findings: BTreeMap<(Trap, Arc<WorkloadName>), BTreeMap<String, u32>>,
}

/// What is known of the workloads of all pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Workloads {
    /// They are not looked at.
    #[default]
    Off,
    /// They are not known yet.
    Waiting,
    /// In short, by pool.
    Known(BTreeMap<String, Arc<PoolWorkloads>>),
}

/// The workloads of a pool in short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolWorkloads {
    /// The pods on or bound for the pool.
    pub pods: u32,
    /// Those of which some image cannot run.
    pub cannot_run: u32,
    /// Those of which the name of some image suggests that it cannot run.
    pub suspected: u32,
    /// Those of which nobody knows.
    pub unknown: u32,
    /// How many pods use each RuntimeClass.
    pub classes: BTreeMap<String, u32>,
    /// What is wrong, worst first.
    pub traps: BTreeMap<Trap, Trapped>,
}

/// The workloads in one trap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trapped {
    /// How many there are.
    pub count: usize,
    /// The first of them with their stories, by name.
    pub first: Vec<(Arc<WorkloadName>, String)>,
}

impl Ledger {
    /// A pod changed, or is gone.
    pub fn pod(&mut self, key: &str, pod: Option<Arc<Pod>>) {
        self.forget(key);
        let Some(pod) = pod else { return };
        if let Some(node) = pod.node.as_ref().filter(|node| self.ground.nodes.contains_key(*node)) {
            self.by_node.entry(node.clone()).or_default().insert(pod.key.clone());
        }
        self.enter(pod);
    }

    /// An object that makes pods changed, or is gone.
    pub fn controller(&mut self, name: &Arc<WorkloadName>, controller: Option<Arc<Controller>>) {
        if let Some(judged) = self.controllers.remove(name) {
            self.count_asked(&judged.controller.template, false);
            self.count_findings(name, &judged.findings, false);
        }
        if let Some(controller) = controller {
            self.enter_controller(controller);
        }
    }

    /// A LimitRange changed, or is gone: what makes pods in its namespace is judged again.
    pub fn defaults(&mut self, namespace: &str, key: &str, defaults: Option<Arc<MemoryDefaults>>) {
        put(&mut self.defaults, namespace, key, defaults);
        self.judge_controllers_again(|controller| controller.workload.namespace == namespace);
    }

    /// What an event says of the sandbox of a pod, or that it is said no more.
    pub fn sandbox(&mut self, pod: &str, event: &str, said: Option<Said>) {
        put(&mut self.sandboxes, pod, event, said);
        self.judge_again([Arc::from(pod)]);
    }

    /// What the registry said of an image.
    pub fn answer(&mut self, image: &str, lookup: Arc<Lookup>) {
        if self.lookups.get(image) == Some(&lookup) {
            return;
        }
        self.lookups.insert(image.to_owned(), lookup);
        let asked = self.by_image.get(image).cloned().unwrap_or_default();
        self.judge_again(asked);
    }

    /// Forgets what registries said of images that nobody waits for any more.
    pub fn forget_answers(&mut self) {
        self.lookups.retain(|image, _| self.by_image.contains_key(image));
    }

    /// The ground changed: what stands on the part that did is judged again.
    pub fn stand_on(&mut self, ground: Ground) {
        let before = std::mem::replace(&mut self.ground, ground);
        if before == self.ground {
            return;
        }
        if (&before.pools, &before.classes, &before.outside)
            != (&self.ground.pools, &self.ground.classes, &self.ground.outside)
        {
            self.judge_everything();
            return;
        }
        let names = before.nodes.keys().chain(self.ground.nodes.keys());
        let other = |name: &&String| before.nodes.get(*name) != self.ground.nodes.get(*name);
        let nodes: HashSet<String> = names.filter(other).cloned().collect();
        // Pods may be on a node before it is known, and ask for one by name that is no more or not yet.
        let concerned = |entry: &&Entry| match &entry.pod.node {
            Some(node) => nodes.contains(node) && !before.nodes.contains_key(node),
            None => entry.pod.template.names_hosts(),
        };
        let mut keys: HashSet<Arc<str>> =
            self.pods.values().filter(concerned).map(|entry| entry.pod.key.clone()).collect();
        keys.extend(nodes.iter().filter_map(|node| self.by_node.get(node)).flatten().cloned());
        self.judge_again(keys);
        self.judge_controllers_again(|controller| controller.template.names_hosts());
    }

    /// The labels of nodes that workloads ask for.
    pub fn asked_labels(&self) -> BTreeSet<String> {
        self.asked.keys().cloned().collect()
    }

    /// Whether the verdicts may depend on a label of nodes. The name of the host tells which node is meant.
    pub fn asks_for(&self, label: &str) -> bool {
        label == HOSTNAME || self.asked.contains_key(label)
    }

    /// Whether workloads ask for labels that the ground was made without.
    pub fn asks_for_more(&self) -> bool {
        self.ground.asked.as_ref().is_some_and(|known| self.asked.keys().any(|key| !known.contains(key)))
    }

    /// The ground that the workloads stand on.
    pub fn ground(&self) -> &Ground {
        &self.ground
    }

    /// The pools whose workloads say something else than at the last call.
    pub fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    /// The pool that a pod is on or bound for.
    pub fn pool_of(&self, key: &str) -> Option<&str> {
        self.pods.get(key)?.judgement.as_ref()?.pool.as_deref()
    }

    /// The images of which the registry would tell more, each with the different ways to ask that the pods have which
    /// wait for it: one that has a login sees more than one that has none.
    pub fn wants(&self) -> impl Iterator<Item = (&str, Vec<Want>)> {
        self.by_image.iter().map(|(image, keys)| {
            let entries = keys.iter().filter_map(|key| self.pods.get(key));
            let ways: BTreeSet<Way> = entries.filter_map(Entry::way).collect();
            (image.as_str(), ways.into_iter().take(WAYS).map(Want::from).collect())
        })
    }

    /// The object that is told what is wrong with a workload, with its uid: the workload itself where it is known, and else
    /// the first of its pods.
    pub fn subject(&self, workload: &Arc<WorkloadName>) -> Option<(Arc<WorkloadName>, &str)> {
        if let Some(judged) = self.controllers.get(workload) {
            return Some((workload.clone(), &judged.controller.uid));
        }
        let of_workload = self.pods.values().map(|entry| &entry.pod).filter(|pod| pod.workload == *workload);
        let pod = of_workload.min_by(|a, b| a.key.cmp(&b.key))?;
        let name = pod.key.rsplit('/').next()?.to_owned();
        let name = WorkloadName { kind: "Pod".to_owned(), namespace: workload.namespace.clone(), name };
        Some((Arc::new(name), &pod.uid))
    }

    /// The number of pods.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether there is no pod.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The workloads of a pool in short.
    pub fn summary(&self, pool: &str) -> PoolWorkloads {
        let nothing = Tally::default();
        let tally = self.tallies.get(pool).unwrap_or(&nothing);
        let of = |images| tally.images.get(&images).copied().unwrap_or_default();
        let mut traps: BTreeMap<Trap, Trapped> = BTreeMap::new();
        for ((trap, workload), stories) in &tally.findings {
            let trapped = traps.entry(*trap).or_default();
            trapped.count += 1;
            if let Some(story) = stories.keys().next().filter(|_| trapped.first.len() < NAMED) {
                trapped.first.push((workload.clone(), story.clone()));
            }
        }
        let nodes = self.overcommitted(tally);
        if !nodes.first.is_empty() {
            traps.insert(Trap::MemoryOvercommitted, nodes);
        }
        PoolWorkloads {
            pods: tally.pods,
            cannot_run: of(Images::CannotRun),
            suspected: of(Images::Suspected),
            unknown: of(Images::Unknown),
            classes: tally.classes.clone(),
            traps,
        }
    }

    /// The nodes whose pods may take more memory than there is.
    fn overcommitted(&self, tally: &Tally) -> Trapped {
        let over = |(node, limits): (&String, &i128)| {
            let memory = self.ground.nodes.get(node)?.memory.filter(|memory| *limits > i128::from(*memory))?;
            let bytes = Quantity::of_bytes;
            let story = format!(
                "offers {} to pods whose limits add up to {}: Windows pages then, and everything there slows down: lower the limits, or spread the pods",
                bytes(memory),
                bytes_at_most(*limits)
            );
            let name = WorkloadName { kind: "Node".to_owned(), namespace: String::new(), name: node.clone() };
            Some((Arc::new(name), story))
        };
        let mut first: Vec<_> = tally.memory.iter().filter_map(over).collect();
        first.sort();
        let count = first.len();
        first.truncate(NAMED);
        Trapped { count, first }
    }

    fn judge_everything(&mut self) {
        let pods: Vec<_> = self.pods.drain().map(|(_, entry)| entry.pod).collect();
        let controllers: Vec<_> = self.controllers.drain().map(|(_, judged)| judged.controller).collect();
        self.changed.extend(self.tallies.drain().map(|(pool, _)| pool));
        self.by_node.clear();
        self.by_image.clear();
        self.asked.clear();
        for controller in controllers {
            self.enter_controller(controller);
        }
        for pod in pods {
            let key = pod.key.clone();
            self.pod(&key, Some(pod));
        }
    }

    fn judge_again(&mut self, keys: impl IntoIterator<Item = Arc<str>>) {
        for key in keys {
            if let Some(pod) = self.pods.get(&key).map(|entry| entry.pod.clone()) {
                self.pod(&key, Some(pod));
            }
        }
    }

    fn judge_controllers_again(&mut self, concerned: impl Fn(&Controller) -> bool) {
        let controllers = self.controllers.values().map(|judged| &judged.controller);
        let concerned: Vec<_> = controllers.filter(|controller| concerned(controller)).cloned().collect();
        for controller in concerned {
            self.controller(&controller.workload.clone(), Some(controller));
        }
    }

    fn enter(&mut self, pod: Arc<Pod>) {
        let sandbox = self.sandboxes.get(&*pod.key).and_then(|events| events.values().next_back());
        let judgement = judge_pod(&self.ground, &pod, &self.lookups, sandbox);
        let judgement = Some(judgement).filter(|judgement| *judgement != Judgement::default()).map(Box::new);
        if let Some(judgement) = &judgement {
            for image in &judgement.wanted {
                self.by_image.entry(image.clone()).or_default().insert(pod.key.clone());
            }
            self.count(&pod, judgement, true);
        }
        self.count_asked(&pod.template, true);
        self.pods.insert(pod.key.clone(), Entry { pod, judgement });
    }

    fn enter_controller(&mut self, controller: Arc<Controller>) {
        let findings = match controller.active {
            true => judge_template(&self.ground, &controller.workload, &self.as_its_pods(&controller)),
            false => Vec::new(),
        };
        self.count_asked(&controller.template, true);
        self.count_findings(&controller.workload, &findings, true);
        self.controllers.insert(controller.workload.clone(), Judged { controller, findings });
    }

    /// The template of a controller as its pods will have it.
    fn as_its_pods<'c>(&self, controller: &'c Controller) -> Cow<'c, Template> {
        match self.defaults.get(&controller.workload.namespace).and_then(|ranges| ranges.values().next()) {
            Some(defaults) => Cow::Owned(defaults.fill_in(controller.template.as_ref().clone())),
            None => Cow::Borrowed(&controller.template),
        }
    }

    fn forget(&mut self, key: &str) {
        let Some(Entry { pod, judgement }) = self.pods.remove(key) else { return };
        self.count_asked(&pod.template, false);
        if let Some((node, keys)) = pod.node.as_ref().and_then(|node| Some((node, self.by_node.get_mut(node)?))) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_node.remove(node);
            }
        }
        let Some(judgement) = judgement else { return };
        for image in &judgement.wanted {
            if let Some(keys) = self.by_image.get_mut(image) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_image.remove(image);
                }
            }
        }
        self.count(&pod, &judgement, false);
    }

    /// Adds a pod to the tallies, or takes it off.
    fn count(&mut self, pod: &Pod, judgement: &Judgement, add: bool) {
        self.count_findings(&pod.workload, &judgement.findings, add);
        let Some(pool) = &judgement.pool else { return };
        self.changed.insert(pool.clone());
        let tally = self.tallies.entry(pool.clone()).or_default();
        tally.pods = step(tally.pods, add);
        step_in(&mut tally.images, judgement.images, add);
        if let Some(class) = &pod.template.runtime_class {
            step_in(&mut tally.classes, class.clone(), add);
        }
        if let Some(node) = &pod.node {
            let memory = tally.memory.entry(node.clone()).or_default();
            let limit = i128::from(judgement.memory_limit);
            *memory = memory.saturating_add(if add { limit } else { -limit });
            if *memory == 0 {
                tally.memory.remove(node);
            }
        }
    }

    fn count_asked(&mut self, template: &Template, add: bool) {
        template.asked_labels().for_each(|key| step_in(&mut self.asked, key.clone(), add));
    }

    fn count_findings(&mut self, workload: &Arc<WorkloadName>, findings: &[Finding], add: bool) {
        for finding in findings {
            self.changed.insert(finding.pool.clone());
            let tally = self.tallies.entry(finding.pool.clone()).or_default();
            let key = (finding.trap, workload.clone());
            let stories = tally.findings.entry(key.clone()).or_default();
            step_in(stories, finding.story.clone(), add);
            if stories.is_empty() {
                tally.findings.remove(&key);
            }
        }
    }
}

/// An amount of bytes in words. Above what Kubernetes can express (2^63 - 1 bytes) only that it is more.
fn bytes_at_most(amount: i128) -> String {
    match i64::try_from(amount) {
        Ok(amount) => Quantity::of_bytes(amount).to_string(),
        Err(_) => "more than 8Ei".to_owned(),
    }
}

/// Puts something below a key, or takes it off; the key goes with the last that is below it.
fn put<V>(all: &mut HashMap<String, BTreeMap<String, V>>, key: &str, name: &str, value: Option<V>) {
    let below = all.entry(key.to_owned()).or_default();
    match value {
        Some(value) => below.insert(name.to_owned(), value),
        None => below.remove(name),
    };
    if below.is_empty() {
        all.remove(key);
    }
}

fn step(count: u32, add: bool) -> u32 {
    if add { count.saturating_add(1) } else { count.saturating_sub(1) }
}

fn step_in<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K, add: bool) {
    let count = step(counts.get(&key).copied().unwrap_or_default(), add);
    if count == 0 {
        counts.remove(&key);
    } else {
        counts.insert(key, count);
    }
}
