//! The sources of a snapshot: the stores, the version of the API servers, and the history of winpool's own writes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tracing::debug;
use winpool_api::facts::Minor;
use winpool_core::{
    Objects,
    node::WindowsNode,
    operation::{Done, Operation, Outcome, Shortfall, WriteError},
    ownership::Ownership,
    pool::{
        ConfigMapView, NodeConfigView, Pool, ProfileView, RuntimeClassView, Snapshot,
        assignment::Assigner,
        machines::{ClusterApiState, KubeadmConfigView, MachineGroup, MachinePoolView, TemplateView},
        membership::Membership,
    },
    revert::RevertDetector,
    workload::{ControllerView, Controllers, Pod, PodController, Workloads},
};

use super::{ClusterApiStores, Store, View, WrittenVersion};

/// The delay before refused taints are retried.
const REFUSAL_RETRY: SignedDuration = SignedDuration::from_secs(10);
/// How long a refusal that is not retried is stored.
const REFUSAL_MAX_AGE: SignedDuration = SignedDuration::from_mins(5);
/// How many nodes with the same refusal are retried at once. After a success on one of them, all are retried.
const PROBES: usize = 8;
/// How many nodes are retried at once for all refusals together.
const MAX_PROBES: usize = 64;
/// How long to wait for the first list of winpool's ConfigMaps and, if a pool has agents, of WindowsNodeConfigs.
const OPTIONAL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a reconcile waits until the caches contain its writes.
const WRITES_TIMEOUT: Duration = Duration::from_secs(2);

/// The caches that the reconciles read.
#[allow(missing_docs)] // the names say it
pub struct Caches {
    pub pools: Store<Pool>,
    pub nodes: Store<WindowsNode>,
    pub profiles: Store<ProfileView>,
    pub runtime_classes: Store<RuntimeClassView>,
    pub config_maps: Store<ConfigMapView>,
    /// All WindowsNodeConfigs, if the kind is installed.
    pub node_configs: Store<NodeConfigView>,
    /// Cluster API's objects, if a pool uses it.
    pub cluster_api: watch::Sender<ClusterApiCache>,
    /// Notified when a group of machines changes.
    pub cluster_api_changed: Notify,
    /// The summaries of the workloads, by pool.
    pub workloads: watch::Sender<Workloads>,
    /// All pods, if workloads are watched.
    pub pods: Store<Pod>,
    /// The objects that create pods, if workloads are watched.
    pub controllers: ControllerStores,
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
#[allow(missing_docs)] // the names say it
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

/// What is known of Cluster API.
#[derive(Clone, Default)]
pub enum ClusterApiCache {
    /// Nothing yet.
    #[default]
    Unknown,
    /// The cluster does not serve its resources.
    NotInstalled,
    /// It serves only these versions.
    Unsupported(Vec<String>),
    /// Its objects.
    Stores(ClusterApiStores),
}

impl ClusterApiCache {
    fn state(&self) -> ClusterApiState {
        match self {
            Self::Unknown => ClusterApiState::Unknown,
            Self::NotInstalled => ClusterApiState::NotInstalled,
            Self::Unsupported(versions) => ClusterApiState::Unsupported(versions.clone()),
            Self::Stores(stores) => stores.state(),
        }
    }
}

/// The history of winpool's own writes.
#[derive(Default)]
struct WriteHistory {
    reverts: Arc<RevertDetector>,
    /// The nodes whose taints were refused, by name.
    refusals: BTreeMap<String, Refusal>,
}

struct Refusal {
    error: WriteError,
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
            node_configs: Store::default(),
            cluster_api: watch::Sender::default(),
            cluster_api_changed: Notify::new(),
            workloads: watch::Sender::default(),
            pods: Store::default(),
            controllers: ControllerStores::default(),
            ownership,
            namespace,
            api_server,
            history: Mutex::default(),
            assigner: Mutex::default(),
            membership: Mutex::default(),
        }
    }

    /// Waits for the first complete list of each kind, but only for `OPTIONAL_TIMEOUT` for ConfigMaps: they need a
    /// separate Role, and nodes can be tainted without them. The same applies to WindowsNodeConfigs, if a pool has agents.
    pub async fn wait_for_sync(&self) {
        let config_maps = timeout(OPTIONAL_TIMEOUT, self.config_maps.wait_for_sync());
        let _ = tokio::join!(
            self.pools.wait_for_sync(),
            self.nodes.wait_for_sync(),
            self.profiles.wait_for_sync(),
            self.runtime_classes.wait_for_sync(),
            config_maps
        );
        if uses_cluster_api(&self.pools.all()) {
            let _ = timeout(OPTIONAL_TIMEOUT, self.cluster_api_known()).await;
        }
        if has_agents(&self.pools.all()) {
            let _ = timeout(OPTIONAL_TIMEOUT, self.node_configs.wait_for_sync()).await;
        }
    }

    /// Waits until a pool has agents.
    pub async fn wait_for_agents(&self) {
        self.pools.wait_until(has_agents).await;
    }

    /// Waits until a pool uses Cluster API, or has used it.
    pub async fn wait_for_cluster_api(&self) {
        self.pools.wait_until(uses_cluster_api).await;
    }

    /// Waits until it is known whether Cluster API is installed, and its objects.
    async fn cluster_api_known(&self) {
        let mut changes = self.cluster_api.subscribe();
        // The channel cannot close: its sender is in `self`.
        let _ = changes.wait_for(|cache| !matches!(cache, ClusterApiCache::Unknown)).await;
        let cache = self.cluster_api.borrow().clone();
        if let ClusterApiCache::Stores(stores) = cache {
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
            profiles: self.profiles.all(),
            runtime_classes: self.runtime_classes.all(),
            config_maps: self.config_maps.all(),
            api_server: *self.api_server.borrow(),
            ownership,
            membership,
            reverts: history.reverts.clone(),
            refusals: history.refusals_to_respect(now),
            workloads: self.workloads.borrow().clone(),
            pods: (self.pods.is_synced() && self.controllers.are_known()).then(|| self.pods.all()),
            pods_refused: self.pods.is_refused(),
            controllers: self.controllers.all(),
            node_configs: self.node_configs.is_synced().then(|| self.node_configs.all()),
            cluster_api: self.cluster_api.borrow().state(),
            lease_renewals: BTreeMap::new(),
        }
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

    /// Records the writes of a reconcile in the history.
    pub fn record(&self, done: &Done) {
        self.history.lock().record(done, Timestamp::now());
    }

    /// The time until the next retry of a refused taint.
    pub fn next_retry(&self) -> Option<Duration> {
        let now = Timestamp::now();
        let history = self.history.lock();
        let retries = history.refusals.values().map(|refusal| refusal.at + REFUSAL_RETRY);
        retries.filter(|at| *at > now).min()?.duration_since(now).try_into().ok()
    }

    /// Waits until the caches contain these versions, so that the next reconcile does not repeat the writes. The wait
    /// is short, because a reconcile with an old snapshot only costs one request or conflict.
    pub async fn wait_for_versions(&self, written: &[WrittenVersion]) {
        let of = |kind| {
            let written = written.iter().filter(|written| written.kind == kind);
            written.map(|written| (written.name.as_str(), written.version.as_deref())).collect()
        };
        let reached = tokio::join!(
            self.pools.wait_for_versions(of(Pool::KIND), WRITES_TIMEOUT),
            self.nodes.wait_for_versions(of(WindowsNode::KIND), WRITES_TIMEOUT),
            self.profiles.wait_for_versions(of(ProfileView::KIND), WRITES_TIMEOUT),
            self.runtime_classes.wait_for_versions(of(RuntimeClassView::KIND), WRITES_TIMEOUT),
            self.config_maps.wait_for_versions(of(ConfigMapView::KIND), WRITES_TIMEOUT),
            self.node_configs.wait_for_versions(of(NodeConfigView::KIND), WRITES_TIMEOUT),
        );
        let machines = match self.cluster_api.borrow().clone() {
            ClusterApiCache::Stores(stores) => stores,
            _ => return,
        };
        let reached_machines = tokio::join!(
            machines.deployments.wait_for_versions(of(MachineGroup::KIND), WRITES_TIMEOUT),
            machines.pools.wait_for_versions(of(MachinePoolView::KIND), WRITES_TIMEOUT),
            machines.templates.wait_for_versions(of(TemplateView::KIND), WRITES_TIMEOUT),
            machines.configs.wait_for_versions(of(KubeadmConfigView::KIND), WRITES_TIMEOUT),
        );
        if reached != (true, true, true, true, true, true) || reached_machines != (true, true, true, true) {
            debug!("caches do not contain the writes yet");
        }
    }
}

/// Whether a pool has agents, so that WindowsNodeConfigs are needed.
pub(super) fn has_agents(pools: &Objects<Pool>) -> bool {
    pools.values().any(|pool| pool.spec.as_ref().is_ok_and(|spec| spec.rollout.is_some()))
}

/// Whether a pool uses Cluster API, or has used it.
pub(super) fn uses_cluster_api(pools: &Objects<Pool>) -> bool {
    pools.values().any(|pool| pool.uses_cluster_api())
}

impl WriteHistory {
    fn record(&mut self, done: &Done, now: Timestamp) {
        if done.results.is_empty() {
            return;
        }
        let reverts = Arc::make_mut(&mut self.reverts);
        for (operation, outcome) in &done.results {
            reverts.note(&operation.identity(), &operation.field_writes(outcome), now);
            let Operation::PatchNode(patch) = operation else { continue };
            match outcome {
                Outcome::Partly { why: Shortfall::Refused(error), .. } => {
                    self.refusals.insert(patch.node.clone(), Refusal { error: error.clone(), at: now });
                }
                Outcome::NotFound => {
                    self.refusals.remove(&patch.node);
                }
                // The cause is resolved: all nodes with the same refusal are retried.
                Outcome::Done if patch.has_taints() => {
                    if let Some(resolved) = self.refusals.remove(&patch.node) {
                        self.refusals.retain(|_, refusal| refusal.error != resolved.error);
                    }
                }
                _ => {}
            }
        }
        reverts.forget(now);
        self.refusals.retain(|_, refusal| now.duration_since(refusal.at) < REFUSAL_MAX_AGE);
    }

    /// The nodes whose taints are not retried now, with the message of the refusal. The oldest refusals of each cause are
    /// retried first. Refusals have the same cause if their errors are equal, messages included: the refusals of two
    /// policies differ only in the message.
    fn refusals_to_respect(&self, now: Timestamp) -> BTreeMap<String, String> {
        let mut refusals: Vec<_> = self.refusals.iter().collect();
        refusals.sort_by_key(|(_, refusal)| refusal.at);
        let (mut probes, mut all) = (HashMap::<&WriteError, usize>::new(), 0);
        refusals.retain(|(_, refusal)| {
            let same_cause = probes.entry(&refusal.error).or_default();
            let due = now.duration_since(refusal.at) >= REFUSAL_RETRY && *same_cause < PROBES && all < MAX_PROBES;
            *same_cause += usize::from(due);
            all += usize::from(due);
            !due
        });
        refusals.into_iter().map(|(node, refusal)| (node.clone(), refusal.error.message.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use winpool_core::{
        operation::{Edit, NodeChange, NodePatch, Parts, TaintChange, TaintEdit, TaintPart},
        revert::{FieldWrite, ObjectId},
    };

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn taint() -> FieldWrite {
        FieldWrite::taint(&"os:NoSchedule".parse().unwrap(), Some("windows"))
    }

    fn patch(node: &str) -> NodePatch {
        let edits = vec![TaintEdit::Set("os:NoSchedule".parse().unwrap(), "windows".into())];
        let taints = TaintChange { taints: Some(Vec::new()), edits, ..TaintChange::default() };
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
    fn refused_taints_are_retried_after_ten_seconds_on_a_few_nodes_and_on_all_after_a_success() {
        let mut history = WriteHistory::default();
        for node in 0..20 {
            history.record(&done(&format!("win-{node:02}"), refused()), at(0));
        }
        let waiting = |history: &WriteHistory, second| history.refusals_to_respect(at(second)).len();
        assert_eq!((waiting(&history, 9), waiting(&history, 10)), (20, 12));
        history.record(&done("win-00", refused()), at(10));
        assert_eq!(waiting(&history, 10), 12, "another node is retried instead");
        history.record(&done("win-01", Outcome::Done), at(10));
        assert_eq!(waiting(&history, 10), 0);
    }

    #[test]
    fn nodes_with_different_refusals_are_retried_independently() {
        let mut history = WriteHistory::default();
        let written = Parts { taints: TaintPart::None, ..Parts::ALL };
        let other = Outcome::Partly { written, why: Shortfall::Refused("denied by another policy".into()) };
        (0..20).for_each(|node| history.record(&done(&format!("win-{node:02}"), refused()), at(0)));
        history.record(&done("other", other), at(1));
        assert!(!history.refusals_to_respect(at(11)).contains_key("other"));
        history.record(&done("other", Outcome::Done), at(11));
        assert_eq!(history.refusals_to_respect(at(11)).len(), 12, "the others are still refused");
    }

    #[test]
    fn a_refusal_is_forgotten_when_its_node_is_deleted() {
        let mut history = WriteHistory::default();
        history.record(&done("win-1", refused()), at(0));
        history.record(&done("win-1", Outcome::NotFound), at(1));
        assert_eq!(history.refusals_to_respect(at(1)), BTreeMap::new());
    }

    #[test]
    fn only_successful_writes_count_for_the_detection_of_reverts() {
        let (mut history, id) = (WriteHistory::default(), ObjectId::Uid("uid of win-1".into()));
        for outcome in [Outcome::Conflict, Outcome::NotFound, Outcome::Failed("no".into()), refused()] {
            (0..9).for_each(|_| history.record(&done("win-1", outcome.clone()), at(0)));
        }
        assert!(!history.reverts.in_conflict(&id, &taint(), at(1)));
        (0..6).for_each(|_| history.record(&done("win-1", Outcome::Done), at(0)));
        assert!(history.reverts.in_conflict(&id, &taint(), at(1)));
    }
}
