//! The controllers: snapshot, plan, write, status. The rules are in [`winpool_core`], the I/O in [`crate::cluster`].

mod changes;
mod cluster_api;
mod context;
mod event_mapper;
mod failed_nodes;
mod images;
mod log_deduplicator;
mod pool;
mod profile;
mod pull_secrets;
mod queue;
mod supervisor;
mod trigger;
mod unassigned;
mod watches;
mod workloads;

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt as _;
use kube::Client;
use tokio::{
    sync::{Mutex, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, info_span};
use winpool_core::kind::Kind;
use winpool_facts::Minor;
use winpool_registry::Registry;
use winpool_render::allowances::Allowances;
use winpool_rules::ownership::Ownership;
use winpool_workload::Workloads;

use self::{
    changes::PendingChanges,
    context::{Context, ReconcileResult},
    event_mapper::EventMapper,
    failed_nodes::FailedNodes,
    images::Images,
    log_deduplicator::LogDeduplicator,
    queue::{Enqueuer, Queue, queue},
    supervisor::Supervisor,
    trigger::Trigger,
    watches::{Watches, WorkloadStores},
};
use crate::{
    admin::{Metrics, Readiness, ReconcileOutcome},
    cluster::{
        Caches, Claim, Elector, Events, LeadershipLost, Leases, OwnershipKeyStore, UnsupportedVersion, UnwatchedNodes,
        VersionProbe, Writer, operator_client,
    },
    telemetry,
};

/// The settings of the operator.
pub struct OperatorSettings {
    pub config: kube::Config,
    /// The identity of this process, for the Lease.
    pub identity: String,
    /// The namespace of the operator's ConfigMaps and Secret.
    pub namespace: String,
    pub metrics: Metrics,
    pub readiness: Readiness,
    pub workloads: bool,
    /// Whether volumes and the drivers of nodes are read.
    pub storage: bool,
    /// The client of registries, if they may be contacted.
    pub registry: Option<Registry>,
    /// Whether the pull secrets of pods are used for registries.
    pub pull_secrets: bool,
    /// What pools and profiles may do only if the operator allows it.
    pub allowances: Arc<Allowances>,
    /// Whether other processes of the operator may run: only the one with the Lease writes.
    pub leader_election: bool,
}

/// Why the operator cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("invalid configuration for the API server")]
    Client(#[source] Box<kube::Error>),
    #[error("the system has no source of random numbers")]
    Random(#[source] getrandom::Error),
    #[error(transparent)]
    Lost(#[from] LeadershipLost),
    #[error(transparent)]
    Unsupported(#[from] UnsupportedVersion),
}

/// Runs the operator until the shutdown.
///
/// Reconciles start after the caches are synced, the version of the API server was probed, and this process is the leader.
pub async fn run(settings: OperatorSettings, shutdown: CancellationToken) -> Result<(), StartError> {
    let OperatorSettings { config, identity, namespace, metrics, .. } = &settings;
    let elector = settings.leader_election.then(|| {
        let elector = Elector::new(config.clone(), namespace.clone(), identity.clone(), metrics.clone());
        elector.map_err(|error| StartError::Client(Box::new(error)))
    });
    let elector = elector.transpose()?;
    settings.metrics.leader.set(elector.is_none().into());
    let claim = elector.as_ref().map_or_else(Claim::unlimited, Elector::claim);
    let client = operator_client(settings.config.clone(), &settings.metrics, claim.clone());
    let client = client.map_err(|error| StartError::Client(Box::new(error)))?;
    let mut probes = Probes::new(&settings, &client)?;
    let (version, ownership) = (probes.version.clone(), probes.ownership.clone());
    let caches = Arc::new(Caches::new(settings.namespace.clone(), version, ownership));
    let (mapper, queues) = queues(caches.clone());
    let supervisor = Supervisor { metrics: settings.metrics.clone(), readiness: settings.readiness.clone() };
    let watches = Watches {
        client: client.clone(),
        supervisor: supervisor.clone(),
        mapper: mapper.clone(),
        allowances: settings.allowances.clone(),
    };

    // Its tasks end when it is dropped.
    let mut background = JoinSet::new();
    watches.start(&mut background, &settings.namespace);
    watches.start_agents(&mut background);
    cluster_api::start(&watches, &mut background);
    let workloads = settings.workloads.then(|| watches.start_workloads(&mut background));
    if settings.storage && settings.workloads {
        watches.start_storage(&mut background);
    }
    let synced = async {
        tokio::try_join!(probes.versions.check(), caches.wait_for_sync().map(Ok))?;
        // Again, because the API server may not have answered yet.
        probes.versions.check().await
    };
    tokio::select! {
        supported = synced => supported?,
        () = shutdown.cancelled() => return Ok(()),
    }
    for (kind, listed) in caches.refused_lists() {
        let mapper = mapper.clone();
        background.spawn(async move {
            listed.await;
            mapper.enqueue_pools(&format!("{kind} can be listed"));
        });
    }
    info!(nodes = caches.nodes.len(), pools = caches.pools.len(), "caches synced");

    let lead = async {
        tokio::select! {
            () = async { claim.wait().await; probes.keys.start().await } => {}
            () = shutdown.cancelled() => return,
        }
        probes.start(&mut background, &supervisor, &mapper);
        let context = context(&settings, &client, caches.clone());
        if let Some(stores) = workloads {
            let task = WorkloadTask {
                stores,
                changes: mapper.workloads,
                context: context.clone(),
                pools: mapper.pools,
                registry: settings.registry.map(Arc::new),
                secrets: settings.pull_secrets.then_some(client),
            };
            caches.workloads.send_replace(Workloads::Waiting);
            background.spawn(supervisor.run("workloads", move || task.clone().run()));
            tokio::select! {
                () = wait_for_workloads(caches.workloads.subscribe(), WORKLOADS_TIMEOUT) => {}
                () = settings.readiness.wait_for_refusal(Kind::NODE_CONFIG.name) => {}
                () = shutdown.cancelled() => return,
            }
        }
        queues.run(&context, &shutdown).await;
    };
    with_election(elector, lead).await
}

/// Does the work of the leader while the election goes on, and releases the Lease afterwards.
async fn with_election(elector: Option<Elector>, work: impl Future<Output = ()>) -> Result<(), StartError> {
    let Some(elector) = elector else {
        work.await;
        return Ok(());
    };
    let release = CancellationToken::new();
    let election = elector.run(release.clone());
    tokio::pin!(election);
    tokio::select! {
        ended = &mut election => return ended.map_err(StartError::Lost),
        () = work => release.cancel(),
    }
    election.await.map_err(StartError::Lost)
}

fn context(settings: &OperatorSettings, client: &Client, caches: Arc<Caches>) -> Context {
    let writer = Writer::new(client.clone(), settings.namespace.clone(), settings.metrics.clone());
    Context {
        caches,
        status_writer: writer.clone(),
        writer,
        events: Events::new(client.clone(), settings.identity.clone()),
        leases: Leases::new(client.clone()),
        unwatched: UnwatchedNodes::new(client.clone()),
        metrics: settings.metrics.clone(),
        failures: LogDeduplicator::default(),
        failed_nodes: FailedNodes::default(),
    }
}

/// What the operator reads periodically: the version of the API servers, and the key of the records.
struct Probes {
    versions: VersionProbe,
    version: watch::Receiver<Option<Minor>>,
    keys: OwnershipKeyStore,
    ownership: watch::Receiver<Arc<Ownership>>,
}

impl Probes {
    fn new(settings: &OperatorSettings, client: &Client) -> Result<Self, StartError> {
        let (versions, version) = VersionProbe::new(settings.config.clone(), settings.metrics.clone());
        let keys = OwnershipKeyStore::new(client.clone(), settings.namespace.clone());
        let (keys, ownership) = keys.map_err(StartError::Random)?;
        Ok(Self { versions, version, keys, ownership })
    }

    /// Starts the periodic reads, and enqueues the objects that depend on a changed value.
    fn start(self, tasks: &mut JoinSet<()>, supervisor: &Supervisor, mapper: &EventMapper) {
        let Self { versions, version, keys, ownership } = self;
        let (versions, keys) = (Arc::new(Mutex::new(versions)), Arc::new(Mutex::new(keys)));
        tasks.spawn(supervisor.clone().run("version", move || VersionProbe::run(versions.clone())));
        tasks.spawn(supervisor.clone().run("key", move || OwnershipKeyStore::run(keys.clone())));
        let for_version = mapper.clone();
        let start = move || watch_value(version.clone(), "version", for_version.clone(), EventMapper::api_server);
        tasks.spawn(supervisor.clone().run("version-watch", start));
        let for_key = mapper.clone();
        let start = move || watch_value(ownership.clone(), "ownership", for_key.clone(), EventMapper::ownership);
        tasks.spawn(supervisor.clone().run("key-watch", start));
    }
}

struct Queues {
    pools: Queue<Trigger>,
    profiles: Queue<Trigger>,
    unassigned: Queue<Trigger>,
}

/// The queues, and the event mapper that enqueues to them.
fn queues(caches: Arc<Caches>) -> (EventMapper, Queues) {
    let ((pools, pool_queue), (profiles, profile_queue), (unassigned, node_queue)) = (queue(), queue(), queue());
    let mapper = EventMapper { caches, pools, profiles, unassigned, workloads: PendingChanges::default() };
    (mapper, Queues { pools: pool_queue, profiles: profile_queue, unassigned: node_queue })
}

impl Queues {
    async fn run(self, context: &Context, shutdown: &CancellationToken) {
        let published = unassigned::Published::default();
        tokio::join!(
            run_controller("pool", self.pools, context, shutdown, |context, pool| async move {
                pool::reconcile(context, &pool).await
            }),
            run_controller("profile", self.profiles, context, shutdown, |context, profile| async move {
                profile::reconcile(context, &profile).await
            }),
            run_controller("unassigned", self.unassigned, context, shutdown, |context, _| {
                unassigned::reconcile(context, published.clone())
            }),
        );
    }
}

/// The inputs of the workload controller, kept for restarts after a panic.
#[derive(Clone)]
struct WorkloadTask {
    stores: WorkloadStores,
    changes: PendingChanges,
    context: Context,
    pools: Enqueuer<Trigger>,
    registry: Option<Arc<Registry>>,
    /// The client for pull secrets, if they are used.
    secrets: Option<Client>,
}

impl WorkloadTask {
    async fn run(self) {
        self.context.caches.workloads.send_replace(Workloads::Waiting);
        self.stores.wait_for_sync().await;
        self.changes.open(|all| self.stores.add_to(all));
        let images = Images::new(self.registry, self.secrets, self.changes.clone());
        workloads::run(self.changes, self.context, self.pools, images).await;
    }
}

/// How long the first reconciles wait for the workloads, so that a restart does not reset their counts in status.
const WORKLOADS_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until the workloads are known, for at most `limit`.
async fn wait_for_workloads(mut workloads: watch::Receiver<Workloads>, limit: Duration) {
    let known = workloads.wait_for(|workloads| *workloads != Workloads::Waiting);
    if timeout(limit, known).await.is_err() {
        info!("workloads are not checked yet, starting without them");
    }
}

/// Runs the reconciles of one controller, each in a span of the trace of its trigger.
async fn run_controller<F>(
    controller: &'static str,
    queue: Queue<Trigger>,
    context: &Context,
    shutdown: &CancellationToken,
    reconcile: impl Fn(Context, String) -> F,
) where
    F: Future<Output = ReconcileResult> + Send + 'static,
{
    context.metrics.controller(controller, queue.depth());
    let traced = |object: String, trigger: Option<Trigger>| {
        let description = trigger.as_ref().map_or("requeued", |trigger| trigger.description.as_str());
        let span = info_span!("reconcile", controller, object, trigger = description);
        if let Some(trigger) = &trigger {
            trigger.set_parent_of(&span);
        }
        let timer = ReconcileTimer::new(controller, context.metrics.clone());
        let reconcile = reconcile(context.begin(), object);
        async move {
            let ReconcileResult { requeue, outcome } = reconcile.await;
            timer.stop(outcome);
            requeue
        }
        .instrument(span)
    };
    queue.run(traced, shutdown.clone()).await;
}

/// Records a reconcile in the metrics when it is dropped: as failed, unless another outcome was set.
struct ReconcileTimer {
    controller: &'static str,
    metrics: Metrics,
    start: Instant,
    outcome: ReconcileOutcome,
}

impl ReconcileTimer {
    fn new(controller: &'static str, metrics: Metrics) -> Self {
        Self { controller, metrics, start: Instant::now(), outcome: ReconcileOutcome::Failed }
    }

    fn stop(mut self, outcome: ReconcileOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for ReconcileTimer {
    fn drop(&mut self) {
        let seconds = self.start.elapsed().as_secs_f64();
        self.metrics.reconcile(self.controller, self.outcome, seconds, telemetry::trace_id());
    }
}

/// Handles each change of a value, in a span.
async fn watch_value<T>(
    mut value: watch::Receiver<T>,
    kind: &'static str,
    mapper: EventMapper,
    handle: fn(&EventMapper),
) {
    value.mark_unchanged();
    while value.changed().await.is_ok() {
        info_span!("watch", kind).in_scope(|| handle(&mapper));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reconcile_that_was_not_stopped_counts_as_failed() {
        let metrics = Metrics::default();
        ReconcileTimer::new("pool", metrics.clone()).stop(ReconcileOutcome::Changed);
        // As in a panic.
        drop(ReconcileTimer::new("pool", metrics.clone()));
        drop(ReconcileTimer::new("profile", metrics.clone()));
        let text = metrics.text();
        for (controller, outcome) in [("pool", "changed"), ("pool", "failed"), ("profile", "failed")] {
            let line = format!("winpool_reconciles_total{{controller=\"{controller}\",outcome=\"{outcome}\"}} 1\n");
            assert!(text.contains(&line), "{line}\nis not in\n{text}");
        }
        assert!(text.contains("winpool_reconcile_duration_seconds_count{controller=\"pool\"} 2\n"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_reconciles_wait_for_the_workloads_at_most_for_the_limit() {
        let limit = Duration::from_secs(10);
        let known = || Workloads::Known(std::collections::BTreeMap::new());
        for (first, second, seconds) in [
            (Workloads::Off, None, 0),
            (known(), None, 0),
            (Workloads::Waiting, Some(known()), 3),
            (Workloads::Waiting, None, 10),
        ] {
            let (sender, receiver) = watch::channel(first.clone());
            let begin = tokio::time::Instant::now();
            let changed = async {
                tokio::time::sleep(Duration::from_secs(3)).await;
                second.into_iter().for_each(|second| drop(sender.send_replace(second)));
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = wait_for_workloads(receiver, limit) => {}
                () = changed => {}
            }
            assert_eq!(begin.elapsed().as_secs(), seconds, "{first:?}");
        }
    }
}
