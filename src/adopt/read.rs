//! Reads the objects that pools are made from.

use std::{collections::BTreeMap, path::PathBuf};

use jiff::Timestamp;
use winpool_check::{
    adopt::KubeletConfiguration,
    manifests::{LocatedProblem, Manifest, ManifestSet, Manifests, nodes_among},
    render::snapshot,
};
use winpool_core::{
    Objects,
    text::{counted, some_of},
};
use winpool_rules::pool::{RuntimeClassView, Snapshot};

use crate::{
    CommandError,
    configz::{self, ReadConfiguration},
    connect, input,
    progress::Progress,
    workloads,
};

/// The configurations of kubelets, by the names of their nodes.
type Kubelets = BTreeMap<String, KubeletConfiguration>;

/// The objects of the cluster, and with `configz` the configurations of the kubelets of nodes that belong to no pool.
pub(super) fn cluster(
    args: &connect::Args,
    namespace: &str,
    configz: bool,
) -> Result<(Snapshot, Kubelets), CommandError> {
    connect::runtime()?.block_on(async {
        let progress = Progress::start("reading the cluster", "request");
        let client = progress.counting(args.client().await?);
        let snapshot = workloads::snapshot(&client, namespace).await?;
        let nodes =
            if configz { snapshot.membership().unassigned().map(|node| node.name.clone()).collect() } else { vec![] };
        let read = configz::kubelet_configurations(&client, nodes).await;
        drop(progress);
        Ok((snapshot, known(read)))
    })
}

/// The configurations that could be read. A note says which could not, and why.
fn known(read: Vec<(String, ReadConfiguration)>) -> Kubelets {
    let (mut known, mut unread) = (Kubelets::new(), Vec::new());
    for (node, result) in read {
        match result {
            Ok(configuration) => drop(known.insert(node, configuration)),
            Err(why) => unread.push(format!("{node}: {why}")),
        }
    }
    if !unread.is_empty() {
        let count = counted(unread.len(), "kubelet");
        input::note(&format!(
            "the configuration of {count} could not be read: {}. Get the permission to get nodes/proxy and check the \
             nodes, or review the profiles, which show less without it",
            some_of(unread)
        ));
    }
    known
}

pub(super) fn files(files: &[PathBuf], namespace: &str) -> Result<Snapshot, CommandError> {
    snapshot_of(input::read(files)?, namespace).map_err(|problems| input::failure(&problems))
}

/// The nodes, RuntimeClasses, pools and profiles among manifests. Other objects are ignored.
pub fn snapshot_of(manifests: Manifests, namespace: &str) -> Result<Snapshot, Vec<LocatedProblem>> {
    let Manifests { objects, mut problems, .. } = manifests;
    let resources = ManifestSet::read(&objects, &mut problems);
    let runtime_classes = runtime_classes(&objects, &mut problems);
    let nodes = nodes_among(&objects, &mut problems);
    if !problems.is_empty() {
        problems.sort();
        return Err(problems);
    }
    Ok(Snapshot { runtime_classes, now: Timestamp::now(), ..snapshot(&resources, nodes, namespace) })
}

fn runtime_classes(objects: &[Manifest], problems: &mut Vec<LocatedProblem>) -> Objects<RuntimeClassView> {
    let is_class =
        |manifest: &&Manifest| manifest.object.kind() == "RuntimeClass" && manifest.object.group() == "node.k8s.io";
    let mut classes = Vec::new();
    for Manifest { object, location } in objects.iter().filter(is_class) {
        match RuntimeClassView::decode(object.value()) {
            Ok(class) => classes.push(class),
            Err(problem) => problems.push(location.problem(problem)),
        }
    }
    classes.into_iter().collect()
}
