//! Everything that is known, together: the stores, the API servers' version, and what we remember of our own writes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::{sync::watch, time::timeout};
use tracing::debug;

use super::{Mark, Store, View};
use crate::{
    domain::{
        node::WindowsNode,
        operation::{Done, Operation, Outcome, Shortfall},
        ownership::Ownership,
        pool::{ConfigMapView, Pool, ProfileView, RuntimeClassView, Snapshot},
        revert::RevertDetector,
        workload::{Pod, Workloads},
    },
    facts::Minor,
};

/// How long after a refusal of taints they are tried again.
const REFUSED_FOR: SignedDuration = SignedDuration::from_secs(10);
/// How long it is remembered where nothing is tried any more.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_mins(5);
/// On how many nodes they are tried again: one that takes them shows that the cause is gone, and then all are tried.
const PROBES: usize = 8;
/// On how many nodes for all refusals together.
const ALL_PROBES: usize = 64;
/// How long the first list of our ConfigMaps is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a pass waits for the caches to show what it wrote.
const CATCH_UP: Duration = Duration::from_secs(2);

/// What the passes read.
pub struct Caches {
    /// All pools.
    pub pools: Store<Pool>,
    /// All Windows nodes.
    pub nodes: Store<WindowsNode>,
    /// All profiles.
    pub profiles: Store<ProfileView>,
    /// All RuntimeClasses.
    pub runtime_classes: Store<RuntimeClassView>,
    /// Our ConfigMaps.
    pub config_maps: Store<ConfigMapView>,
    /// The verdicts on workloads.
    pub workloads: watch::Sender<Workloads>,
    /// All pods, while workloads are looked at.
    pub pods: Store<Pod>,
    ownership: watch::Receiver<Arc<Ownership>>,
    namespace: String,
    api_server: watch::Receiver<Option<Minor>>,
    memory: Mutex<Memory>,
}

/// What we remember of our own writes.
#[derive(Default)]
struct Memory {
    reverts: Arc<RevertDetector>,
    refusals: BTreeMap<String, Refusal>,
}

/// A refusal of the taints of a node.
struct Refusal {
    text: String,
    at: Timestamp,
}

impl Caches {
    /// Empty caches of an operator in this namespace.
    pub fn new(
        namespace: String,
        api_server: watch::Receiver<Option<Minor>>,
        ownership: watch::Receiver<Arc<Ownership>>,
    ) -> Self {
        Self {
            pools: Store::default(),
            nodes: Store::default(),
            profiles: Store::default(),
            runtime_classes: Store::default(),
            config_maps: Store::default(),
            workloads: watch::Sender::default(),
            pods: Store::default(),
            ownership,
            namespace,
            api_server,
            memory: Mutex::default(),
        }
    }

    /// Waits for the first full list of each kind. Without our ConfigMaps, which a Role of its own lets us list, nodes can
    /// still be tainted: they are waited for a moment only.
    pub async fn full(&self) {
        let config_maps = timeout(PATIENCE, self.config_maps.full());
        let _ = tokio::join!(
            self.pools.full(),
            self.nodes.full(),
            self.profiles.full(),
            self.runtime_classes.full(),
            config_maps
        );
    }

    /// The world as it is known now.
    pub fn snapshot(&self) -> Snapshot {
        let now = Timestamp::now();
        let memory = self.memory();
        Snapshot {
            now,
            namespace: self.namespace.clone(),
            pools: self.pools.all(),
            nodes: self.nodes.all(),
            profiles: self.profiles.all(),
            runtime_classes: self.runtime_classes.all(),
            config_maps: self.config_maps.all(),
            api_server: *self.api_server.borrow(),
            ownership: self.ownership(),
            reverts: memory.reverts.clone(),
            refusals: memory.refused(now),
            workloads: self.workloads.borrow().clone(),
            pods: self.pods.is_full().then(|| self.pods.all()),
        }
    }

    /// How the records on nodes are verified and signed now.
    pub fn ownership(&self) -> Arc<Ownership> {
        self.ownership.borrow().clone()
    }

    /// Remembers what matters of a pass that wrote.
    pub fn remember(&self, done: &Done) {
        self.memory().remember(done, Timestamp::now());
    }

    /// How long until a refused taint may be tried again, if there is one.
    pub fn next_retry(&self) -> Option<Duration> {
        let now = Timestamp::now();
        let due =
            self.memory().refusals.values().map(|refusal| refusal.at + REFUSED_FOR).filter(|at| *at > now).min()?;
        due.duration_since(now).try_into().ok()
    }

    /// Waits until the caches show these writes, so that the next pass does not see the world before them and make them
    /// again. The wait is short: a pass on an old world costs a request or a conflict, never more.
    pub async fn catch_up(&self, marks: &[Mark]) {
        let of = |kind| {
            let marks = marks.iter().filter(|mark| mark.kind == kind);
            marks.map(|mark| (mark.name.as_str(), mark.version.as_deref())).collect()
        };
        let shown = tokio::join!(
            self.pools.shows(of(Pool::KIND), CATCH_UP),
            self.nodes.shows(of(WindowsNode::KIND), CATCH_UP),
            self.profiles.shows(of(ProfileView::KIND), CATCH_UP),
            self.runtime_classes.shows(of(RuntimeClassView::KIND), CATCH_UP),
            self.config_maps.shows(of(ConfigMapView::KIND), CATCH_UP),
        );
        if shown != (true, true, true, true, true) {
            debug!("the caches do not show yet what was written");
        }
    }

    /// The memory is plain data: a panic elsewhere cannot leave it half-written.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn remember(&mut self, done: &Done, now: Timestamp) {
        if done.results.is_empty() {
            return;
        }
        let reverts = Arc::make_mut(&mut self.reverts);
        for (operation, outcome) in &done.results {
            reverts.note(&operation.identity(), &operation.writes(outcome), now);
            let Operation::PatchNode(patch) = operation else { continue };
            match outcome {
                Outcome::Partly { why: Shortfall::Refused(text), .. } => {
                    self.refusals.insert(patch.node.clone(), Refusal { text: text.clone(), at: now });
                }
                Outcome::Gone => {
                    self.refusals.remove(&patch.node);
                }
                // The cause is gone: each of the nodes with the same refusal finds out for itself.
                Outcome::Done if patch.has_taints() => {
                    if let Some(gone) = self.refusals.remove(&patch.node) {
                        self.refusals.retain(|_, refusal| refusal.text != gone.text);
                    }
                }
                _ => {}
            }
        }
        reverts.forget(now);
        self.refusals.retain(|_, refusal| now.duration_since(refusal.at) < FORGOTTEN_AFTER);
    }

    /// The nodes whose taints are not tried now, with the refusals. Of the others, those that waited longest for each refusal
    /// are: nodes with another cause do not wait for them.
    fn refused(&self, now: Timestamp) -> BTreeMap<String, String> {
        let mut refusals: Vec<_> = self.refusals.iter().collect();
        refusals.sort_by_key(|(_, refusal)| refusal.at);
        let (mut tried, mut all) = (BTreeMap::<&str, usize>::new(), 0);
        refusals.retain(|(_, refusal)| {
            let of_text = tried.entry(&refusal.text).or_default();
            let due = now.duration_since(refusal.at) >= REFUSED_FOR && *of_text < PROBES && all < ALL_PROBES;
            *of_text += usize::from(due);
            all += usize::from(due);
            !due
        });
        refusals.into_iter().map(|(node, refusal)| (node.clone(), refusal.text.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        operation::{Edit, NodeChange, NodePatch, Parts, TaintChange, TaintPart},
        revert::{FieldWrite, ObjectId, Persistence},
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn taint() -> FieldWrite {
        FieldWrite { field: "taint os:NoSchedule".into(), value: "windows".into(), persistence: Persistence::Insist }
    }

    fn patch(node: &str) -> NodePatch {
        let taints = TaintChange { taints: Some(Vec::new()), writes: vec![taint()], ..TaintChange::default() };
        let change = NodeChange { taints, record_without_taints: Some(Edit::Keep), ..NodeChange::default() };
        NodePatch {
            node: node.into(),
            uid: format!("uid of {node}"),
            resource_version: "7".into(),
            change: Arc::new(change),
            ownership: Arc::default(),
        }
    }

    fn refused() -> Outcome {
        let written = Parts { taints: TaintPart::None, ..Parts::ALL };
        Outcome::Partly { written, why: Shortfall::Refused("denied by policy".into()) }
    }

    fn done(node: &str, outcome: Outcome) -> Done {
        Done { results: vec![(Operation::PatchNode(Arc::new(patch(node))), outcome)], complete: true }
    }

    #[test]
    fn refused_taints_are_tried_again_after_ten_seconds_on_a_few_nodes_and_on_all_when_one_takes_them() {
        let mut memory = Memory::default();
        for node in 0..20 {
            memory.remember(&done(&format!("win-{node:02}"), refused()), at(0));
        }
        let waiting = |memory: &Memory, second| memory.refused(at(second)).len();
        assert_eq!((waiting(&memory, 9), waiting(&memory, 10)), (20, 12));
        memory.remember(&done("win-00", refused()), at(10));
        assert_eq!(waiting(&memory, 10), 12, "another takes the place of the one that was tried");
        memory.remember(&done("win-01", Outcome::Done), at(10));
        assert_eq!(waiting(&memory, 10), 0);
    }

    #[test]
    fn nodes_with_another_refusal_do_not_wait_for_each_other() {
        let mut memory = Memory::default();
        let written = Parts { taints: TaintPart::None, ..Parts::ALL };
        let other = Outcome::Partly { written, why: Shortfall::Refused("denied by another policy".into()) };
        (0..20).for_each(|node| memory.remember(&done(&format!("win-{node:02}"), refused()), at(0)));
        memory.remember(&done("other", other), at(1));
        assert!(!memory.refused(at(11)).contains_key("other"));
        memory.remember(&done("other", Outcome::Done), at(11));
        assert_eq!(memory.refused(at(11)).len(), 12, "the cause of the others is still there");
    }

    #[test]
    fn a_node_that_is_gone_is_forgotten() {
        let mut memory = Memory::default();
        memory.remember(&done("win-1", refused()), at(0));
        memory.remember(&done("win-1", Outcome::Gone), at(1));
        assert_eq!(memory.refused(at(1)), BTreeMap::new());
    }

    #[test]
    fn only_what_was_written_counts_as_a_write() {
        let (mut memory, id) = (Memory::default(), ObjectId::Uid("uid of win-1".into()));
        for outcome in [Outcome::Conflict, Outcome::Gone, Outcome::Failed("no".into()), refused()] {
            (0..9).for_each(|_| memory.remember(&done("win-1", outcome.clone()), at(0)));
        }
        assert!(!memory.reverts.is_contested(&id, &taint(), at(1)));
        (0..6).for_each(|_| memory.remember(&done("win-1", Outcome::Done), at(0)));
        assert!(memory.reverts.is_contested(&id, &taint(), at(1)));
    }
}
