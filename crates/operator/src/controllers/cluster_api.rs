//! Follows Cluster API: it may be installed, upgraded and removed while the operator runs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{debug, info};
use winpool_core::kind::Kind;
use winpool_rules::pool::cluster_api::described_infrastructure;

use super::{
    event_mapper::EventMapper,
    watches::{Starter, Watches},
};
use crate::cluster::{ClusterApiStores, infrastructure, limited, served, uses_cluster_api};

/// How often it is checked what the cluster serves, and what providers report.
const INTERVAL: Duration = Duration::from_secs(20);
/// The time between a change of a group of machines and the check.
const PAUSE: Duration = Duration::from_secs(1);
/// How long one check may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Follows Cluster API from the time when a pool uses it.
pub fn start(watches: &Watches, tasks: &mut JoinSet<()>) {
    let watches = watches.clone();
    tasks.spawn(watches.supervisor.clone().run("cluster-api", move || follow(watches.clone())));
}

async fn follow(watches: Watches) {
    let caches = watches.mapper.caches.clone();
    caches.pools.wait_until(uses_cluster_api).await;
    let mut current = None;
    let mut is_synced = false;
    // Dropping it ends the watches.
    let mut tasks = JoinSet::new();
    loop {
        match limited(LIMIT, served(&watches.client)).await {
            Ok(found) if current.as_ref() != Some(&found) => {
                info!(served = ?found, "Cluster API");
                tasks.shutdown().await;
                Kind::CLUSTER_API.into_iter().for_each(|kind| watches.supervisor.metrics.remove_kind(kind.name));
                is_synced = false;
                let stores = found.and_then(|()| Some(ClusterApiStores::default()));
                if let Some(stores) = stores.installed() {
                    watch_all(&watches, &mut tasks, stores);
                }
                caches.cluster_api.send_replace(stores);
                current = Some(found);
                watches.mapper.cluster_api("what is served of Cluster API changed");
            }
            Ok(_) => {}
            Err(error) => debug!(error, "what is served of Cluster API is unknown"),
        }
        let stores = caches.cluster_api.borrow().installed().cloned();
        if let Some(stores) = stores {
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

/// Starts the watches.
fn watch_all(watches: &Watches, tasks: &mut JoinSet<()>, stores: &ClusterApiStores) {
    Starter { watches, tasks }
        .watch(&stores.clusters, EventMapper::cluster_api_object)
        .watch(&stores.deployments, |mapper, change| mapper.machine_group(change, |group| &group.infrastructure))
        .watch(&stores.pools, |mapper, change| mapper.machine_group(change, |pool| &pool.0.infrastructure))
        .watch(&stores.sets, EventMapper::cluster_api_object)
        .watch(&stores.machines, EventMapper::cluster_api_object)
        .watch(&stores.templates, EventMapper::cluster_api_object)
        .watch(&stores.configs, EventMapper::cluster_api_object);
}

/// Reads what providers report about the machines of the selected groups, for pools with `autoscaling`.
async fn read_infrastructure(watches: &Watches, stores: &ClusterApiStores) {
    let mut read = BTreeMap::new();
    let before = stores.infrastructure.borrow().clone();
    let (pools, deployments, machine_pools) =
        (watches.mapper.caches.pools.all(), stores.deployments.all(), stores.pools.all());
    let groups = deployments.values().map(AsRef::as_ref).chain(machine_pools.values().map(|pool| &pool.0));
    for reference in described_infrastructure(pools.values().map(AsRef::as_ref), groups) {
        let reported = match limited(LIMIT, infrastructure(&watches.client, &reference)).await {
            Ok(reported) => Some(reported),
            // The last report counts until there is another one.
            Err(_) => before.get(&reference).cloned(),
        };
        read.extend(reported.map(|reported| (reference, reported)));
    }
    let read = Arc::new(read);
    if stores.infrastructure.send_if_modified(|published| std::mem::replace(published, read.clone()) != read) {
        watches.mapper.cluster_api("capacity of machines changed");
    }
}
