//! Reads the objects that pools are made from.

use std::path::PathBuf;

use jiff::Timestamp;
use k8s_openapi::api::node::v1::RuntimeClass;

use crate::{
    cluster,
    commands::{Failure, connect, input, progress::Progress},
    domain::{
        Objects, decode,
        pool::{RuntimeClassView, Snapshot},
    },
    manifests::{self, LocatedProblem, Manifest, Manifests, Resources},
};

/// The objects of the cluster.
pub(super) fn cluster(args: &connect::Args, namespace: &str) -> Result<Snapshot, Failure> {
    connect::runtime()?.block_on(async {
        let progress = Progress::start("reading the cluster", "request");
        let client = progress.counting(args.client().await?);
        let snapshot = cluster::list_snapshot(&client, namespace).await;
        snapshot.map_err(|error| Failure::Cluster(error.to_string()))
    })
}

/// The objects in files.
pub(super) fn files(files: &[PathBuf], namespace: &str) -> Result<Snapshot, Failure> {
    snapshot_of(input::read(files)?, namespace).map_err(|problems| input::failure(&problems))
}

/// The nodes, RuntimeClasses, pools and profiles among manifests. Other objects are ignored.
///
/// # Errors
/// All problems of the manifests, by file and line.
pub fn snapshot_of(manifests: Manifests, namespace: &str) -> Result<Snapshot, Vec<LocatedProblem>> {
    let mut problems = Vec::new();
    let resources = Resources::read(&manifests.objects, &mut problems);
    let runtime_classes = runtime_classes(&manifests.objects, &mut problems);
    let nodes = match manifests::nodes(manifests) {
        Ok(nodes) => nodes,
        Err(more) => {
            problems.extend(more);
            Objects::default()
        }
    };
    if !problems.is_empty() {
        problems.sort();
        return Err(problems);
    }
    Ok(Snapshot {
        now: Timestamp::now(),
        namespace: namespace.to_owned(),
        pools: resources.pools.into_values().map(|(pool, _)| pool).collect(),
        profiles: resources.profiles.into_values().map(|(profile, _)| profile).collect(),
        nodes,
        runtime_classes,
        ..Snapshot::default()
    })
}

fn runtime_classes(objects: &[Manifest], problems: &mut Vec<LocatedProblem>) -> Objects<RuntimeClassView> {
    let is_class =
        |manifest: &&Manifest| manifest.object.kind() == "RuntimeClass" && manifest.object.group() == "node.k8s.io";
    let mut classes = Vec::new();
    for Manifest { object, location } in objects.iter().filter(is_class) {
        match decode::<RuntimeClass>("", object.value()) {
            Ok(class) => classes.push(RuntimeClassView::from(class)),
            Err(problem) => problems.push(location.problem(problem)),
        }
    }
    classes.into_iter().collect()
}
