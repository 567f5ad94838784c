//! Everything that is known, together: the stores, the API servers' version, and what we remember of our own writes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tracing::debug;

use super::{Mark, Store, View};
use crate::{
    domain::{
        contest::Contests,
        node::WindowsNode,
        operation::{Done, Operation, Outcome},
        pool::{ConfigMapView, Pool, ProfileView, RuntimeClassView, Snapshot},
        workload::Workloads,
    },
    facts::Minor,
};

/// How long a refusal of taints is remembered before they are tried again.
const REFUSED_FOR: SignedDuration = SignedDuration::from_mins(5);
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
    namespace: String,
    api_server: watch::Receiver<Option<Minor>>,
    memory: Mutex<Memory>,
}

/// What we remember of our own writes.
#[derive(Default)]
struct Memory {
    contests: Arc<Contests>,
    refusals: BTreeMap<String, Refusal>,
}

struct Refusal {
    text: String,
    until: Timestamp,
}

impl Caches {
    /// Empty caches of an operator in this namespace.
    pub fn new(namespace: String, api_server: watch::Receiver<Option<Minor>>) -> Self {
        Self {
            pools: Store::default(),
            nodes: Store::default(),
            profiles: Store::default(),
            runtime_classes: Store::default(),
            config_maps: Store::default(),
            workloads: watch::Sender::default(),
            namespace,
            api_server,
            memory: Mutex::default(),
        }
    }

    /// Waits for the first full list of each kind.
    pub async fn full(&self) {
        tokio::join!(
            self.pools.full(),
            self.nodes.full(),
            self.profiles.full(),
            self.runtime_classes.full(),
            self.config_maps.full()
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
            contests: memory.contests.clone(),
            refusals: memory.refused(now),
            workloads: self.workloads.borrow().clone(),
        }
    }

    /// Remembers what matters of a pass that wrote.
    pub fn remember(&self, done: &Done) {
        self.memory().remember(done, Timestamp::now());
    }

    /// How long until a refused taint may be tried again, if there is one.
    pub fn next_retry(&self) -> Option<Duration> {
        let now = Timestamp::now();
        let until = self.memory().refusals.values().map(|refusal| refusal.until).filter(|until| *until > now).min()?;
        until.duration_since(now).try_into().ok()
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
        for (operation, outcome) in &done.results {
            match (operation, outcome) {
                (_, Outcome::Done) => {
                    Arc::make_mut(&mut self.contests).note(operation.object(), operation.touches(), now);
                }
                (Operation::PatchNode(patch), Outcome::WithoutTaints(text)) => {
                    let refusal = Refusal { text: text.clone(), until: now + REFUSED_FOR };
                    self.refusals.insert(patch.node.clone(), refusal);
                }
                _ => {}
            }
        }
        Arc::make_mut(&mut self.contests).forget(now);
        self.refusals.retain(|_, refusal| refusal.until > now);
    }

    fn refused(&self, now: Timestamp) -> BTreeMap<String, String> {
        let valid = self.refusals.iter().filter(|(_, refusal)| refusal.until > now);
        valid.map(|(node, refusal)| (node.clone(), refusal.text.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{
        contest::Touch,
        operation::{NodeChange, NodePatch, Purpose},
        owned::Owned,
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn patch() -> NodePatch {
        let change = NodeChange {
            body: json!({}),
            record_without_taints: Some(Owned::default()),
            words: vec![],
            touches: vec![Touch { field: "taint os:NoSchedule".into(), value: "windows".into() }],
            purpose: Purpose::Repair,
        };
        NodePatch { node: "win-1".into(), resource_version: "7".into(), change: Arc::new(change) }
    }

    fn done(outcome: Outcome) -> Done {
        Done { results: vec![(Operation::PatchNode(Arc::new(patch())), outcome)], complete: true }
    }

    #[test]
    fn a_refusal_of_taints_is_remembered_for_five_minutes() {
        let mut memory = Memory::default();
        memory.remember(&done(Outcome::WithoutTaints("denied by policy".into())), at(0));
        assert_eq!(memory.refused(at(299)), BTreeMap::from([("win-1".into(), "denied by policy".into())]));
        assert_eq!(memory.refused(at(300)), BTreeMap::new());
    }

    #[test]
    fn only_what_was_done_counts_in_a_contest() {
        let mut memory = Memory::default();
        for outcome in
            [Outcome::Conflict, Outcome::Gone, Outcome::Failed("no".into()), Outcome::WithoutTaints("no".into())]
        {
            for _ in 0..9 {
                memory.remember(&done(outcome.clone()), at(0));
            }
        }
        let touch = &patch().change.touches[0];
        assert_eq!(memory.contests.left_until("win-1", touch, at(1)), None);
        for _ in 0..6 {
            memory.remember(&done(Outcome::Done), at(0));
        }
        assert!(memory.contests.left_until("win-1", touch, at(1)).is_some());
    }
}
