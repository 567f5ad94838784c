//! Symptoms of volumes, by the drivers that are registered on nodes.

use std::collections::BTreeSet;

use winpool_core::object_key;
use winpool_workload::{ClaimView, NodeDrivers, Pod, Shared, Storage, StorageClassView, VolumeView};

use crate::doctor::case::{Case, Checked, Observation, name};

/// The volumes that the nodes of their pods do not mount.
pub fn volumes(case: &Case<'_>) -> Checked {
    let (evidence, mut shared) = (case.evidence, Shared::default());
    let storage = Storage {
        claims: evidence.claims()?.iter().cloned().map(ClaimView::from).collect(),
        volumes: evidence.volumes()?.iter().cloned().map(VolumeView::from).collect(),
        classes: evidence.storage_classes()?.iter().cloned().map(StorageClassView::from).collect(),
        nodes: evidence.csi_nodes()?.iter().cloned().map(NodeDrivers::from).collect(),
    };
    let subjects: BTreeSet<String> = case.pods()?.into_iter().map(|pod| object_key(&pod.metadata)).collect();
    let nodes: Vec<&str> = evidence.nodes()?.iter().map(|node| name(&node.metadata)).collect();
    let pods: Vec<Pod> = evidence.pods()?.iter().map(|pod| Pod::read(pod.clone(), &mut shared)).collect();
    let pods: Vec<&Pod> = pods.iter().filter(|pod| !pod.finished).collect();
    let issues = storage.issues(&nodes, &pods).into_iter().filter(|(pod, _)| subjects.contains(&*pod.key));
    let observed = issues.map(|(pod, issue)| {
        let (object, place) = (format!("Pod {}", pod.key), format!("volume {}", issue.volume));
        Observation { object, place, text: issue.fault.to_string() }
    });
    Ok(observed.collect())
}
