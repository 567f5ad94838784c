//! `winpool cleanup`: nodes, RuntimeClasses and ConfigMaps are as they were before there was a winpool.

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
    audit::Request,
    control_plane::{OPERATOR_NAMESPACE, User},
    kubelet::Kubelets,
    operator::{Operator, binary},
    world::World,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Node},
    node::v1::RuntimeClass,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{Ended, node, pool, run, run_without_server, writes};

/// What people and machines see of a node, as text: its labels, annotations and taints.
pub fn as_found(node: &Node) -> String {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    json!({ "labels": node.metadata.labels, "annotations": node.metadata.annotations, "taints": taints }).to_string()
}

pub async fn nodes(world: &World) -> Vec<(String, String)> {
    let nodes = world.nodes().list(&ListParams::default()).await.unwrap().items;
    nodes.iter().map(|node| (node.name_any(), as_found(node))).collect()
}

/// The RuntimeClasses, as text.
async fn classes(world: &World) -> Vec<(String, String)> {
    let classes = Api::<RuntimeClass>::all(world.client.clone()).list(&ListParams::default()).await.unwrap().items;
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

fn config_maps(world: &World) -> Api<ConfigMap> {
    Api::namespaced(world.client.clone(), OPERATOR_NAMESPACE)
}

async fn names_of_config_maps(world: &World) -> BTreeSet<String> {
    let maps = config_maps(world).list(&ListParams::default()).await.unwrap().items;
    // Every namespace has this one from Kubernetes 1.20 on, made by the controller manager at some time.
    maps.iter().map(ResourceExt::name_any).filter(|name| name != "kube-root-ca.crt").collect()
}

async fn create_class(world: &World, object: Value) {
    let class = serde_json::from_value(object).unwrap();
    Api::<RuntimeClass>::all(world.client.clone()).create(&PostParams::default(), &class).await.unwrap();
}

/// Says that so many Pods of the operator's Deployment are ready, as the controller manager does.
async fn operators_ready(world: &World, count: u32) {
    let deployments = Api::<Deployment>::namespaced(world.client.clone(), OPERATOR_NAMESPACE);
    let status = json!({ "status": { "replicas": count, "readyReplicas": count } });
    deployments.patch_status("winpool", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// The lines that tell what is done for a pool.
fn told<'a>(lines: &[&'a str], pool: &str) -> Vec<&'a str> {
    lines.iter().copied().filter(|line| line.starts_with(&format!("pool {pool}: "))).collect()
}

#[tokio::test]
async fn cleanup_gives_everything_back_as_it_was_found() {
    let world = World::start().await.unwrap();
    let tolerations = json!([{ "key": "sku", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }]);
    create_class(
        &world,
        json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runhcs-wcow-process",
            "metadata": { "name": "theirs", "labels": { "team": "platform" }, "annotations": { "example.com/why": "ours" } },
            "scheduling": { "nodeSelector": { "disk": "fast" }, "tolerations": tolerations },
            "overhead": { "podFixed": { "memory": "200Mi" } },
        }),
    )
    .await;
    let bare = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "bare" }, "handler": "runhcs-wcow-process",
    });
    create_class(&world, bare).await;
    let bystander = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "gvisor" }, "handler": "runsc",
    });
    create_class(&world, bystander).await;
    let theirs = serde_json::from_value(json!({ "metadata": { "name": "theirs" }, "data": { "a": "b" } })).unwrap();
    config_maps(&world).create(&PostParams::default(), &theirs).await.unwrap();

    let machines = vec![
        node("web-1", "web").taint("gpu", "yes", "NoSchedule").taint("team", "", "PreferNoSchedule"),
        // It has already what the pool asks for.
        node("web-2", "web").label("team", "web").taint("os", "windows", "NoSchedule"),
        // Its kubelet does not tell its build.
        node("web-3", "web").without_build_label(),
        // What the pool asks for stands there with other values.
        node("web-4", "web").label("team", "theirs").taint("os", "Windows", "NoSchedule"),
        node("batch-1", "batch"),
        node("alone-1", "nobody").taint("os", "windows", "NoSchedule"),
    ];
    let _kubelets = Kubelets::start(world.client.clone(), machines).await.unwrap();
    let note = json!({ "metadata": { "annotations": { "example.com/note": "keep", "example.com/empty": "" } } });
    world.nodes().patch_metadata("web-1", &PatchParams::default(), &Patch::Merge(note)).await.unwrap();
    let (nodes_before, classes_before) = (nodes(&world).await, classes(&world).await);
    let maps_before = names_of_config_maps(&world).await;

    world.apply("WindowsRuntimeProfile", "standard", &json!({})).await.unwrap();
    let named =
        json!([{ "name": "windows-web" }, { "name": "theirs", "adopt": true }, { "name": "bare", "adopt": true }]);
    let more = json!({ "labels": { "team": "web" }, "profileRef": { "name": "standard" }, "runtimeClasses": named });
    pool(&world, "web", more).await;
    let more = json!({
        "deletionPolicy": "Cleanup",
        "profileRef": { "name": "standard" },
        "taints": [{ "key": "batch", "value": "yes", "effect": "NoSchedule" }],
    });
    pool(&world, "batch", more).await;
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    world.until_condition("web", "NodesConfigured", "False", "TaintConflict").await.unwrap();
    world.until_condition("web", "RuntimeClassReady", "True", "Applied").await.unwrap();
    world.until_as_specified("batch").await.unwrap();
    world.until_quiet().await.unwrap();
    operator.stop().await.unwrap();
    let settled = nodes(&world).await;
    for (before, after) in nodes_before.iter().zip(&settled) {
        assert_eq!(before != after, before.0 != "alone-1", "{after:?}");
    }
    let changed = classes(&world).await.into_iter().filter(|class| !classes_before.contains(class));
    let changed: Vec<String> = changed.map(|(name, _)| name).collect();
    assert_eq!(changed, ["bare", "theirs", "windows-ltsc2019", "windows-web"]);
    assert_eq!(names_of_config_maps(&world).await.len(), maps_before.len() + 2);

    // What would be done is said.
    let dry = run(&world, &["cleanup", "--dry-run"]);
    assert_eq!(dry.status, 1, "{}", dry.stderr);
    let said = dry.lines();
    assert_eq!(
        dry.stderr,
        format!("winpool: {} writes would be made; nothing is written with --dry-run\n", said.len())
    );
    for line in [
        "pool web: RuntimeClass windows-web: delete",
        "pool web: RuntimeClass theirs: give back as it was before it was adopted",
        "pool web: RuntimeClass bare: give back as it was before it was adopted",
        "pool batch: RuntimeClass windows-ltsc2019: delete",
        "pool batch: WindowsNodePool batch: remove the finalizer",
    ] {
        assert!(said.contains(&line), "{line} is not in {said:#?}");
    }
    for name in ["web-1", "web-2", "web-3", "web-4"] {
        let begin = format!("pool web: Node {name}: ");
        assert_eq!(said.iter().filter(|line| line.starts_with(&begin)).count(), 1, "{said:#?}");
    }
    assert!(!dry.stdout.contains("alone-1"), "{said:#?}");

    // Not while an operator would put it back, and not for a pool that there is not.
    operators_ready(&world, 1).await;
    let refused = run(&world, &["cleanup"]);
    assert_eq!((refused.status, refused.stdout.as_str()), (1, ""), "{}", refused.stderr);
    let words = "an operator runs in namespace winpool-system and would put everything back for batch, web";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
    assert_eq!(run(&world, &["cleanup", "--pool", "wbe", "--force"]).status, 2);
    assert_eq!(run_without_server(&world.control_plane, &["cleanup"]).status, 3);
    let none: Vec<Request> = Vec::new();
    assert_eq!(writes(&world), none, "nothing is written so far");
    assert_eq!(nodes(&world).await, settled);

    // One pool.
    let ended = run(&world, &["cleanup", "--pool", "batch", "--force"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let (last, done) = ended.lines().split_last().map(|(last, done)| (*last, done.to_vec())).unwrap();
    assert_eq!((last, &done), ("done", &told(&said, "batch")), "it does what was said");
    for ((name, before), ((_, while_settled), (_, now))) in
        nodes_before.iter().zip(settled.iter().zip(nodes(&world).await))
    {
        assert_eq!(&now, if name == "batch-1" { before } else { while_settled }, "{name}");
    }

    // All that is left.
    operators_ready(&world, 0).await;
    let ended = run(&world, &["cleanup"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let (last, done) = ended.lines().split_last().map(|(last, done)| (*last, done.to_vec())).unwrap();
    assert_eq!((last, &done), ("done", &told(&said, "web")), "it does what was said");
    assert!(ended.stderr.contains("an operator that starts again puts everything back"), "{}", ended.stderr);
    assert_eq!(nodes(&world).await, nodes_before);
    assert_eq!(classes(&world).await, classes_before);
    assert_eq!(names_of_config_maps(&world).await, maps_before);
    for name in ["web", "batch"] {
        let pool = world.pool(name).await.unwrap();
        assert_eq!(pool["metadata"].get("finalizers"), None, "{name} can be deleted with no operator there");
    }

    // Once more.
    let before = writes(&world).len();
    let ended = run(&world, &["cleanup", "--dry-run"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "nothing is there to take off\n"), "{}", ended.stderr);
    assert_eq!(run(&world, &["cleanup"]).status, 0);
    assert_eq!(writes(&world).len(), before);
}

#[tokio::test]
async fn cleanup_goes_on_while_others_write_the_same_nodes_and_loses_none_of_theirs() {
    let world = World::start().await.unwrap();
    let names: Vec<String> = (1..=30).map(|number| format!("web-{number}")).collect();
    let machines = names.iter().map(|name| node(name, "web")).collect();
    let _kubelets = Kubelets::start(world.client.clone(), machines).await.unwrap();
    pool(&world, "web", json!({ "labels": { "team": "web" } })).await;
    let found = nodes(&world).await;
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    world.until_guarded("web", ("os", "windows"), names.len()).await.unwrap();
    world.until_as_specified("web").await.unwrap();
    operator.stop().await.unwrap();

    // Another controller counts on every node, twenty times a second.
    let count = |all: Api<Node>, name: String, number: usize| async move {
        let patch = json!({ "metadata": { "annotations": { "example.com/count": number.to_string() } } });
        all.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    let (all, ended) = (world.nodes(), Arc::new(AtomicBool::new(false)));
    let rival = tokio::spawn({
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
        let config = world.control_plane.kubeconfig(User::RivalA);
        move || Ended::from(Command::new(binary().unwrap()).arg("cleanup").env("KUBECONFIG", config).output().unwrap())
    });
    let cleanup = cleanup.await.unwrap();
    ended.store(true, Ordering::Relaxed);
    let counted = rival.await.unwrap();
    assert_eq!(cleanup.status, 0, "{}{}", cleanup.stdout, cleanup.stderr);
    assert_eq!(cleanup.lines().last(), Some(&"done"));

    let mut now = world.nodes().list(&ListParams::default()).await.unwrap().items;
    for (index, name) in names.iter().enumerate() {
        let node = now.iter_mut().find(|node| node.name_any() == *name).unwrap();
        let last = (0..counted).rev().find(|number| number % names.len() == index).unwrap();
        let theirs = node.annotations_mut().remove("example.com/count");
        assert_eq!(theirs, Some(last.to_string()), "{name} has what the other wrote last");
        node.metadata.annotations = node.metadata.annotations.take().filter(|all| !all.is_empty());
        assert!(found.contains(&(name.clone(), as_found(node))), "{node:#?}");
    }
}
