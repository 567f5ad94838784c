//! The watches, one for each kind.

use std::{fmt::Debug, hash::Hash, sync::Arc};

use kube::{Api, Client, Resource};
use kube_runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use winpool_core::kind::{Kind, NeededBy};
use winpool_render::allowances::Allowances;
use winpool_workload::{MemoryDefaults, Pod, Service};

use super::{changes::Changed, event_mapper::EventMapper, supervisor::Supervisor};
use crate::{
    admin::{KindReadiness, Readiness},
    cluster::{
        ControllerStores, ObjectChange, OfKind, SandboxEvent, StorageStores, Store, View, WATCH_TIMEOUT_SECONDS,
        WatchBackoff, all, has_agents, in_pages, run_watch, wait_for_node_configs, watched, with_stall_detection,
    },
};

/// Starts the watches.
#[derive(Clone)]
pub struct Watches {
    /// The client for the API server.
    pub client: Client,
    /// Restarts a watch after a panic.
    pub supervisor: Supervisor,
    pub mapper: EventMapper,
    /// What pools and profiles may do only if the operator allows it.
    pub allowances: Arc<Allowances>,
}

/// The stores of the kinds that only the workload controller needs.
#[derive(Clone, Default)]
pub struct WorkloadStores {
    pods: Store<Pod>,
    sandboxes: Store<SandboxEvent>,
    controllers: ControllerStores,
    limit_ranges: Store<MemoryDefaults>,
    services: Store<Service>,
}

impl WorkloadStores {
    /// Waits for the first complete list of each kind but Services, without which only some known issues are not determinable.
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
        all.services_are_read = self.services.is_synced();
        all.storage = true;
        self.services.all().values().for_each(|service| all.add_service(service, Some(service)));
    }
}

impl Watches {
    /// Watches the required kinds.
    pub fn start(&self, tasks: &mut JoinSet<()>, namespace: &str) {
        let (caches, namespace) = (&self.mapper.caches, namespace.to_owned());
        Starter { watches: self, tasks }
            .watch(&caches.pools, EventMapper::pool)
            .watch(&caches.profiles, EventMapper::profile)
            .watch(&caches.nodes, EventMapper::node)
            .watch(&caches.runtime_classes, EventMapper::runtime_class)
            .watch_in(|client| Api::namespaced(client, &namespace), &caches.config_maps, EventMapper::config_map);
    }

    /// Watches WindowsNodeConfigs from the time when a pool has agents, or from the start if there are some, which then have to
    /// be deleted: other clusters need not have the kind.
    pub fn start_agents(&self, tasks: &mut JoinSet<()>) {
        let watches = self.clone();
        tasks.spawn(async move {
            let caches = &watches.mapper.caches;
            tokio::select! {
                () = caches.pools.wait_until(has_agents) => {}
                () = wait_for_node_configs(&watches.client) => {}
            }
            // Dropping it ends the watch.
            let mut tasks = JoinSet::new();
            Starter { watches: &watches, tasks: &mut tasks }.watch(&caches.node_configs, EventMapper::node_config);
            caches.node_configs.wait_for_sync().await;
            watches.mapper.enqueue_pools("WindowsNodeConfigs synced");
            while tasks.join_next().await.is_some() {}
        });
    }

    /// Watches the kinds of workloads, which are optional.
    pub fn start_workloads(&self, tasks: &mut JoinSet<()>) -> WorkloadStores {
        let (pods, controllers) = (self.mapper.caches.pods.clone(), self.mapper.caches.controllers.clone());
        let stores = WorkloadStores { pods, controllers, ..WorkloadStores::default() };
        Starter { watches: self, tasks }
            .watch(&stores.pods, |mapper, change| mapper.record(change, Changed::add_pod))
            .watch(&stores.sandboxes, |mapper, change| mapper.record(change, Changed::add_sandbox))
            .watch(&stores.controllers.deployments, |mapper, change| mapper.record(change, Changed::add_controller))
            .watch(&stores.controllers.stateful_sets, |mapper, change| mapper.record(change, Changed::add_controller))
            .watch(&stores.controllers.daemon_sets, |mapper, change| mapper.record(change, Changed::add_controller))
            .watch(&stores.controllers.jobs, |mapper, change| mapper.record(change, Changed::add_controller))
            .watch(&stores.limit_ranges, |mapper, change| mapper.record(change, Changed::add_defaults))
            .watch(&stores.services, |mapper, change| mapper.record(change, Changed::add_service));
        let (services, mapper) = (stores.services.clone(), self.mapper.clone());
        tasks.spawn(async move {
            services.wait_for_sync().await;
            mapper.workloads.record(|changed| changed.services_are_read = true);
        });
        stores
    }

    /// Watches volumes and the drivers of nodes.
    pub fn start_storage(&self, tasks: &mut JoinSet<()>) {
        let stores = self.mapper.caches.storage.get_or_init(StorageStores::default);
        Starter { watches: self, tasks }
            .watch(&stores.claims, EventMapper::storage)
            .watch(&stores.volumes, EventMapper::storage)
            .watch(&stores.classes, EventMapper::storage)
            .watch(&stores.nodes, EventMapper::storage);
        let (stores, mapper) = (stores.clone(), self.mapper.clone());
        tasks.spawn(async move {
            stores.wait_for_sync().await;
            mapper.workloads.record(|changed| changed.storage = true);
            mapper.enqueue_pools("volumes synced");
        });
    }

    fn readiness(&self, kind: Kind) -> KindReadiness {
        let Supervisor { metrics, readiness } = &self.supervisor;
        metrics.synced(kind.name, false);
        match kind.needed_by {
            NeededBy::Required => readiness.required(kind.name),
            NeededBy::Optional => readiness.optional(kind.name),
            NeededBy::Feature | NeededBy::Nothing => Readiness::default().optional(kind.name),
        }
    }
}

pub(super) struct Starter<'h> {
    pub watches: &'h Watches,
    pub tasks: &'h mut JoinSet<()>,
}

impl Starter<'_> {
    /// Watches the objects of a kind in all namespaces.
    pub fn watch<V: View>(self, store: &Store<V>, handle: fn(&EventMapper, &ObjectChange<V>)) -> Self
    where
        V::Object: Resource<DynamicType: OfKind + Clone + Eq + Hash> + Clone + DeserializeOwned + Debug + Send,
    {
        self.watch_in(|client| all(client, V::KIND), store, handle)
    }

    fn watch_in<V: View>(
        self,
        api: impl FnOnce(Client) -> Api<V::Object>,
        store: &Store<V>,
        handle: fn(&EventMapper, &ObjectChange<V>),
    ) -> Self
    where
        V::Object: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let Watches { client, supervisor, mapper, allowances } = self.watches;
        let allowances = allowances.clone();
        let (metrics, mapper, store) = (supervisor.metrics.clone(), mapper.clone(), store.clone());
        let api = api(in_pages(with_stall_detection(client.clone(), V::KIND.name, metrics.clone())));
        let readiness = self.watches.readiness(V::KIND);
        let config = watched(V::KIND).timeout(WATCH_TIMEOUT_SECONDS);
        let start = move || {
            let events = watcher(api.clone(), config.clone()).backoff(WatchBackoff::default());
            let mapper = mapper.clone();
            let handle = move |change: &ObjectChange<V>| handle(&mapper, change);
            let (store, metrics, readiness) = (store.clone(), metrics.clone(), readiness.clone());
            let allowances = allowances.clone();
            async move { run_watch(events, store, &allowances, metrics, readiness, handle).await }
        };
        self.tasks.spawn(supervisor.clone().run(V::KIND.name, start));
        self
    }
}
