//! The sources of a snapshot: the stores, the version of the API servers, and the history of winpool's own writes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
    core::v1::Taint,
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tracing::debug;
use winpool_core::{Objects, kind::Kind, node::WindowsNode};
use winpool_facts::Minor;
use winpool_rules::{
    operation::{Denial, DeniedPart, Done, Outcome, Unwritten, Write, WriteError},
    ownership::Ownership,
    pool::{
        ConfigMapView, NodeConfigView, Pool, ProfileView, RuntimeClassView, Snapshot,
        assignment::Assigner,
        cluster_api::ClusterApiState,
        membership::Membership,
        plan::{Member, Plan},
    },
    revert::RevertDetector,
};
use winpool_workload::{
    ClaimView, ControllerView, Controllers, NodeDrivers, Pod, PodController, Storage, StorageClassView, StorageState,
    VolumeView, Workloads,
};

use super::{ClusterApiStores, Store, View, WrittenVersion};

/// The delay before rejected taints are tried again.
const DENIAL_RETRY: SignedDuration = SignedDuration::from_secs(10);
/// How long a denial, or the failure of a RuntimeClass or ConfigMap, is remembered that is not tried again.
const MAX_AGE: SignedDuration = SignedDuration::from_mins(5);
/// How many nodes with the same denial are tried again at once. After a success on one of them, all are.
const PROBES: usize = 8;
/// How many nodes are tried again at once for all denials together.
const MAX_PROBES: usize = 64;
/// How long to wait for the first list of winpool's ConfigMaps and, if a pool has agents, of WindowsNodeConfigs.
const OPTIONAL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a reconcile waits until the caches contain its writes.
const WRITES_TIMEOUT: Duration = Duration::from_secs(2);

/// The caches that the reconciles read.
pub struct Caches {
    pub pools: Store<Pool>,
    pub nodes: Store<WindowsNode>,
    pub profiles: Store<ProfileView>,
    pub runtime_classes: Store<RuntimeClassView>,
    pub config_maps: Store<ConfigMapView>,
    /// All WindowsNodeConfigs, if the kind is installed.
    pub node_configs: Store<NodeConfigView>,
    /// Cluster API's objects, if a pool uses it.
    pub cluster_api: watch::Sender<ClusterApiState<ClusterApiStores>>,
    /// Notified when a group of machines changes.
    pub cluster_api_changed: Notify,
    /// The summaries of the workloads, by pool.
    pub workloads: watch::Sender<Workloads>,
    /// All pods, if workloads are watched.
    pub pods: Store<Pod>,
    /// The objects that create pods, if workloads are watched.
    pub controllers: ControllerStores,
    /// Volumes and the drivers of nodes, if they are watched.
    pub storage: OnceLock<StorageStores>,
    ownership: watch::Receiver<Arc<Ownership>>,
    namespace: String,
    api_server: watch::Receiver<Option<Minor>>,
    history: Mutex<WriteHistory>,
    /// The assigner of the last snapshot.
    assigner: Mutex<Arc<Assigner>>,
    /// The nodes of every pool in the last snapshot.
    membership: Mutex<Arc<Membership>>,
}

/// The objects that create pods.
#[derive(Clone, Default)]
pub struct ControllerStores {
    pub deployments: Store<ControllerView<Deployment>>,
    pub stateful_sets: Store<ControllerView<StatefulSet>>,
    pub daemon_sets: Store<ControllerView<DaemonSet>>,
    pub jobs: Store<ControllerView<Job>>,
}

impl ControllerStores {
    /// Waits for the first complete list of each kind.
    pub async fn wait_for_sync(&self) {
        tokio::join!(
            self.deployments.wait_for_sync(),
            self.stateful_sets.wait_for_sync(),
            self.daemon_sets.wait_for_sync(),
            self.jobs.wait_for_sync()
        );
    }

    /// Whether each kind is synced, or cannot be read.
    fn are_known(&self) -> bool {
        fn is_known<T: PodController + Send + 'static>(store: &Store<ControllerView<T>>) -> bool {
            store.is_synced() || store.is_refused()
        }
        is_known(&self.deployments)
            && is_known(&self.stateful_sets)
            && is_known(&self.daemon_sets)
            && is_known(&self.jobs)
    }

    /// All objects.
    pub fn all(&self) -> Controllers {
        Controllers {
            deployments: self.deployments.all(),
            stateful_sets: self.stateful_sets.all(),
            daemon_sets: self.daemon_sets.all(),
            jobs: self.jobs.all(),
            cron_jobs: Objects::default(),
        }
    }
}

/// Volumes, and the drivers of nodes.
#[derive(Clone, Default)]
pub struct StorageStores {
    pub claims: Store<ClaimView>,
    pub volumes: Store<VolumeView>,
    pub classes: Store<StorageClassView>,
    pub nodes: Store<NodeDrivers>,
}

impl StorageStores {
    /// Waits for the first complete list of each kind.
    pub async fn wait_for_sync(&self) {
        let Self { claims, volumes, classes, nodes } = self;
        tokio::join!(claims.wait_for_sync(), volumes.wait_for_sync(), classes.wait_for_sync(), nodes.wait_for_sync());
    }

    fn state(&self) -> StorageState {
        let Self { claims, volumes, classes, nodes } = self;
        match claims.is_synced() && volumes.is_synced() && classes.is_synced() && nodes.is_synced() {
            true => StorageState::Known(Storage {
                claims: claims.all(),
                volumes: volumes.all(),
                classes: classes.all(),
                nodes: nodes.all(),
            }),
            false => StorageState::Waiting,
        }
    }
}

/// How winpool's own writes ended, as far as the next plan depends on it. It is lost with the process, after which each write is
/// tried once more.
#[derive(Default)]
struct WriteHistory {
    /// The successful writes of fields, which other clients may have reverted. It forgets them by itself.
    reverts: Arc<RevertDetector>,
    /// The last denial of taints or metadata by admission, by node: the plan leaves that part out, until it is tried again.
    denials: BTreeMap<String, RememberedDenial>,
    /// The RuntimeClasses and ConfigMaps whose last write failed, and when that was: nodes wait for them. Kept until a write
    /// succeeds, or for [`MAX_AGE`].
    unwritten: BTreeMap<(Kind, String), (Write, Timestamp)>,
}

struct RememberedDenial {
    error: WriteError,
    part: DeniedPart,
    at: Timestamp,
    /// Name and generation of the pool, and the taints of the node, for which admission decided. With others it may decide
    /// otherwise, so that the denial does not count.
    pool: (String, i64),
    taints: Vec<Taint>,
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
            node_configs: Store::default(),
            cluster_api: watch::Sender::default(),
            cluster_api_changed: Notify::new(),
            workloads: watch::Sender::default(),
            pods: Store::default(),
            controllers: ControllerStores::default(),
            storage: OnceLock::new(),
            ownership,
            namespace,
            api_server,
            history: Mutex::default(),
            assigner: Mutex::default(),
            membership: Mutex::default(),
        }
    }

    /// Waits for the first complete list of each kind, and for `OPTIONAL_TIMEOUT` for those that the API server refuses,
    /// except pools, without which there is nothing to do: an API server that starts refuses lists for a moment. The same
    /// applies to WindowsNodeConfigs, if a pool has agents.
    pub async fn wait_for_sync(&self) {
        tokio::join!(
            self.pools.wait_for_sync(),
            self.nodes.wait_for_answer(),
            self.profiles.wait_for_answer(),
            self.runtime_classes.wait_for_answer(),
            self.config_maps.wait_for_answer()
        );
        let _ = timeout(OPTIONAL_TIMEOUT, join_all(self.refused_lists().map(|(_, listed)| listed))).await;
        if uses_cluster_api(&self.pools.all()) {
            let _ = timeout(OPTIONAL_TIMEOUT, self.cluster_api_known()).await;
        }
        if has_agents(&self.pools.all()) {
            let _ = timeout(OPTIONAL_TIMEOUT, self.node_configs.wait_for_sync()).await;
        }
    }

    /// The kinds that the rules need and that the API server refuses to list.
    pub fn refused(&self) -> BTreeSet<Kind> {
        self.refused_lists().map(|(kind, _)| kind).collect()
    }

    /// The kinds that the API server refuses to list, each with the wait for its first list.
    pub fn refused_lists(&self) -> impl Iterator<Item = (Kind, BoxFuture<'static, ()>)> {
        fn list<V: View>(store: &Store<V>) -> Option<(Kind, BoxFuture<'static, ()>)> {
            let store = store.clone();
            store.is_refused().then(|| (V::KIND, async move { store.wait_for_sync().await }.boxed()))
        }
        let lists = [list(&self.nodes), list(&self.profiles), list(&self.runtime_classes), list(&self.config_maps)];
        lists.into_iter().flatten()
    }

    /// Waits until it is known whether Cluster API is installed, and its objects.
    async fn cluster_api_known(&self) {
        let mut changes = self.cluster_api.subscribe();
        // The channel cannot close: its sender is in `self`.
        let _ = changes.wait_for(|cache| !matches!(cache, ClusterApiState::Unknown)).await;
        let stores = self.cluster_api.borrow().installed().cloned();
        if let Some(stores) = stores {
            stores.wait_for_sync().await;
        }
    }

    /// The current state of the caches.
    pub fn snapshot(&self) -> Snapshot {
        let now = Timestamp::now();
        let (pools, nodes, ownership) = (self.pools.all(), self.nodes.all(), self.ownership());
        let membership = self.membership(&self.assigner_of(&pools, &ownership), &nodes);
        let history = self.history.lock();
        Snapshot {
            now,
            namespace: self.namespace.clone(),
            pools,
            nodes,
            unwatched: None,
            linux_nodes: 0,
            refused: self.refused(),
            profiles: self.profiles.all(),
            runtime_classes: self.runtime_classes.all(),
            config_maps: self.config_maps.all(),
            api_server: *self.api_server.borrow(),
            ownership,
            membership,
            reverts: history.reverts.clone(),
            denials: history.denials_to_respect(now, &self.pools.all(), &self.nodes.all()),
            unwritten: history.unwritten(),
            workloads: self.workloads.borrow().clone(),
            pods: (self.pods.is_synced() && self.controllers.are_known()).then(|| self.pods.all()),
            pods_refused: self.pods.is_refused(),
            controllers: self.controllers.all(),
            storage: self.storage(),
            node_configs: self.node_configs.is_synced().then(|| self.node_configs.all()),
            cluster_api: self.cluster_api.borrow().and_then(ClusterApiStores::objects),
            lease_renewals: BTreeMap::new(),
        }
    }

    /// The volumes, and the drivers of nodes.
    pub fn storage(&self) -> StorageState {
        self.storage.get().map_or(StorageState::Off, StorageStores::state)
    }

    fn membership(&self, assigner: &Arc<Assigner>, nodes: &Objects<WindowsNode>) -> Arc<Membership> {
        let mut membership = self.membership.lock();
        *membership = Membership::updated(&membership, assigner, nodes);
        membership.clone()
    }

    /// Assigns nodes to the current pools.
    pub fn assigner(&self) -> Arc<Assigner> {
        self.assigner_of(&self.pools.all(), &self.ownership())
    }

    fn assigner_of(&self, pools: &Objects<Pool>, ownership: &Arc<Ownership>) -> Arc<Assigner> {
        let mut assigner = self.assigner.lock();
        *assigner = Assigner::updated(&assigner, pools, ownership);
        assigner.clone()
    }

    /// How the records on nodes are verified and signed.
    pub fn ownership(&self) -> Arc<Ownership> {
        self.ownership.borrow().clone()
    }

    /// Records the writes of a plan in the history.
    pub fn record(&self, plan: &Plan, done: &Done) {
        let (mut history, now) = (self.history.lock(), Timestamp::now());
        history.record(done, now);
        history.record_members(plan, now);
    }

    /// The time until the next attempt to write a rejected taint.
    pub fn next_retry(&self) -> Option<Duration> {
        let now = Timestamp::now();
        let history = self.history.lock();
        let retries = history.denials.values().map(|denial| denial.at + DENIAL_RETRY);
        retries.filter(|at| *at > now).min()?.duration_since(now).try_into().ok()
    }

    /// Waits until the caches contain these versions, so that the next reconcile does not repeat the writes. The wait
    /// is short, because a reconcile with an old snapshot only costs one request or conflict.
    pub async fn wait_for_versions(&self, written: &[WrittenVersion]) {
        let reached = tokio::join!(
            self.pools.wait_for_versions(written, WRITES_TIMEOUT),
            self.nodes.wait_for_versions(written, WRITES_TIMEOUT),
            self.profiles.wait_for_versions(written, WRITES_TIMEOUT),
            self.runtime_classes.wait_for_versions(written, WRITES_TIMEOUT),
            self.config_maps.wait_for_versions(written, WRITES_TIMEOUT),
            self.node_configs.wait_for_versions(written, WRITES_TIMEOUT),
        );
        let machines = self.cluster_api.borrow().installed().cloned();
        let Some(machines) = machines else { return };
        let reached_machines = tokio::join!(
            machines.deployments.wait_for_versions(written, WRITES_TIMEOUT),
            machines.pools.wait_for_versions(written, WRITES_TIMEOUT),
            machines.templates.wait_for_versions(written, WRITES_TIMEOUT),
            machines.configs.wait_for_versions(written, WRITES_TIMEOUT),
        );
        if reached != (true, true, true, true, true, true) || reached_machines != (true, true, true, true) {
            debug!("caches do not contain the writes yet");
        }
    }
}

/// Whether a pool has agents, so that WindowsNodeConfigs are needed.
pub fn has_agents(pools: &Objects<Pool>) -> bool {
    pools.values().any(|pool| pool.spec.as_ref().is_ok_and(|spec| spec.rollout.is_some()))
}

/// Whether a pool uses Cluster API, or has used it.
pub fn uses_cluster_api(pools: &Objects<Pool>) -> bool {
    pools.values().any(|pool| pool.uses_cluster_api())
}

impl WriteHistory {
    fn record(&mut self, done: &Done, now: Timestamp) {
        if done.results.is_empty() {
            return;
        }
        let reverts = Arc::make_mut(&mut self.reverts);
        for (write, outcome) in &done.results {
            if *outcome == Outcome::Done {
                reverts.note(&write.identity(), &write.field_writes(), now);
            }
            let (kind, name) = (write.object.kind, write.object.name.clone());
            if outcome.succeeded() {
                self.unwritten.remove(&(kind, name));
            } else if [Kind::RUNTIME_CLASS, Kind::CONFIG_MAP].contains(&kind) {
                self.unwritten.insert((kind, name), (write.clone(), now));
            }
        }
        reverts.forget(now);
        self.unwritten.retain(|_, (_, at)| now.duration_since(*at) < MAX_AGE);
    }

    /// Remembers what admission rejected of the changes of nodes, and forgets it when it does not any longer.
    fn record_members(&mut self, plan: &Plan, now: Timestamp) {
        for Member { node, plan: of_node, outcome, .. } in plan.members() {
            let edit = of_node.edit.as_deref().filter(|edit| edit.taints.is_some());
            match (outcome, edit) {
                (Some(Outcome::Denied(part, error)), _) => {
                    let (error, part, pool) = (error.clone(), *part, (plan.pool.name.clone(), plan.pool.generation));
                    let denial = RememberedDenial { error, part, at: now, pool, taints: node.taints.clone() };
                    self.denials.insert(node.name.clone(), denial);
                }
                (Some(Outcome::NotFound), _) => drop(self.denials.remove(&node.name)),
                (Some(Outcome::Done), Some(edit)) => {
                    let resolved = self.denials.remove(&node.name).filter(|_| edit.if_denied.is_some());
                    // The cause is resolved: all nodes with the same denial are tried again.
                    if let Some(resolved) = resolved {
                        self.denials.retain(|_, denial| denial.error != resolved.error);
                    }
                }
                _ => {}
            }
        }
        self.denials.retain(|_, denial| now.duration_since(denial.at) < MAX_AGE);
    }

    /// What is not tried again now, by node. The oldest denials of each cause are tried again first. Denials have the same
    /// cause if their errors are equal, messages included: those of two policies differ only in the message.
    fn denials_to_respect(
        &self,
        now: Timestamp,
        pools: &Objects<Pool>,
        nodes: &Objects<WindowsNode>,
    ) -> BTreeMap<String, Denial> {
        let is_current = |name: &str, denial: &RememberedDenial| {
            let (pool, generation) = &denial.pool;
            pools.get(pool).is_some_and(|pool| pool.generation == *generation)
                && nodes.get(name).is_some_and(|node| node.taints == denial.taints)
        };
        let mut denials: Vec<_> = self.denials.iter().filter(|(name, denial)| is_current(name, denial)).collect();
        denials.sort_by_key(|(_, denial)| denial.at);
        let (mut probes, mut all) = (HashMap::<&WriteError, usize>::new(), 0);
        denials.retain(|(_, denial)| {
            let same_cause = probes.entry(&denial.error).or_default();
            let due = now.duration_since(denial.at) >= DENIAL_RETRY && *same_cause < PROBES && all < MAX_PROBES;
            *same_cause += usize::from(due);
            all += usize::from(due);
            !due
        });
        let denial = |of: &RememberedDenial| Denial { message: of.error.message.clone(), part: of.part };
        denials.into_iter().map(|(node, remembered)| (node.clone(), denial(remembered))).collect()
    }

    /// The RuntimeClasses and ConfigMaps that could not be written.
    fn unwritten(&self) -> Unwritten {
        let mut unwritten = Unwritten::default();
        self.unwritten.values().for_each(|(write, _)| unwritten.add(write));
        unwritten
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use winpool_rules::{
        operation::{Action, NodeEdit, Steps, TaintEdit, WriteTarget},
        pool::{
            nodes::NodePlan,
            plan::{ActivePool, Phase},
        },
        revert::{FieldWrite, ObjectId},
    };

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn taint() -> FieldWrite {
        FieldWrite::taint(&"os:NoSchedule".parse().unwrap(), Some("windows"))
    }

    /// The history of pool `web`, and the nodes that are observed.
    #[derive(Default)]
    struct Bench {
        history: WriteHistory,
        nodes: Objects<WindowsNode>,
    }

    impl Bench {
        /// Writes the taint of a node with this outcome.
        fn write(&mut self, name: &str, outcome: Outcome, second: i64) {
            let metadata = json!({"name": name, "uid": format!("uid of {name}")});
            let node: k8s_openapi::api::core::v1::Node = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            self.nodes.insert(WindowsNode::from(node));
            let node = self.nodes.get(name).unwrap().clone();
            let edit = Arc::new(NodeEdit {
                taints: Some(Vec::new()),
                taint_edits: vec![TaintEdit::Set("os:NoSchedule".parse().unwrap(), "windows".into())],
                if_denied: Some(DeniedPart::Taints),
                ..NodeEdit::default()
            });
            let write = Write::edit_node(&node, edit.clone(), Arc::default());
            let plan = NodePlan { edit: Some(edit), ..NodePlan::default() };
            let member = Member { node, held: false, plan: Arc::new(plan), outcome: None, config_state: None };
            let active = ActivePool { members: vec![member], ..ActivePool::default() };
            let pool = Arc::new(Pool { generation: 1, ..Pool::deleted("web") });
            let done = Done { results: vec![(write, outcome)], complete: true };
            let plan = Plan::new(&pool, Steps::default(), Phase::Active(Box::new(active))).with_outcomes(&done);
            self.history.record(&done, at(second));
            self.history.record_members(&plan, at(second));
        }

        fn denials(&self, generation: i64, second: i64) -> BTreeMap<String, Denial> {
            let pools = [Pool { generation, ..Pool::deleted("web") }].into_iter().collect();
            self.history.denials_to_respect(at(second), &pools, &self.nodes)
        }

        fn waiting(&self, second: i64) -> usize {
            self.denials(1, second).len()
        }
    }

    fn rejected() -> Outcome {
        Outcome::Denied(DeniedPart::Taints, "denied by policy".into())
    }

    #[test]
    fn rejected_taints_are_tried_again_after_ten_seconds_on_a_few_nodes_and_on_all_after_a_success() {
        let mut bench = Bench::default();
        for node in 0..20 {
            bench.write(&format!("win-{node:02}"), rejected(), 0);
        }
        assert_eq!((bench.waiting(9), bench.waiting(10)), (20, 12));
        bench.write("win-00", rejected(), 10);
        assert_eq!(bench.waiting(10), 12, "another node is tried again instead");
        bench.write("win-01", Outcome::Done, 10);
        assert_eq!(bench.waiting(10), 0);
    }

    #[test]
    fn nodes_with_different_rejections_are_tried_again_independently() {
        let mut bench = Bench::default();
        let other = Outcome::Denied(DeniedPart::Taints, "denied by another policy".into());
        (0..20).for_each(|node| bench.write(&format!("win-{node:02}"), rejected(), 0));
        bench.write("other", other, 1);
        assert!(!bench.denials(1, 11).contains_key("other"));
        bench.write("other", Outcome::Done, 11);
        assert_eq!(bench.waiting(11), 12, "the others are still rejected");
    }

    #[test]
    fn a_rejection_is_forgotten_with_another_generation_or_other_taints_with_its_node_and_after_five_minutes() {
        let mut bench = Bench::default();
        bench.write("win-1", rejected(), 0);
        assert_eq!((bench.denials(1, 1).len(), bench.denials(2, 1).len()), (1, 0));
        let tainted = Taint { key: "theirs".into(), effect: "NoSchedule".into(), ..Taint::default() };
        let node = bench.nodes.get("win-1").unwrap().as_ref().clone();
        bench.nodes.insert(WindowsNode { taints: vec![tainted], ..node.clone() });
        assert_eq!(bench.waiting(1), 0);
        bench.nodes.insert(node);
        assert_eq!(bench.waiting(1), 1);
        bench.write("win-1", Outcome::NotFound, 1);
        assert_eq!(bench.waiting(1), 0, "a deleted node");
        bench.write("win-1", rejected(), 1);
        bench.write("win-2", rejected(), 301);
        assert!(!bench.history.denials.contains_key("win-1"));
    }

    #[test]
    fn a_class_that_could_not_be_written_is_remembered_until_it_is_written_or_for_five_minutes() {
        let mut history = WriteHistory::default();
        let write = |history: &mut WriteHistory, name: &str, outcome, second| {
            let write = Write::delete(Action::DeleteRuntimeClass, WriteTarget::new(Kind::RUNTIME_CLASS, name));
            history.record(&Done { results: vec![(write, outcome)], complete: false }, at(second));
        };
        let failed = |history: &WriteHistory| ["a", "b"].map(|name| history.unwritten().has(Kind::RUNTIME_CLASS, name));
        write(&mut history, "a", Outcome::Conflict, 0);
        write(&mut history, "b", Outcome::Refused("no".into()), 0);
        assert_eq!(failed(&history), [true, true]);
        write(&mut history, "a", Outcome::Done, 1);
        assert_eq!(failed(&history), [false, true]);
        write(&mut history, "a", Outcome::Done, 300);
        assert_eq!(failed(&history), [false, false]);
    }

    #[test]
    fn only_successful_writes_count_for_the_detection_of_reverts() {
        let (mut bench, id) = (Bench::default(), ObjectId::Uid("uid of win-1".into()));
        for outcome in [Outcome::Conflict, Outcome::NotFound, Outcome::Failed("no".into()), rejected()] {
            (0..9).for_each(|_| bench.write("win-1", outcome.clone(), 0));
        }
        assert!(!bench.history.reverts.in_conflict(&id, &taint(), at(1)));
        (0..6).for_each(|_| bench.write("win-1", Outcome::Done, 0));
        assert!(bench.history.reverts.in_conflict(&id, &taint(), at(1)));
    }
}
