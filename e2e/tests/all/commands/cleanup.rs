//! `winpool cleanup`: restores nodes, RuntimeClasses and ConfigMaps.

use std::{
    collections::BTreeSet,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use e2e::{
    cluster::{Cluster, create},
    control_plane::{OPERATOR_NAMESPACE, User},
    operator::binary,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node, node::v1::RuntimeClass};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::{CommandOutput, node, pool, run, writes};

/// The labels, annotations and taints of a node, as text.
fn as_text(node: &Node) -> String {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    json!({ "labels": node.metadata.labels, "annotations": node.metadata.annotations, "taints": taints }).to_string()
}

async fn nodes(cluster: &Cluster) -> Vec<(String, String)> {
    let nodes = cluster.nodes().list(&ListParams::default()).await.unwrap().items;
    nodes.iter().map(|node| (node.name_any(), as_text(node))).collect()
}

/// The RuntimeClasses, as text.
async fn classes(cluster: &Cluster) -> Vec<(String, String)> {
    let classes = cluster.classes().list(&ListParams::default()).await.unwrap().items;
    let text = |class: &RuntimeClass| {
        let metadata = &class.metadata;
        json!({
            "labels": metadata.labels, "annotations": metadata.annotations, "uid": metadata.uid,
            "handler": class.handler, "scheduling": class.scheduling, "overhead": class.overhead,
        })
        .to_string()
    };
    classes.iter().map(|class| (class.name_any(), text(class))).collect()
}

async fn names_of_config_maps(cluster: &Cluster) -> BTreeSet<String> {
    let maps = cluster.config_maps().list(&ListParams::default()).await.unwrap().items;
    // The controller manager creates this one in every namespace from Kubernetes 1.20 on.
    maps.iter().map(ResourceExt::name_any).filter(|name| name != "kube-root-ca.crt").collect()
}

/// Sets the ready replicas of the operator's Deployment, as the controller manager does.
async fn operators_ready(cluster: &Cluster, count: u32) {
    let deployments = cluster.namespaced::<Deployment>(OPERATOR_NAMESPACE);
    let status = json!({ "status": { "replicas": count, "readyReplicas": count } });
    deployments.patch_status("winpool", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Cleans up, which does for a pool what the dry run listed. Returns what is printed on stderr.
fn clean_up(cluster: &Cluster, arguments: &[&str], planned: &[&str], pool: &str) -> String {
    let output = run(cluster, &[&["cleanup"], arguments].concat());
    assert_eq!(output.status, 0, "{}", output.stderr);
    let begin = format!("pool {pool}: ");
    let expected: Vec<_> = planned.iter().filter(|line| line.starts_with(&begin)).chain([&"done"]).copied().collect();
    assert_eq!(output.lines(), expected, "it does what the dry run listed");
    output.stderr
}

#[tokio::test]
async fn cleanup_restores_the_cluster() {
    let cluster = Cluster::start().await.unwrap();
    let tolerations = json!([{ "key": "sku", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }]);
    let theirs = json!({
        "metadata": { "name": "theirs", "labels": { "team": "platform" }, "annotations": { "example.com/why": "ours" } },
        "handler": "runhcs-wcow-process",
        "scheduling": { "nodeSelector": { "disk": "fast" }, "tolerations": tolerations },
        "overhead": { "podFixed": { "memory": "200Mi" } },
    });
    let bare = json!({ "metadata": { "name": "bare" }, "handler": "runhcs-wcow-process" });
    let other = json!({ "metadata": { "name": "gvisor" }, "handler": "runsc" });
    for class in [theirs, bare, other] {
        create(&cluster.classes(), class).await.unwrap();
    }
    let theirs = json!({ "metadata": { "name": "theirs" }, "data": { "a": "b" } });
    create(&cluster.config_maps(), theirs).await.unwrap();

    let machines = vec![
        node("web-1", "web").taint("gpu", "yes", "NoSchedule").taint("team", "", "PreferNoSchedule"),
        // It already has the labels and taints of the pool.
        node("web-2", "web").label("team", "web").taint("os", "windows", "NoSchedule"),
        // Its kubelet does not set the build label.
        node("web-3", "web").without_build_label(),
        // It has other values for the labels and taints of the pool.
        node("web-4", "web").label("team", "theirs").taint("os", "Windows", "NoSchedule"),
        node("batch-1", "batch"),
        node("alone-1", "nobody").taint("os", "windows", "NoSchedule"),
    ];
    let _kubelets = cluster.start_kubelets(machines).await.unwrap();
    let note = json!({ "metadata": { "annotations": { "example.com/note": "keep", "example.com/empty": "" } } });
    cluster.nodes().patch_metadata("web-1", &PatchParams::default(), &Patch::Merge(note)).await.unwrap();
    let (nodes_before, classes_before) = (nodes(&cluster).await, classes(&cluster).await);
    let maps_before = names_of_config_maps(&cluster).await;

    cluster.apply_profile("standard", json!({})).await.unwrap();
    let named =
        json!([{ "name": "windows-web" }, { "name": "theirs", "adopt": true }, { "name": "bare", "adopt": true }]);
    let more = json!({ "labels": { "team": "web" }, "profileRef": { "name": "standard" }, "runtimeClasses": named });
    pool(&cluster, "web", more).await;
    let more = json!({
        "deletionPolicy": "Cleanup",
        "profileRef": { "name": "standard" },
        "taints": [{ "key": "batch", "value": "yes", "effect": "NoSchedule" }],
    });
    pool(&cluster, "batch", more).await;
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_condition("web", "NodesTainted", "False", "TaintConflict").await.unwrap();
    cluster.until_condition("web", "RuntimeClassReady", "True", "Applied").await.unwrap();
    cluster.until_ready("batch").await.unwrap();
    cluster.until_idle().await.unwrap();
    operator.stop().await.unwrap();
    let converged = nodes(&cluster).await;
    for (before, after) in nodes_before.iter().zip(&converged) {
        assert_eq!(before != after, before.0 != "alone-1", "{after:?}");
    }
    let changed = classes(&cluster).await.into_iter().filter(|class| !classes_before.contains(class));
    let changed: Vec<String> = changed.map(|(name, _)| name).collect();
    assert_eq!(changed, ["bare", "theirs", "windows-ltsc2022", "windows-web"]);
    assert_eq!(names_of_config_maps(&cluster).await.len(), maps_before.len() + 2);

    // A dry run.
    let dry = run(&cluster, &["cleanup", "--dry-run"]);
    assert_eq!(dry.status, 1, "{}", dry.stderr);
    let planned = dry.lines();
    assert_eq!(dry.stderr, format!("winpool: {} writes would be made without --dry-run\n", planned.len()));
    for line in [
        "pool web: RuntimeClass windows-web: delete",
        "pool web: RuntimeClass theirs: restore the state before the adoption",
        "pool web: RuntimeClass bare: restore the state before the adoption",
        "pool batch: RuntimeClass windows-ltsc2022: delete",
        "pool batch: WindowsNodePool batch: remove the finalizer",
    ] {
        assert!(planned.contains(&line), "{line} is not in {planned:#?}");
    }
    for name in ["web-1", "web-2", "web-3", "web-4"] {
        let begin = format!("pool web: Node {name}: ");
        assert_eq!(planned.iter().filter(|line| line.starts_with(&begin)).count(), 1, "{planned:#?}");
    }
    assert!(!dry.stdout.contains("alone-1"), "{planned:#?}");

    // The command fails while an operator runs, and for an unknown pool.
    operators_ready(&cluster, 1).await;
    let refused = run(&cluster, &["cleanup", "--yes"]);
    assert_eq!((refused.status, refused.stdout.as_str()), (1, ""), "{}", refused.stderr);
    let message = "an operator is running in namespace winpool-system and would apply these pools again: batch, web. ";
    assert!(refused.stderr.contains(message), "{}", refused.stderr);
    assert_eq!(run(&cluster, &["cleanup", "--pool", "wbe", "--force", "-y"]).status, 2);
    assert_eq!(writes(&cluster), [], "nothing is written so far");
    assert_eq!(nodes(&cluster).await, converged);

    // One pool.
    clean_up(&cluster, &["--pool", "batch", "--force", "-y"], &planned, "batch");
    for ((name, before), ((_, while_converged), (_, now))) in
        nodes_before.iter().zip(converged.iter().zip(nodes(&cluster).await))
    {
        assert_eq!(&now, if name == "batch-1" { before } else { while_converged }, "{name}");
    }

    // The other pool.
    operators_ready(&cluster, 0).await;
    let stderr = clean_up(&cluster, &["--yes"], &planned, "web");
    assert!(
        stderr.contains("if an operator starts again, it applies these pools again unless they are deleted: "),
        "{stderr}"
    );
    assert_eq!(nodes(&cluster).await, nodes_before);
    assert_eq!(classes(&cluster).await, classes_before);
    assert_eq!(names_of_config_maps(&cluster).await, maps_before);
    for name in ["web", "batch"] {
        let pool = cluster.pool(name).await.unwrap();
        assert_eq!(pool["metadata"].get("finalizers"), None, "{name} can be deleted without an operator");
    }

    // A second run.
    let before = writes(&cluster).len();
    let output = run(&cluster, &["cleanup", "--dry-run"]);
    assert_eq!((output.status, output.stdout.as_str()), (0, "nothing to remove\n"), "{}", output.stderr);
    assert_eq!(run(&cluster, &["cleanup", "--yes"]).status, 0);
    assert_eq!(writes(&cluster).len(), before);
}

#[tokio::test]
async fn cleanup_preserves_concurrent_changes_of_the_same_nodes() {
    let cluster = Cluster::start().await.unwrap();
    let names: Vec<String> = (1..=30).map(|number| format!("web-{number}")).collect();
    let machines = names.iter().map(|name| node(name, "web")).collect();
    let _kubelets = cluster.start_kubelets(machines).await.unwrap();
    pool(&cluster, "web", json!({ "labels": { "team": "web" } })).await;
    let found = nodes(&cluster).await;
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_tainted("web", ("os", "windows"), names.len()).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    operator.stop().await.unwrap();

    // Another controller increments a counter on every node, twenty times a second.
    let count = |all: Api<Node>, name: String, number: usize| async move {
        let patch = json!({ "metadata": { "annotations": { "example.com/count": number.to_string() } } });
        all.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    let (all, ended) = (cluster.nodes(), Arc::new(AtomicBool::new(false)));
    let other = tokio::spawn({
        let (names, ended) = (names.clone(), ended.clone());
        async move {
            let mut counted = 0;
            while !ended.load(Ordering::Relaxed) || counted < names.len() {
                count(all.clone(), names[counted % names.len()].clone(), counted).await;
                counted += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            counted
        }
    });
    let cleanup = tokio::task::spawn_blocking({
        let config = cluster.control_plane.kubeconfig(User::OtherA);
        move || {
            CommandOutput::from(
                Command::new(binary().unwrap()).args(["cleanup", "--yes"]).env("KUBECONFIG", config).output().unwrap(),
            )
        }
    });
    let cleanup = cleanup.await.unwrap();
    ended.store(true, Ordering::Relaxed);
    let counted = other.await.unwrap();
    assert_eq!(cleanup.status, 0, "{}{}", cleanup.stdout, cleanup.stderr);
    assert_eq!(cleanup.lines().last(), Some(&"done"));

    let mut now = cluster.nodes().list(&ListParams::default()).await.unwrap().items;
    for (index, name) in names.iter().enumerate() {
        let node = now.iter_mut().find(|node| node.name_any() == *name).unwrap();
        let last = (0..counted).rev().find(|number| number % names.len() == index).unwrap();
        let theirs = node.annotations_mut().remove("example.com/count");
        assert_eq!(theirs, Some(last.to_string()), "{name} has the last value of the other client");
        node.metadata.annotations = node.metadata.annotations.take().filter(|all| !all.is_empty());
        assert!(found.contains(&(name.clone(), as_text(node))), "{node:#?}");
    }
}
