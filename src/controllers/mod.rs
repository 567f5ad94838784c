//! The controllers: gather, plan, write, tell. What is to be done is decided by [`crate::domain`], and done by
//! [`crate::cluster`].

mod cause;
mod changes;
mod complaints;
mod hubs;
mod images;
mod pool;
mod profile;
mod queue;
mod shell;
mod supervisor;
mod unassigned;
mod wake;
mod workloads;

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::Client;
use tokio::{
    sync::{Mutex, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, info_span};

use self::{
    cause::Cause,
    changes::Changes,
    complaints::Complaints,
    hubs::{Hubs, WorkloadStores},
    images::Images,
    queue::{Asker, Queue, queue},
    shell::{Ended, Shell},
    supervisor::Supervisor,
    wake::Wake,
};
use crate::{
    admin::{Metrics, Outcome, Readiness},
    cluster::{Caches, Events, KeyKeeper, Versions, Writer, operator_client},
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
}

/// Watches and makes passes until the shutdown.
///
/// No pass is made before every cache is full and the API server was asked for its version once.
///
/// # Errors
/// When the client cannot be built.
pub async fn run(settings: Settings, shutdown: CancellationToken) -> Result<(), Error> {
    let client = operator_client(settings.config.clone(), &settings.metrics);
    let client = client.map_err(|error| Error::Client(Box::new(error)))?;
    let (mut versions, api_server) = Versions::new(settings.config);
    let (mut keys, ownership) = KeyKeeper::new(client.clone(), settings.namespace.clone()).map_err(Error::Random)?;
    let caches = Arc::new(Caches::new(settings.namespace.clone(), api_server.clone(), ownership.clone()));
    let (pools, pool_queue) = queue();
    let (profiles, profile_queue) = queue();
    let (nodes, node_queue) = queue();
    let wake = Wake {
        caches: caches.clone(),
        pools: pools.clone(),
        profiles,
        unassigned: nodes,
        workloads: Changes::default(),
    };
    let writer = Writer::new(client.clone(), settings.namespace.clone(), settings.metrics.clone());
    let shell = Shell {
        caches: caches.clone(),
        reporter: writer.clone(),
        writer,
        events: Events::new(client.clone()),
        metrics: settings.metrics.clone(),
        complaints: Complaints::default(),
    };
    let supervisor = Supervisor { metrics: settings.metrics, readiness: settings.readiness.clone() };
    let hubs = Hubs { client: client.clone(), supervisor: supervisor.clone(), wake: wake.clone() };

    // It ends what runs in it when it is dropped.
    let mut background = JoinSet::new();
    hubs.start(&mut background, &settings.namespace);
    tokio::select! {
        _ = async { tokio::join!(caches.full(), versions.ask(), keys.start()) } => {}
        () = shutdown.cancelled() => return Ok(()),
    }
    info!(nodes = caches.nodes.len(), pools = caches.pools.len(), "every cache is full: the passes begin");
    let versions = Arc::new(Mutex::new(versions));
    background.spawn(supervisor.clone().run("version", move || {
        let versions = versions.clone();
        async move { versions.lock().await.run().await }
    }));
    let of_version = wake.clone();
    background.spawn(
        supervisor.clone().run("version-watch", move || watch_api_server(api_server.clone(), of_version.clone())),
    );
    let (keys, of_key) = (Arc::new(Mutex::new(keys)), wake.clone());
    background.spawn(supervisor.clone().run("key", move || {
        let keys = keys.clone();
        async move { keys.lock().await.run().await }
    }));
    background.spawn(supervisor.clone().run("key-watch", move || watch_ownership(ownership.clone(), of_key.clone())));
    if settings.workloads {
        let verdicts = Verdicts {
            stores: hubs.start_workloads(&mut background),
            changes: wake.workloads,
            shell: shell.clone(),
            pools,
            registry: settings.registry.map(Arc::new),
            secrets: settings.pull_secrets.then_some(client),
        };
        caches.workloads.send_replace(Workloads::Waiting);
        background.spawn(supervisor.run("workloads", move || verdicts.clone().keep()));
        tokio::select! {
            () = known_for(caches.workloads.subscribe(), PATIENCE) => {}
            () = settings.readiness.until_an_optional_kind_is_refused() => {}
            () = shutdown.cancelled() => return Ok(()),
        }
    }

    let told = unassigned::Told::default();
    tokio::join!(
        work("pool", pool_queue, &shell, &shutdown, |shell, pool| async move { pool::pass(shell, &pool).await }),
        work("profile", profile_queue, &shell, &shutdown, |shell, profile| async move {
            profile::pass(shell, &profile).await
        }),
        work("unassigned", node_queue, &shell, &shutdown, |shell, _| unassigned::pass(shell, told.clone())),
    );
    Ok(())
}

/// What the verdicts on workloads are made of.
#[derive(Clone)]
struct Verdicts {
    stores: WorkloadStores,
    changes: Changes,
    shell: Shell,
    pools: Asker<Cause>,
    registry: Option<Arc<Registry>>,
    /// The way to pull secrets, if they are used.
    secrets: Option<Client>,
}

impl Verdicts {
    /// Keeps them from all that there is, when that is known: also after a defect ended this before.
    async fn keep(self) {
        self.shell.caches.workloads.send_replace(Workloads::Waiting);
        self.stores.full().await;
        self.changes.open(|all| self.stores.add_to(all));
        let images = Images::new(self.registry, self.secrets, self.changes.clone());
        workloads::run(self.changes, self.shell, self.pools, images).await;
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
        let pass = pass(shell.begin(), object);
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
