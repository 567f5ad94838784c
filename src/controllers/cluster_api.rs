//! Follows Cluster API: it may be installed, upgraded and removed while the operator runs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::{
    Api,
    api::{ApiResource, DynamicObject},
};
use kube_runtime::watcher;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{debug, info};
use winpool_api::{
    facts::cluster_api::{BOOTSTRAP_GROUP, CORE_GROUP},
    names::label,
};
use winpool_core::pool::machines::{
    ClusterView, KubeadmConfigView, MachineGroup, MachinePoolView, MachineSetView, MachineView, TemplateView,
    described_infrastructure,
};

use super::{
    event_mapper::EventMapper,
    watches::{Need, Starter, Watches},
};
use crate::cluster::{
    ClusterApiCache, ClusterApiStores, Served, View, cluster_api_resource, explain, infrastructure, served,
};

/// How often it is checked what the cluster serves, and what providers report.
const INTERVAL: Duration = Duration::from_secs(20);
/// The time between a change of a group of machines and the check.
const PAUSE: Duration = Duration::from_secs(1);
/// How long one check may take.
const LIMIT: Duration = Duration::from_secs(20);

/// The kinds of [`watch_all`].
const KINDS: [&str; 7] = [
    ClusterView::KIND,
    MachineGroup::KIND,
    MachinePoolView::KIND,
    MachineSetView::KIND,
    MachineView::KIND,
    TemplateView::KIND,
    KubeadmConfigView::KIND,
];

/// Follows Cluster API from the time when a pool uses it.
pub fn start(watches: &Watches, tasks: &mut JoinSet<()>) {
    let watches = watches.clone();
    tasks.spawn(watches.supervisor.clone().run("cluster-api", move || follow(watches.clone())));
}

async fn follow(watches: Watches) {
    let caches = watches.mapper.caches.clone();
    caches.wait_for_cluster_api().await;
    let mut current = None;
    let mut is_synced = false;
    // Dropping it ends the watches.
    let mut tasks = JoinSet::new();
    loop {
        match timeout(LIMIT, served(&watches.client)).await {
            Ok(Ok(found)) if current.as_ref() != Some(&found) => {
                info!(served = ?found, "Cluster API");
                tasks.shutdown().await;
                KINDS.into_iter().for_each(|kind| watches.supervisor.metrics.remove_kind(kind));
                is_synced = false;
                let cache = match &found {
                    Served::Nothing => ClusterApiCache::NotInstalled,
                    Served::Unsupported(versions) => ClusterApiCache::Unsupported(versions.clone()),
                    Served::Version(version) => {
                        let stores = ClusterApiStores::new(*version);
                        watch_all(&watches, &mut tasks, &stores);
                        ClusterApiCache::Stores(stores)
                    }
                };
                caches.cluster_api.send_replace(cache);
                current = Some(found);
                watches.mapper.cluster_api("versions of Cluster API changed");
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => debug!(error = explain(&error), "versions of Cluster API are unknown"),
            Err(_) => debug!("versions of Cluster API are unknown: no answer within {LIMIT:?}"),
        }
        let cache = caches.cluster_api.borrow().clone();
        if let ClusterApiCache::Stores(stores) = cache {
            // Without a permission the condition says that the kinds are being read.
            if timeout(LIMIT, stores.wait_for_sync()).await.is_ok() {
                if !std::mem::replace(&mut is_synced, true) {
                    watches.mapper.cluster_api("Cluster API synced");
                }
                read_infrastructure(&watches, &stores).await;
            }
        }
        tokio::select! {
            () = sleep(INTERVAL) => {}
            // Several changes at once are one.
            () = caches.cluster_api_changed.notified() => sleep(PAUSE).await,
        }
    }
}

/// Starts the watches of one version.
fn watch_all(watches: &Watches, tasks: &mut JoinSet<()>, stores: &ClusterApiStores) {
    let version = stores.version;
    let of = |group: &str, kind: &str| {
        let resource: ApiResource = cluster_api_resource(group, version, kind);
        move |client| Api::<DynamicObject>::all_with(client, &resource)
    };
    let all = watcher::Config::default;
    let managed = all().labels(&format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_VALUE));
    Starter { watches, tasks, need: Need::Feature }
        .watch(of(CORE_GROUP, "Cluster"), all(), &stores.clusters, EventMapper::cluster_api_object)
        .watch(of(CORE_GROUP, "MachineDeployment"), all(), &stores.deployments, EventMapper::machine_deployment)
        .watch(of(CORE_GROUP, "MachinePool"), all(), &stores.pools, EventMapper::machine_pool)
        .watch(of(CORE_GROUP, "MachineSet"), all(), &stores.sets, EventMapper::cluster_api_object)
        .watch(of(CORE_GROUP, "Machine"), all(), &stores.machines, EventMapper::cluster_api_object)
        .watch(of(BOOTSTRAP_GROUP, "KubeadmConfigTemplate"), all(), &stores.templates, EventMapper::cluster_api_object)
        .watch(of(BOOTSTRAP_GROUP, "KubeadmConfig"), managed, &stores.configs, EventMapper::cluster_api_object);
}

/// Reads what providers report about the machines of the selected groups, for pools with `autoscaling`.
async fn read_infrastructure(watches: &Watches, stores: &ClusterApiStores) {
    let mut read = BTreeMap::new();
    let before = stores.infrastructure.borrow().clone();
    let (pools, deployments, machine_pools) =
        (watches.mapper.caches.pools.all(), stores.deployments.all(), stores.pools.all());
    let groups = deployments.values().map(AsRef::as_ref).chain(machine_pools.values().map(|pool| &pool.0));
    for reference in described_infrastructure(pools.values().map(AsRef::as_ref), groups) {
        let reported = match timeout(LIMIT, infrastructure(&watches.client, &reference)).await {
            Ok(Ok(reported)) => Some(reported),
            // The last report counts until there is another one.
            Ok(Err(_)) | Err(_) => before.get(&reference).cloned(),
        };
        read.extend(reported.map(|reported| (reference, reported)));
    }
    let read = Arc::new(read);
    let changed = stores.infrastructure.send_if_modified(|published| {
        let changed = **published != *read;
        *published = read;
        changed
    });
    if changed {
        watches.mapper.cluster_api("capacity of machines changed");
    }
}
