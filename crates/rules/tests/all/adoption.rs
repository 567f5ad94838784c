//! The adoption of nodes that others have tainted: held taints, replaced taints, and classes for compatible nodes.

use serde_json::{Value, json};
use winpool_rules::pool::{Snapshot, plan::plan};
use winpool_workload::Workloads;

use winpool_model::{
    CLASS, DAEMON_SET, DEPLOYMENT, Model, NODE, POD, POOL, condition, node, pool, reported, taints, web, with,
};

const NEW: &str = "os=windows:NoSchedule";
const OLD: &str = "os=Windows:NoSchedule";

fn web_node(build: u32, taints: Value) -> Value {
    node(build, "containerd://2.2.10", &json!({"agentpool": "web"}), &taints)
}

fn old_taint() -> Value {
    json!([{"key": "os", "value": "Windows", "effect": "NoSchedule"}])
}

fn pod_spec(more: Value) -> Value {
    with(json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": []}), &more)
}

/// A pod of Deployment `shop/api` on node `win-1`.
fn pod(more: Value) -> Value {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "api-7f", "uid": "u", "controller": true});
    json!({
        "metadata": {"namespace": "shop", "labels": {"pod-template-hash": "7f"}, "ownerReferences": [owner]},
        "spec": with(pod_spec(json!({"nodeName": "win-1"})), &more),
    })
}

fn controller(more: Value) -> Value {
    let template = json!({"spec": pod_spec(more)});
    json!({"metadata": {"namespace": "shop"}, "spec": {"replicas": 1, "selector": {}, "template": template}})
}

fn model(spec: Value, taints: Value) -> Model {
    let mut model = Model::new();
    model.put(NODE, "win-1", web_node(20348, taints));
    model.put(POOL, "web", web(spec));
    model
}

fn taints_of(model: &Model, node: &str) -> Vec<String> {
    taints(model.get(NODE, node).unwrap())
}

fn labels_of(model: &Model, node: &str) -> Vec<String> {
    let labels = model.get(NODE, node).unwrap()["metadata"]["labels"].as_object().unwrap();
    labels.keys().filter_map(|key| key.strip_prefix("runs.winpool.dev/")).map(str::to_owned).collect()
}

fn class_selector(model: &Model, class: &str) -> Value {
    model.get(CLASS, class).unwrap()["scheduling"]["nodeSelector"].clone()
}

#[test]
fn a_new_taint_waits_for_windows_pods_that_do_not_tolerate_it() {
    let tolerating = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
    let started = json!([{"name": "main", "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": {"running": {}}}]);
    let mut started_pod = pod(json!({"nodeSelector": {}, "containers": [{"name": "main"}]}));
    started_pod["status"] = json!({"phase": "Running", "containerStatuses": started});
    let table: [(&str, &'static str, Value, bool); 14] = [
        ("a pod without a toleration", POD, pod(json!({})), true),
        ("a pod with the toleration", POD, pod(json!({"tolerations": tolerating})), false),
        ("a pod with another value", POD, pod(json!({"tolerations": [{"key": "os", "value": "Windows"}]})), true),
        ("a pod with a class of the pool", POD, pod(json!({"runtimeClassName": "windows-ltsc2022"})), false),
        ("a pod with another class", POD, pod(json!({"runtimeClassName": "mine"})), true),
        ("a Linux pod", POD, pod(json!({"nodeSelector": {"kubernetes.io/os": "linux"}})), false),
        ("a pod without a system that has not started", POD, pod(json!({"nodeSelector": {}})), false),
        ("a pod without a system that has started", POD, started_pod, true),
        ("a pod on another node", POD, pod(json!({"nodeName": "linux-1"})), false),
        ("a pod that waits for a node", POD, pod(json!({"nodeName": null})), true),
        ("a Deployment without pods", DEPLOYMENT, controller(json!({})), true),
        (
            "a Deployment for other nodes",
            DEPLOYMENT,
            controller(json!({"nodeSelector": {"kubernetes.io/os": "windows", "disk": "ssd"}})),
            false,
        ),
        ("a DaemonSet", DAEMON_SET, controller(json!({})), true),
        (
            "a DaemonSet with a class, which its controller ignores",
            DAEMON_SET,
            controller(json!({"runtimeClassName": "windows-ltsc2022"})),
            true,
        ),
    ];
    for (case, kind, object, held) in table {
        let mut model = model(json!({}), json!([]));
        model.put(kind, "api", object);
        model.converge();
        assert_eq!(taints_of(&model, "win-1"), if held { vec![] } else { vec![NEW] }, "{case}");
        let expected = if held { "WouldStrandPods" } else { "Applied" };
        assert_eq!(condition(&model, "web", "NodesTainted").1, expected, "{case}");
    }
}

#[test]
fn a_workload_without_pods_counts_if_its_pods_could_be_scheduled_to_the_nodes_now() {
    let tolerating = json!([{"key": "os", "value": "Windows"}]);
    for (tolerations, held) in [(json!([]), false), (tolerating, true)] {
        let mut model = model(json!({"replacesTaints": old_taint()}), old_taint());
        model.put(DAEMON_SET, "logs", controller(json!({"tolerations": tolerations})));
        model.converge();
        assert_eq!(taints_of(&model, "win-1"), if held { [OLD] } else { [NEW] }, "{tolerations}");
    }
}

#[test]
fn the_condition_says_what_to_write_in_each_workload_and_how_to_allow_it() {
    let mut model = model(json!({}), json!([]));
    model.put(POD, "api-1", pod(json!({})));
    model.put(DAEMON_SET, "logs", controller(json!({})));
    model.converge();
    assert_eq!(
        condition(&model, "web", "NodesTainted").2,
        "win-1 (os:NoSchedule): 2 workloads do not tolerate it, and new pods would stay Pending. DaemonSet shop/logs: add \
         toleration {key: os, value: \"windows\", effect: NoSchedule}. Deployment shop/api: add toleration {key: os, value: \
         \"windows\", effect: NoSchedule}, or runtimeClassName: windows-ltsc2022. Or allow it: kubectl annotate wnp web \
         winpool.dev/allow-pending=os=windows --overwrite. List the nodes: kubectl get nodes -l winpool.dev/pool=web"
    );
}

#[test]
fn the_condition_says_that_old_pods_remain_of_a_workload_whose_template_has_the_toleration() {
    let mut model = model(json!({}), json!([]));
    let tolerating = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
    model.put(POD, "api-1", pod(json!({})));
    model.put(DEPLOYMENT, "api", controller(json!({"tolerations": tolerating})));
    model.converge();
    let message = condition(&model, "web", "NodesTainted").2;
    let remedy = "Deployment shop/api: its template has the toleration, but pods of an earlier template remain. Complete the \
                  rollout, or delete them. Or allow it: ";
    assert!(message.contains(remedy), "{message}");
    model.delete(POD, "api-1");
    model.converge();
    assert_eq!(taints_of(&model, "win-1"), [NEW]);
}

#[test]
fn pods_may_stay_pending_if_the_annotation_names_the_taint() {
    for (annotation, held) in [("os=windows", false), ("os", false), ("os=Windows", true), ("true", true)] {
        let mut model = model(json!({}), json!([]));
        model.put(POD, "api-1", pod(json!({})));
        model.annotate("web", "winpool.dev/allow-pending", annotation);
        model.converge();
        assert_eq!(taints_of(&model, "win-1").is_empty(), held, "{annotation}");
    }
}

#[test]
fn a_taint_that_the_pool_has_begun_to_set_is_set_on_new_nodes_without_another_check() {
    let mut model = model(json!({}), json!([]));
    model.converge();
    model.put(POD, "api-1", pod(json!({})));
    model.put(NODE, "win-2", web_node(20348, json!([])));
    model.converge();
    assert_eq!(taints_of(&model, "win-2"), [NEW]);
    // A status of an earlier version has no values: the records of the nodes have the taint.
    model.edit(POOL, "web", |pool| drop(pool["status"]["applied"].as_object_mut().unwrap().remove("taintValues")));
    model.put(NODE, "win-3", web_node(20348, json!([])));
    model.converge();
    assert_eq!(taints_of(&model, "win-3"), [NEW]);
}

#[test]
fn without_pods_a_taint_is_added_if_they_cannot_be_read_and_held_until_they_are_known() {
    let mut model = model(json!({}), json!([]));
    // Its pods do not tolerate the taint, but it is not checked without the pods that count beside it.
    model.put(DEPLOYMENT, "api", controller(json!({})));
    for (workloads, pods_refused, held) in
        [(Workloads::Off, false, false), (Workloads::Waiting, true, false), (Workloads::Waiting, false, true)]
    {
        let snapshot = Snapshot { pods: None, pods_refused, workloads: workloads.clone(), ..model.snapshot() };
        let plan = plan(&snapshot, "web").unwrap();
        let tainted = plan.steps.iter().flatten().filter_map(|operation| operation.summary());
        let tainted = tainted.filter(|summary| summary.contains("taint")).count();
        assert_eq!(tainted == 0, held, "{workloads:?}, refused: {pods_refused}");
    }
}

#[test]
fn a_former_taint_stays_while_the_new_one_is_held() {
    let mut model = model(json!({"taints": [{"key": "os", "value": "Windows", "effect": "NoSchedule"}]}), json!([]));
    model.converge();
    model.put(POD, "api-1", pod(json!({"tolerations": [{"key": "os", "value": "Windows"}]})));
    for taints in [
        json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]),
        json!([{"key": "team", "effect": "NoSchedule"}]),
    ] {
        model.set_spec("web", "taints", taints);
        model.converge();
        assert_eq!(taints_of(&model, "win-1"), [OLD]);
        assert_eq!(condition(&model, "web", "NodesTainted").1, "WouldStrandPods");
    }
}

#[test]
fn a_replaced_taint_is_exchanged_in_one_patch_or_removed_with_it() {
    let other = json!([{"key": "node.kubernetes.io/os", "value": "windows", "effect": "NoSchedule"}]);
    for (present, text) in
        [(old_taint(), "taint os=windows:NoSchedule"), (other, "remove taint node.kubernetes.io/os=windows:NoSchedule")]
    {
        let mut model = model(json!({"replacesTaints": present}), present.clone());
        let snapshot = model.snapshot();
        let steps = plan(&snapshot, "web").unwrap().steps;
        let patches = steps.iter().flatten().filter_map(|operation| operation.summary());
        let patches: Vec<String> = patches.filter(|summary| summary.starts_with("Node")).collect();
        assert!(patches.len() == 1 && patches[0].contains(text), "{patches:?}");
        model.converge_watched(|model| assert_eq!(taints_of(model, "win-1").len(), 1));
        assert_eq!(taints_of(&model, "win-1"), [NEW]);
        let tolerations = model.get(CLASS, "windows-ltsc2022").unwrap()["scheduling"]["tolerations"].clone();
        assert_eq!(tolerations.as_array().unwrap().len(), 2, "{tolerations}");
    }
}

#[test]
fn two_pools_that_replace_taints_of_each_other_replace_none() {
    let mut model = model(json!({"replacesTaints": old_taint()}), old_taint());
    let new = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
    model.put(POOL, "batch", pool(json!({
        "windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "batch"}}, "taints": old_taint(),
        "replacesTaints": new,
    })));
    model.converge();
    assert_eq!(taints_of(&model, "win-1"), [OLD]);
    for (pool, other) in [("web", "batch"), ("batch", "web")] {
        let (_, reason, message) = condition(&model, pool, "NodesTainted");
        assert_eq!(reason, "TaintConflict");
        assert!(message.starts_with(&format!("pool {other} replaces a taint of this pool")), "{message}");
    }
}

#[test]
fn nodes_have_labels_for_the_releases_whose_images_they_run() {
    let mut model = model(json!({}), json!([]));
    model.put(NODE, "win-2", web_node(26100, json!([])));
    model.converge();
    assert_eq!(labels_of(&model, "win-1"), ["ltsc2022"]);
    assert_eq!(labels_of(&model, "win-2"), ["23h2", "ltsc2022", "ltsc2025"]);
    model.edit(NODE, "win-2", |node| {
        node["status"]["nodeInfo"]["containerRuntimeVersion"] = json!("containerd://1.7.0")
    });
    model.converge();
    assert_eq!(labels_of(&model, "win-2"), ["ltsc2025"]);
}

#[test]
fn a_label_of_a_release_stays_while_a_pod_on_the_node_selects_it() {
    let mut model = model(json!({}), json!([]));
    model.converge();
    let selector = json!({"kubernetes.io/os": "windows", "runs.winpool.dev/ltsc2022": "true"});
    model.put(POD, "api-1", pod(json!({"nodeSelector": selector, "tolerations": [{"operator": "Exists"}]})));
    model.edit(NODE, "win-1", |node| node["status"]["nodeInfo"]["kernelVersion"] = json!("10.0.17763.1"));
    model.converge();
    assert_eq!(labels_of(&model, "win-1"), ["ltsc2019", "ltsc2022"]);
    model.delete(POD, "api-1");
    model.converge();
    assert_eq!(labels_of(&model, "win-1"), ["ltsc2019"]);
}

#[test]
fn a_class_for_compatible_nodes_waits_until_the_nodes_of_all_pools_have_the_label() {
    let mut model = model(json!({}), json!([]));
    model.converge();
    let batch = json!({"windowsVersion": "ltsc2025", "nodeSelector": {"matchLabels": {"agentpool": "batch"}}});
    model.put(NODE, "win-2", node(26100, "containerd://2.2.10", &json!({"agentpool": "batch"}), &json!([])));
    model.put(POOL, "batch", pool(batch));
    model.set_spec("web", "runtimeClasses", json!([{"name": "windows-ltsc2022", "scope": "Compatible"}]));
    model.reconcile_until("web", usize::MAX, |_| {});
    assert_eq!(class_selector(&model, "windows-ltsc2022")["node.kubernetes.io/windows-build"], "10.0.20348");
    let (_, reason, message) = condition(&model, "web", "RuntimeClassReady");
    assert_eq!(reason, "Progressing");
    assert!(message.contains("do not have the label yet: win-2"), "{message}");
    model.converge();
    assert_eq!(
        class_selector(&model, "windows-ltsc2022"),
        json!({"kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "runs.winpool.dev/ltsc2022": "true"})
    );
    assert_eq!(
        condition(&model, "web", "RuntimeClassReady").2,
        "RuntimeClass windows-ltsc2022 selects the nodes that run images of build 10.0.20348"
    );
}

#[test]
fn nodes_that_run_the_images_count_for_a_class_that_selects_compatible_nodes() {
    for (scope, stranded) in [("Build", true), ("Compatible", false)] {
        let classes = json!([{"name": "windows", "scope": scope}]);
        let mut model = Model::new();
        model.put(NODE, "win-1", web_node(25398, json!([])));
        model.put(POOL, "web", web(json!({"windowsVersion": "23H2", "runtimeClasses": classes})));
        model.converge();
        model.set_spec("web", "windowsVersion", json!("ltsc2022"));
        model.converge();
        let expected = if stranded { "WouldStrand" } else { "Applied" };
        assert_eq!(condition(&model, "web", "RuntimeClassReady").1, expected, "{scope}");
    }
}

#[test]
fn a_node_below_the_lowest_revision_is_reported_with_the_update_to_install() {
    for (revision, expected) in [
        (0, None),
        (1000, None),
        (
            2402,
            Some(
                "1 node runs an earlier revision than 10.0.20348.2402 (2024-04, KB5036909) of spec.minRevision: win-1 (10.0.20348.1000). Install Windows updates on it, or replace it",
            ),
        ),
    ] {
        let mut model = model(json!({"minRevision": revision}), json!([]));
        model.converge();
        let found = reported(&model, "web", "OSMismatch");
        assert_eq!(found.is_some(), expected.is_some(), "{revision}: {found:?}");
        if let Some((_, reason, message)) = found {
            assert!(reason == "RevisionTooOld" && message.starts_with(expected.unwrap()), "{message}");
        }
    }
}
