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

use super::{changes::Changed, supervisor::Supervisor, wake::Wake};
use crate::{
    admin::Handle,
    api::{WindowsNodePool, WindowsRuntimeProfile, names::label},
    cluster::{Change, ControllerView, Patience, SandboxEvent, Store, View, WATCH, follow, watched},
    domain::workload::{MemoryDefaults, Pod, PodController},
};

/// Starts the watches.
pub struct Hubs {
    /// How to reach the API server.
    pub client: Client,
    /// Starts a watch again in which there is a defect.
    pub supervisor: Supervisor,
    /// What follows from a change.
    pub wake: Wake,
}

/// What workloads are made of.
#[derive(Clone, Default)]
pub struct WorkloadStores {
    pods: Store<Pod>,
    sandboxes: Store<SandboxEvent>,
    deployments: Store<ControllerView<Deployment>>,
    stateful_sets: Store<ControllerView<StatefulSet>>,
    daemon_sets: Store<ControllerView<DaemonSet>>,
    jobs: Store<ControllerView<Job>>,
    limit_ranges: Store<MemoryDefaults>,
}

impl WorkloadStores {
    /// Waits for the first full list of each kind.
    pub async fn full(&self) {
        tokio::join!(
            self.pods.full(),
            self.sandboxes.full(),
            self.deployments.full(),
            self.stateful_sets.full(),
            self.daemon_sets.full(),
            self.jobs.full(),
            self.limit_ranges.full()
        );
    }

    /// Adds everything that there is.
    pub fn add_to(&self, all: &mut Changed) {
        self.pods.all().values().for_each(|pod| all.pod(pod, Some(pod)));
        self.sandboxes.all().values().for_each(|event| all.sandbox(event, Some(event)));
        add_controllers(&self.deployments, all);
        add_controllers(&self.stateful_sets, all);
        add_controllers(&self.daemon_sets, all);
        add_controllers(&self.jobs, all);
        self.limit_ranges.all().values().for_each(|range| all.defaults(range, Some(range)));
    }
}

fn add_controllers<T: PodController + Send + 'static>(store: &Store<ControllerView<T>>, all: &mut Changed) {
    store.all().values().for_each(|view| all.controller(view, Some(view)));
}

impl Hubs {
    /// Watches what every part of the operator needs.
    pub fn start(&self, tasks: &mut JoinSet<()>, namespace: &str) {
        let caches = &self.wake.caches;
        let all = watcher::Config::default;
        let pools = |client| Api::<DynamicObject>::all_with(client, &ApiResource::erase::<WindowsNodePool>(&()));
        let profiles =
            |client| Api::<DynamicObject>::all_with(client, &ApiResource::erase::<WindowsRuntimeProfile>(&()));
        let windows = all().labels(&format!("{}=windows", label::OS));
        let ours = all().labels(&format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_VALUE));
        let namespace = namespace.to_owned();
        let config_maps = move |client| Api::<ConfigMap>::namespaced(client, &namespace);
        let (follow, classes) = (Follow { hubs: self, tasks, optional: false }, &caches.runtime_classes);
        follow
            .kind(pools, all(), &caches.pools, Wake::pool)
            .kind(profiles, all(), &caches.profiles, Wake::profile)
            .kind(Api::<Node>::all, windows, &caches.nodes, Wake::node)
            .kind(Api::<RuntimeClass>::all, all(), classes, Wake::runtime_class)
            .kind(config_maps, ours, &caches.config_maps, Wake::config_map);
    }

    /// Watches what workloads are made of, as far as the API server lets it: the operator does without.
    pub fn start_workloads(&self, tasks: &mut JoinSet<()>) -> WorkloadStores {
        let stores = WorkloadStores { pods: self.wake.caches.pods.clone(), ..WorkloadStores::default() };
        let all = watcher::Config::default;
        let of_sandboxes = all().fields("involvedObject.kind=Pod,reason=FailedCreatePodSandBox");
        Follow { hubs: self, tasks, optional: true }
            .kind(Api::<core::Pod>::all, all(), &stores.pods, Wake::pod)
            .kind(Api::<core::Event>::all, of_sandboxes, &stores.sandboxes, Wake::sandbox)
            .kind(Api::<Deployment>::all, all(), &stores.deployments, Wake::controller)
            .kind(Api::<StatefulSet>::all, all(), &stores.stateful_sets, Wake::controller)
            .kind(Api::<DaemonSet>::all, all(), &stores.daemon_sets, Wake::controller)
            .kind(Api::<Job>::all, all(), &stores.jobs, Wake::controller)
            .kind(Api::<LimitRange>::all, all(), &stores.limit_ranges, Wake::defaults);
        stores
    }

    fn first_list<V: View>(&self, optional: bool) -> Handle {
        let Supervisor { metrics, readiness } = &self.supervisor;
        metrics.synced(V::KIND, false);
        if optional { readiness.optional(V::KIND) } else { readiness.required(V::KIND) }
    }
}

/// Starts watches that are needed alike.
struct Follow<'h> {
    hubs: &'h Hubs,
    tasks: &'h mut JoinSet<()>,
    optional: bool,
}

impl Follow<'_> {
    fn kind<V: View>(
        self,
        api: impl Fn(Client) -> Api<V::Object> + Send + 'static,
        config: watcher::Config,
        store: &Store<V>,
        tell: fn(&Wake, &Change<V>),
    ) -> Self
    where
        V::Object: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let Hubs { client, supervisor, wake } = self.hubs;
        let metrics = supervisor.metrics.clone();
        let (client, wake, store) = (watched(client.clone(), V::KIND, metrics.clone()), wake.clone(), store.clone());
        let first_list = self.hubs.first_list::<V>(self.optional);
        let start = move || {
            let events = watcher(api(client.clone()), config.clone().timeout(WATCH)).backoff(Patience::default());
            let wake = wake.clone();
            follow(events, store.clone(), metrics.clone(), first_list.clone(), move |change| tell(&wake, change))
        };
        self.tasks.spawn(supervisor.clone().run(V::KIND, start));
        self
    }
}
