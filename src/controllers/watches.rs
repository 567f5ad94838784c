//! The watches, one for each kind.

use std::fmt::Debug;

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
use tokio::task::JoinSet;
use winpool_api::{WindowsNodeConfig, WindowsNodePool, WindowsRuntimeProfile, names::label};
use winpool_core::workload::{MemoryDefaults, Pod};

use super::{changes::Changed, event_mapper::EventMapper, supervisor::Supervisor};
use crate::{
    admin::{KindReadiness, Readiness},
    cluster::{
        Change, ControllerStores, SandboxEvent, Store, View, WATCH_TIMEOUT_SECONDS, WatchBackoff, run_watch,
        wait_for_node_configs, with_stall_detection,
    },
};

/// Starts the watches.
#[derive(Clone)]
pub struct Watches {
    /// The client for the API server.
    pub client: Client,
    /// Restarts a watch after a panic.
    pub supervisor: Supervisor,
    /// Handles the changes.
    pub mapper: EventMapper,
}

/// The stores of the kinds that only the workload controller needs.
#[derive(Clone, Default)]
pub struct WorkloadStores {
    pods: Store<Pod>,
    sandboxes: Store<SandboxEvent>,
    controllers: ControllerStores,
    limit_ranges: Store<MemoryDefaults>,
}

impl WorkloadStores {
    /// Waits for the first complete list of each kind.
    pub async fn wait_for_sync(&self) {
        tokio::join!(
            self.pods.wait_for_sync(),
            self.sandboxes.wait_for_sync(),
            self.controllers.wait_for_sync(),
            self.limit_ranges.wait_for_sync()
        );
    }

    /// Adds all objects.
    pub fn add_to(&self, all: &mut Changed) {
        self.pods.all().values().for_each(|pod| all.add_pod(pod, Some(pod)));
        self.sandboxes.all().values().for_each(|event| all.add_sandbox(event, Some(event)));
        all.add_controllers(&self.controllers.all());
        self.limit_ranges.all().values().for_each(|range| all.add_defaults(range, Some(range)));
    }
}

impl Watches {
    /// Watches the required kinds.
    pub fn start(&self, tasks: &mut JoinSet<()>, namespace: &str) {
        let caches = &self.mapper.caches;
        let all = watcher::Config::default;
        let pools = |client| Api::<DynamicObject>::all_with(client, &ApiResource::erase::<WindowsNodePool>(&()));
        let profiles =
            |client| Api::<DynamicObject>::all_with(client, &ApiResource::erase::<WindowsRuntimeProfile>(&()));
        let windows = all().labels(&format!("{}=windows", label::OS));
        let managed = all().labels(&format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_VALUE));
        let namespace = namespace.to_owned();
        let config_maps = move |client| Api::<ConfigMap>::namespaced(client, &namespace);
        Starter { watches: self, tasks, need: Need::Required }
            .watch(pools, all(), &caches.pools, EventMapper::pool)
            .watch(profiles, all(), &caches.profiles, EventMapper::profile)
            .watch(Api::<Node>::all, windows, &caches.nodes, EventMapper::node)
            .watch(Api::<RuntimeClass>::all, all(), &caches.runtime_classes, EventMapper::runtime_class)
            .watch(config_maps, managed, &caches.config_maps, EventMapper::config_map);
    }

    /// Watches WindowsNodeConfigs from the time when a pool has agents, or from the start if there are some, which then have to
    /// be deleted: other clusters need not have the kind.
    pub fn start_agents(&self, tasks: &mut JoinSet<()>) {
        let watches = self.clone();
        tasks.spawn(async move {
            let caches = &watches.mapper.caches;
            tokio::select! {
                () = caches.wait_for_agents() => {}
                () = wait_for_node_configs(&watches.client) => {}
            }
            let configs =
                |client| Api::<DynamicObject>::all_with(client, &ApiResource::erase::<WindowsNodeConfig>(&()));
            // Dropping it ends the watch.
            let mut tasks = JoinSet::new();
            Starter { watches: &watches, tasks: &mut tasks, need: Need::Optional }.watch(
                configs,
                watcher::Config::default(),
                &caches.node_configs,
                EventMapper::node_config,
            );
            caches.node_configs.wait_for_sync().await;
            watches.mapper.node_configs_synced();
            while tasks.join_next().await.is_some() {}
        });
    }

    /// Watches the kinds of workloads, which are optional.
    pub fn start_workloads(&self, tasks: &mut JoinSet<()>) -> WorkloadStores {
        let (pods, controllers) = (self.mapper.caches.pods.clone(), self.mapper.caches.controllers.clone());
        let stores = WorkloadStores { pods, controllers, ..WorkloadStores::default() };
        let all = watcher::Config::default;
        let about_sandboxes = all().fields("involvedObject.kind=Pod,reason=FailedCreatePodSandBox");
        Starter { watches: self, tasks, need: Need::Optional }
            .watch(Api::<core::Pod>::all, all(), &stores.pods, EventMapper::pod)
            .watch(Api::<core::Event>::all, about_sandboxes, &stores.sandboxes, EventMapper::sandbox)
            .watch(Api::<Deployment>::all, all(), &stores.controllers.deployments, EventMapper::controller)
            .watch(Api::<StatefulSet>::all, all(), &stores.controllers.stateful_sets, EventMapper::controller)
            .watch(Api::<DaemonSet>::all, all(), &stores.controllers.daemon_sets, EventMapper::controller)
            .watch(Api::<Job>::all, all(), &stores.controllers.jobs, EventMapper::controller)
            .watch(Api::<LimitRange>::all, all(), &stores.limit_ranges, EventMapper::defaults);
        stores
    }

    fn readiness<V: View>(&self, need: Need) -> KindReadiness {
        let Supervisor { metrics, readiness } = &self.supervisor;
        metrics.synced(V::KIND, false);
        match need {
            Need::Required => readiness.required(V::KIND),
            Need::Optional => readiness.optional(V::KIND),
            Need::Feature => Readiness::default().optional(V::KIND),
        }
    }
}

/// What needs a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The operator.
    Required,
    /// A part of the operator, which delays its readiness until the list is complete or refused.
    Optional,
    /// A feature of some pools, which does not affect readiness.
    Feature,
}

/// Starts watches that are needed for the same.
pub(super) struct Starter<'h> {
    pub watches: &'h Watches,
    pub tasks: &'h mut JoinSet<()>,
    pub need: Need,
}

impl Starter<'_> {
    pub fn watch<V: View>(
        self,
        api: impl Fn(Client) -> Api<V::Object> + Send + 'static,
        config: watcher::Config,
        store: &Store<V>,
        handle: fn(&EventMapper, &Change<V>),
    ) -> Self
    where
        V::Object: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let Watches { client, supervisor, mapper } = self.watches;
        let (metrics, mapper, store) = (supervisor.metrics.clone(), mapper.clone(), store.clone());
        let client = with_stall_detection(client.clone(), V::KIND, metrics.clone());
        let readiness = self.watches.readiness::<V>(self.need);
        let config = config.timeout(WATCH_TIMEOUT_SECONDS);
        let start = move || {
            let events = watcher(api(client.clone()), config.clone()).backoff(WatchBackoff::default());
            let mapper = mapper.clone();
            let handle = move |change: &Change<V>| handle(&mapper, change);
            run_watch(events, store.clone(), metrics.clone(), readiness.clone(), handle)
        };
        self.tasks.spawn(supervisor.clone().run(V::KIND, start));
        self
    }
}
