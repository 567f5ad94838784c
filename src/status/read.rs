//! Reads what the status is computed from. Only the pools are required.

use std::{collections::BTreeSet, sync::Arc};

use kube::Client;
use winpool_core::Objects;
use winpool_operator::cluster;
use winpool_rules::{
    ownership::Ownership,
    pool::{Pool, Snapshot},
    status::overview::{self, MachineObject, ObservedCluster, Overview},
};
use winpool_workload::NodeDrivers;

use super::{CommandError, input};

pub struct Reader {
    pub client: Client,
    pub namespace: String,
    /// The requested pools; all if it is empty.
    pub names: BTreeSet<String>,
    /// Whether the capacity of pools is asked for.
    pub capacity: bool,
}

impl Reader {
    pub async fn pools(&self) -> Result<Objects<Pool>, CommandError> {
        let pools = cluster::list_pools(&self.client).await?;
        if pools.is_empty()
            && let Ok(Some(problem)) = cluster::problem_of_definitions(&self.client).await
        {
            input::note(&format!("{problem}: {}", cluster::DEFINITIONS_REMEDY));
        }
        Ok(pools)
    }

    /// The status of these pools, with what else can be read.
    pub async fn overview(&self, pools: Objects<Pool>) -> Overview {
        let mut notes = Vec::new();
        let snapshot = self.snapshot(pools.clone(), &mut notes).await;
        let machines = self.machines(&pools, &mut notes).await;
        let drivers = if self.capacity { Some(self.drivers(&mut notes).await) } else { None };
        let observed = ObservedCluster { snapshot, machines, drivers, notes, namespace: self.namespace.clone(), pools };
        Overview::new(&observed, &self.names)
    }

    fn requested<'p>(&self, pools: &'p Objects<Pool>) -> impl Iterator<Item = &'p Arc<Pool>> {
        pools.values().filter(|pool| self.names.is_empty() || self.names.contains(&pool.name))
    }

    /// What else can be read. Notes say what cannot.
    pub async fn snapshot(&self, pools: Objects<Pool>, notes: &mut Vec<String>) -> Option<Snapshot> {
        let needs_pods = self.capacity || self.requested(&pools).any(|pool| overview::needs_pods(pool));
        let read = cluster::list_snapshot_of(&self.client, &self.namespace, pools).await;
        let snapshot = read
            .map_err(|error| notes.push(format!("the affected nodes and the nodes in no pool are not listed: {error}")))
            .ok()?;
        // Without the key, the record of a node says to which pool it belongs, as in `winpool cleanup --trust-records`.
        let key = cluster::read_key(&self.client, &self.namespace).await;
        let ownership = Arc::new(key.map_or(Ownership::TrustAll, Ownership::signed));
        let snapshot = Snapshot { ownership, ..snapshot };
        if !needs_pods {
            return Some(snapshot);
        }
        Some(match cluster::list_workloads(&self.client).await {
            Ok((pods, controllers)) => {
                let snapshot = Snapshot { pods: Some(pods), controllers, ..snapshot };
                Snapshot { workloads: overview::workloads(&snapshot), ..snapshot }
            }
            Err(error) => {
                notes.push(format!("pods are not read, so affected workloads and capacity are not shown: {error}"));
                snapshot
            }
        })
    }

    async fn drivers(&self, notes: &mut Vec<String>) -> Objects<NodeDrivers> {
        cluster::list_drivers(&self.client).await.unwrap_or_else(|error| {
            notes.push(format!("the attach limits of volumes are not shown: {error}"));
            Objects::default()
        })
    }

    /// The objects of Cluster API in the namespaces that the status of pools names.
    async fn machines(&self, pools: &Objects<Pool>, notes: &mut Vec<String>) -> Vec<MachineObject> {
        let used = self.requested(pools).filter_map(|pool| pool.status.cluster_api.as_ref());
        let namespaces: BTreeSet<_> = used.map(|used| used.namespace.as_str()).collect();
        let mut machines = Vec::new();
        for namespace in namespaces {
            match cluster::list_machine_objects(&self.client, namespace).await {
                Ok(objects) => machines.extend(objects),
                Err(error) => notes.push(format!(
                    "what MachineDeployments and MachineSets in namespace {namespace} report is not shown: {error}"
                )),
            }
        }
        machines
    }
}
