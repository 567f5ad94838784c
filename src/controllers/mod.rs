//! The controllers: gather, plan, write, tell. What is to be done is decided by [`crate::domain`], and done by
//! [`crate::cluster`].

mod cause;
mod complaints;
mod images;
mod pool;
mod profile;
mod queue;
mod shell;
mod unassigned;
mod wake;
mod workloads;

use std::{
    fmt::Debug,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
    core::v1::{self as core, ConfigMap, LimitRange, Node},
    node::v1::RuntimeClass,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use kube_runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, info_span};

use self::{
    cause::Cause,
    complaints::Complaints,
    images::Images,
    queue::{Queue, queue},
    shell::{Ended, Shell},
    wake::Wake,
};
use crate::{
    admin::{Metrics, Outcome, Readiness},
    api::{WindowsNodePool, WindowsRuntimeProfile, names::label},
    cluster::{
        Caches, Change, Events, KeyKeeper, Patience, SandboxEvent, Store, Versions, View, Writer, client, follow,
    },
    domain::{ownership::Ownership, workload::Workloads},
    facts::Minor,
    registry::Registry,
};

/// What the operator runs with.
pub struct Settings {
    /// How to reach the API server.
    pub config: kube::Config,
    /// Where the operator keeps its ConfigMaps.
    pub namespace: String,
    /// What is counted.
    pub metrics: Metrics,
    /// Who is told when the caches are full.
    pub readiness: Readiness,
    /// Whether workloads are looked at.
    pub workloads: bool,
    /// Who asks registries what images are for, if anybody.
    pub registry: Option<Registry>,
    /// Whether the pull secrets of pods are used for that.
    pub pull_secrets: bool,
}

/// Why the operator stopped though nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration of the client cannot be used.
    #[error("the configuration for the API server cannot be used")]
    Client(#[source] Box<kube::Error>),
    /// Without random numbers no key can be made.
    #[error("the system gives no random numbers")]
    Random(#[source] getrandom::Error),
    /// Without a watch the operator would go on with an old world.
    #[error("a defect in the operator ended one of its watches")]
    Watch,
}

/// Watches and makes passes until the shutdown.
///
/// No pass is made before every cache is full and the API server was asked for its version once.
///
/// # Errors
/// When the client cannot be built, or when a defect ends a watch: then the process should end and start again.
pub async fn run(settings: Settings, shutdown: CancellationToken) -> Result<(), Error> {
    let client = client(settings.config.clone()).map_err(|error| Error::Client(Box::new(error)))?;
    let (mut versions, api_server) = Versions::new(settings.config);
    let (mut keys, ownership) = KeyKeeper::new(client.clone(), settings.namespace.clone()).map_err(Error::Random)?;
    let caches = Arc::new(Caches::new(settings.namespace.clone(), api_server.clone(), ownership.clone()));
    let (pools, pool_queue) = queue();
    let (profiles, profile_queue) = queue();
    let (nodes, node_queue) = queue();
    let (news, workload_news) = mpsc::unbounded_channel();
    let images = Images::new(settings.registry, settings.pull_secrets.then(|| client.clone()), news.clone());
    let workloads = settings.workloads.then_some(news);
    let wake = Wake { caches: caches.clone(), pools: pools.clone(), profiles, unassigned: nodes, workloads };
    let shell = Shell {
        caches: caches.clone(),
        writer: Writer::new(client.clone(), settings.namespace.clone(), settings.metrics.clone()),
        events: Events::new(client.clone()),
        metrics: settings.metrics.clone(),
        complaints: Complaints::default(),
    };

    let hubs = Hubs { client, metrics: settings.metrics, readiness: settings.readiness };
    let mut background = hubs.start(&settings.namespace, &wake);
    let key_stored = tokio::select! {
        ((), (), key_stored) = async { tokio::join!(caches.full(), versions.ask(), keys.sync()) } => key_stored,
        () = shutdown.cancelled() => return Ok(()),
        _ = background.join_next() => return Err(Error::Watch),
    };
    info!(nodes = caches.nodes.len(), pools = caches.pools.len(), "every cache is full: the passes begin");
    background.spawn(versions.run());
    background.spawn(keys.run(key_stored));
    background.spawn(watch_api_server(api_server, wake.clone()));
    background.spawn(watch_ownership(ownership, wake.clone()));
    if settings.workloads {
        let full = hubs.start_workloads(&mut background, &wake);
        let shell = shell.clone();
        let keep = async move {
            full.await;
            workloads::run(workload_news, shell, pools, images).await;
        };
        caches.workloads.send_replace(Workloads::Waiting);
        background.spawn(keep);
        let known = caches.workloads.subscribe();
        tokio::select! {
            () = known_for(known, PATIENCE) => {}
            () = shutdown.cancelled() => return Ok(()),
            _ = background.join_next() => return Err(Error::Watch),
        }
    }

    let told = unassigned::Told::default();
    let passes = async {
        tokio::join!(
            work("pool", pool_queue, &shell, &shutdown, |shell, pool| async move { pool::pass(shell, &pool).await }),
            work("profile", profile_queue, &shell, &shutdown, |shell, profile| async move {
                profile::pass(shell, &profile).await
            }),
            work("unassigned", node_queue, &shell, &shutdown, |shell, _| unassigned::pass(shell, told.clone())),
        )
    };
    tokio::select! {
        _ = passes => Ok(()),
        _ = background.join_next() => Err(Error::Watch),
    }
}

/// How long the first passes wait for the verdicts on workloads, so that a restart does not take back what was known.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the workloads are known, at most for the limit.
async fn known_for(mut workloads: watch::Receiver<Workloads>, limit: Duration) {
    let known = workloads.wait_for(|workloads| *workloads != Workloads::Waiting);
    if timeout(limit, known).await.is_err() {
        info!("the pods are not known yet: the passes begin without");
    }
}

/// Makes the passes of one controller, each in a span that belongs to the trace of the event behind it.
async fn work<F>(
    controller: &'static str,
    queue: Queue<Cause>,
    shell: &Shell,
    shutdown: &CancellationToken,
    pass: impl Fn(Shell, String) -> F,
) where
    F: Future<Output = Ended> + Send + 'static,
{
    let make = |object: String, cause: Option<Cause>| {
        let trigger = cause.as_ref().map_or("time went by", |cause| cause.words.as_str());
        let span = info_span!("pass", controller, object, trigger);
        if let Some(cause) = &cause {
            cause.adopt(&span);
        }
        let count = Count::new(controller, shell.metrics.clone());
        let pass = pass(shell.clone(), object);
        async move {
            let Ended { next, result } = pass.await;
            count.ended(result);
            next
        }
        .instrument(span)
    };
    queue.work(make, shutdown.clone()).await;
}

/// Counts a pass when it ends, also when that is by a panic: then it failed.
struct Count {
    controller: &'static str,
    metrics: Metrics,
    begin: Instant,
    result: Outcome,
}

impl Count {
    fn new(controller: &'static str, metrics: Metrics) -> Self {
        Self { controller, metrics, begin: Instant::now(), result: Outcome::Failed }
    }

    fn ended(mut self, result: Outcome) {
        self.result = result;
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.metrics.pass(self.controller, self.result, self.begin.elapsed().as_secs_f64());
    }
}

/// Lets all pools look again when the lowest version of the API servers changes.
async fn watch_api_server(mut lowest: watch::Receiver<Option<Minor>>, wake: Wake) {
    lowest.mark_unchanged();
    while lowest.changed().await.is_ok() {
        info_span!("watch", kind = "version").in_scope(|| wake.api_server());
    }
}

/// Lets all pools look again when another key signs the records.
async fn watch_ownership(mut ownership: watch::Receiver<Arc<Ownership>>, wake: Wake) {
    ownership.mark_unchanged();
    while ownership.changed().await.is_ok() {
        info_span!("watch", kind = "ownership").in_scope(|| wake.ownership());
    }
}

/// The watches, one for each kind.
struct Hubs {
    client: Client,
    metrics: Metrics,
    readiness: Readiness,
}

impl Hubs {
    fn start(&self, namespace: &str, wake: &Wake) -> JoinSet<()> {
        let mut hubs = JoinSet::new();
        let caches = &wake.caches;
        let (all, client) = (watcher::Config::default, || self.client.clone());
        let pools = Api::<DynamicObject>::all_with(client(), &ApiResource::erase::<WindowsNodePool>(&()));
        let profiles = Api::<DynamicObject>::all_with(client(), &ApiResource::erase::<WindowsRuntimeProfile>(&()));
        let windows = all().labels(&format!("{}=windows", label::OS));
        let ours = all().labels(&format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_VALUE));
        self.follow(&mut hubs, pools, all(), &caches.pools, wake, Wake::pool);
        self.follow(&mut hubs, profiles, all(), &caches.profiles, wake, Wake::profile);
        self.follow(&mut hubs, Api::<Node>::all(client()), windows, &caches.nodes, wake, Wake::node);
        self.follow(
            &mut hubs,
            Api::<RuntimeClass>::all(client()),
            all(),
            &caches.runtime_classes,
            wake,
            Wake::runtime_class,
        );
        let config_maps = Api::<ConfigMap>::namespaced(client(), namespace);
        self.follow(&mut hubs, config_maps, ours, &caches.config_maps, wake, Wake::config_map);
        hubs
    }

    /// Watches what workloads are made of. Gives what waits until all of it is known.
    fn start_workloads(&self, hubs: &mut JoinSet<()>, wake: &Wake) -> impl Future<Output = ()> + use<> {
        let client = || self.client.clone();
        let (pods, sandboxes) = (wake.caches.pods.clone(), Store::<SandboxEvent>::default());
        let (deployments, stateful_sets) = (Store::default(), Store::default());
        let (daemon_sets, jobs) = (Store::default(), Store::default());
        let limit_ranges = Store::default();
        let all = watcher::Config::default;
        let of_sandboxes = all().fields("involvedObject.kind=Pod,reason=FailedCreatePodSandBox");
        self.follow(hubs, Api::<core::Pod>::all(client()), all(), &pods, wake, Wake::pod);
        self.follow(hubs, Api::<core::Event>::all(client()), of_sandboxes, &sandboxes, wake, Wake::sandbox);
        self.follow(hubs, Api::<Deployment>::all(client()), all(), &deployments, wake, Wake::controller);
        self.follow(hubs, Api::<StatefulSet>::all(client()), all(), &stateful_sets, wake, Wake::controller);
        self.follow(hubs, Api::<DaemonSet>::all(client()), all(), &daemon_sets, wake, Wake::controller);
        self.follow(hubs, Api::<Job>::all(client()), all(), &jobs, wake, Wake::controller);
        self.follow(hubs, Api::<LimitRange>::all(client()), all(), &limit_ranges, wake, Wake::defaults);
        async move {
            tokio::join!(
                pods.full(),
                sandboxes.full(),
                deployments.full(),
                stateful_sets.full(),
                daemon_sets.full(),
                jobs.full(),
                limit_ranges.full()
            );
        }
    }

    fn follow<V: View>(
        &self,
        hubs: &mut JoinSet<()>,
        api: Api<V::Object>,
        config: watcher::Config,
        store: &Store<V>,
        wake: &Wake,
        tell: fn(&Wake, &Change<V>),
    ) where
        V::Object: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let wake = wake.clone();
        let full = self.readiness.register(V::KIND);
        let events = watcher(api, config).backoff(Patience::default());
        let tell = move |change: &Change<V>| tell(&wake, change);
        hubs.spawn(follow(events, store.clone(), self.metrics.clone(), full, tell));
    }
}
