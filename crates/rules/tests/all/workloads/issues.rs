//! Every issue with its pool and message, and the same workload without the issue.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::{Value, json};

use winpool_model::{
    CLASS, NODE,
    workloads::{CONTAINERD, Cluster, container, merge, one_pool, running, spec, tolerated, two_pools},
};

/// The fields of a pod, the start and the end of the message, and the fields that resolve the issue.
#[derive(Deserialize)]
struct Case {
    kind: String,
    pod: Value,
    starts: String,
    ends: String,
    fix: Value,
}

/// Cases by the name of the list.
static LISTS: LazyLock<BTreeMap<String, Vec<Case>>> =
    LazyLock::new(|| serde_saphyr::from_str(include_str!("issues.yaml")).unwrap());

/// Asserts the cases of a list, with controllers of this kind if one is given.
#[track_caller]
fn assert_issues_and_fixes(cluster: &Cluster, list: &str, of: Option<&'static str>) {
    for Case { kind, pod, starts, ends, fix } in &LISTS[list] {
        let kind = of.unwrap_or(kind);
        let mut bad = cluster.clone();
        bad.controller(kind, spec(pod.clone()));
        bad.assert_issues(&[(starts.as_str(), ends.as_str())], &format!("{kind} {pod}"));
        let mut good = cluster.clone();
        let mut fixed = pod.clone();
        merge(&mut fixed, fix.clone());
        good.controller(kind, spec(fixed.clone()));
        good.assert_issues(&[], &format!("{kind} {fixed}, fixed"));
    }
}

fn windows() -> Value {
    json!({"kubernetes.io/os": "windows"})
}

#[test]
fn an_unschedulable_workload_is_reported_by_the_pool_that_matches_best() {
    let mut cluster = two_pools();
    cluster.class("mine", "docker", json!({"kubernetes.io/os": "windows", "agentpool": "batch"}));
    assert_issues_and_fixes(&cluster, "unschedulable", None);
}

#[test]
fn daemon_sets_that_rely_on_their_class_are_reported() {
    assert_issues_and_fixes(&two_pools(), "daemon-sets", None);
}

#[test]
fn a_workload_with_a_class_is_reported_by_the_pool_of_the_class() {
    let mut cluster = two_pools();
    // Pool web also has a node with the build of pool batch.
    cluster.node("web-3", 17763, CONTAINERD);
    cluster.model.converge();
    let class = json!({"runtimeClassName": "windows-ltsc2019"});
    cluster.controller("DaemonSet", spec(class.clone()));
    cluster
        .assert_issues(&[("batch DaemonSetIgnoresRuntimeClass", "the tolerations of the class")], &"not by pool web");
    cluster.pod("app", json!({}), spec(class), json!({"phase": "Pending"}));
    assert_eq!((cluster.summary("web").pods, cluster.summary("batch").pods), (0, 1));
}

#[test]
fn a_daemon_set_is_reported_by_every_pool_whose_taints_it_does_not_tolerate() {
    let mut cluster = two_pools();
    cluster.controller("DaemonSet", spec(json!({"nodeSelector": windows()})));
    let start = |pool| format!("{pool} DaemonSetNotTolerating DaemonSet shop/daemonset: selects nodes of pool {pool}");
    cluster.assert_issues(&[(&start("batch"), ""), (&start("web"), "")], &"both pools");
}

#[test]
fn a_linux_workload_is_reported_by_every_pool_that_it_can_be_scheduled_to() {
    for kind in ["Deployment", "DaemonSet", "StatefulSet", "Job"] {
        assert_issues_and_fixes(&one_pool(json!({})), "linux", Some(kind));
    }
    // Every pod without a selector can be scheduled to a pool without taints.
    assert_issues_and_fixes(&one_pool(json!({"taints": []})), "linux-without-taints", None);
}

#[test]
fn a_memory_request_below_the_limit_is_reported() {
    assert_issues_and_fixes(&two_pools(), "memory", None);
}

#[test]
fn memory_defaults_of_the_namespace_apply() {
    let class =
        json!({"runtimeClassName": "windows-ltsc2022", "containers": [{"name": "app", "image": "example.com/app:1"}]});
    let expected = |end: &'static str| vec![("web MemoryNotReserved Deployment shop/deployment: container app", end)];
    let table = [(("1Gi", "2Gi"), expected("Set the request to the limit")), (("2Gi", "2Gi"), vec![])];
    for (defaults, expected) in table {
        let mut cluster = two_pools();
        cluster.controller("Deployment", class.clone());
        cluster.defaults = Some(defaults);
        cluster.assert_issues(&expected, &format!("{defaults:?}"));
    }
}

#[test]
fn a_linux_pod_on_a_windows_node_is_reported_until_it_is_deleted() {
    let mut cluster = two_pools();
    cluster.pod_on("stray", "batch-1", json!({"nodeSelector": {"kubernetes.io/os": "linux"}}), running());
    let expected =
        ("batch LinuxPodOnWindowsNode Pod shop/stray: is for Linux and runs on a Windows node", "in its spec");
    cluster.assert_issues(&[expected], &"a pod with a node name");
    cluster.pods.clear();
    cluster.pod_on("stray", "linux-1", json!({"nodeSelector": {"kubernetes.io/os": "linux"}}), running());
    cluster.assert_issues(&[], &"the same on a Linux node");
}

#[test]
fn a_running_pod_that_is_not_reschedulable_is_reported() {
    let start = "web NotReschedulable Pod shop/app: is running and would not be scheduled here after a restart: it does not \
                 tolerate os=windows:NoSchedule";
    let remedy = ". Add the toleration, or use a RuntimeClass of the pool";
    let mut cluster = two_pools();
    cluster.pod_on("app", "web-1", json!({"nodeSelector": windows()}), running());
    cluster.assert_issues(&[(start, remedy)], &"the pod was created before the taint");
    let stamped = json!({
        "runtimeClassName": "windows-ltsc2022", "tolerations": tolerated(), "nodeSelector": {
            "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": "10.0.20348",
        },
    });
    cluster.pod_on("app", "web-1", stamped, running());
    cluster.assert_issues(&[], &"its class tolerates the taint");
    cluster.model.delete(CLASS, "windows-ltsc2022");
    cluster.assert_issues(&[], &"the pool is about to create the class");

    // A pool in mode Observe does not set the taint.
    let mut observed = one_pool(json!({"mode": "Observe"}));
    observed.pod_on("app", "web-1", json!({"nodeSelector": windows()}), running());
    let remedy = ", which the pool has not set yet. Add the toleration, or use a RuntimeClass of the pool";
    observed.assert_issues(&[(start, remedy)], &"withheld taints");
    observed.pod_on("app", "web-1", json!({"nodeSelector": windows(), "runtimeClassName": "mine"}), running());
    observed.assert_issues(
        &[(
            "web NotReschedulable Pod shop/app: cannot be created again after a restart: RuntimeClass mine does not exist",
            ". Create it, or remove runtimeClassName",
        )],
        &"a class that does not exist",
    );
}

#[test]
fn a_pod_is_reported_when_its_class_selects_other_nodes() {
    let mut cluster = two_pools();
    cluster.class("app", "runhcs-wcow-process", json!({"kubernetes.io/os": "windows", "agentpool": "batch"}));
    let stamped = json!({
        "runtimeClassName": "app", "nodeSelector": {"kubernetes.io/os": "windows", "agentpool": "batch"},
        "tolerations": tolerated(),
    });
    cluster.pod_on("app", "batch-1", stamped, running());
    cluster.assert_issues(&[], &"the class selects the node");
    cluster.class("app", "runhcs-wcow-process", json!({"kubernetes.io/os": "windows", "agentpool": "web"}));
    let expected = "batch RuntimeClassChanged Pod shop/app: was created when RuntimeClass app selected agentpool=batch, and the class now selects agentpool=web";
    cluster.assert_issues(&[(expected, ". Restart the pod to move it")], &"the class selects another pool");
    cluster.class(
        "app",
        "runhcs-wcow-process",
        json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.17763"}),
    );
    cluster.assert_issues(&[], &"the class selects the node by another label");
}

#[test]
fn memory_limits_are_compared_with_the_allocatable_memory_of_each_node() {
    let mut cluster = two_pools();
    let with_limit = |limit: &str| {
        let mut one = container("example.com/app:1");
        one["resources"] = json!({"requests": {"memory": limit}, "limits": {"memory": limit}});
        json!({"containers": [one], "tolerations": tolerated()})
    };
    cluster.pod_on("a", "web-1", with_limit("8Gi"), running());
    cluster.pod_on("b", "web-1", with_limit("8Gi"), running());
    cluster.pod_on("c", "web-2", with_limit("8Gi"), running());
    cluster.assert_issues(&[], &"the limits are the allocatable memory");
    cluster.pod_on("c", "web-1", with_limit("512Mi"), running());
    let expected = (
        "web MemoryOvercommitted Node web-1: has 16Gi of allocatable memory and pods with limits of 16896Mi in total",
        "Lower the limits, or move pods to other nodes",
    );
    cluster.assert_issues(&[expected], &"512Mi too much");
    cluster.model.edit(NODE, "web-1", |node| node["status"]["allocatable"]["memory"] = json!("32Gi"));
    cluster.assert_issues(&[], &"the node has more memory");
    cluster.model.edit(NODE, "web-1", |node| node["status"]["allocatable"]["memory"] = json!("4Gi"));
    cluster.pods.get_mut("shop/a").unwrap()["status"]["phase"] = json!("Succeeded");
    cluster.pods.remove("shop/b");
    cluster.assert_issues(&[], &"finished pods do not count");
}

#[test]
fn limits_whose_sum_exceeds_64_bits_are_reported_and_removed_again() {
    let mut cluster = two_pools();
    let limited = |limit: &str| {
        let mut one = container("example.com/app:1");
        one["resources"] = json!({"requests": {"memory": limit}, "limits": {"memory": limit}});
        json!({"containers": [one, one], "overhead": {"memory": "9E"}, "tolerations": tolerated()})
    };
    cluster.pod_on("a", "web-1", limited("9E"), running());
    cluster.pod_on("b", "web-1", limited("9E"), running());
    let expected = "web MemoryOvercommitted Node web-1: has 16Gi of allocatable memory and pods with limits of more than 8Ei in total";
    cluster.assert_issues(&[(expected, "")], &"two pods of 27E each");
    cluster.pods.remove("shop/b");
    cluster.pod_on("a", "web-1", spec(json!({"tolerations": tolerated()})), running());
    cluster.assert_issues(&[], &"a removed pod is subtracted in full");
}

#[test]
fn the_template_of_a_pod_without_an_indexed_controller_is_checked() {
    let mut cluster = two_pools();
    let owned = |kind: &str, name: &str| json!({"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true}]});
    let pod = spec(json!({"nodeSelector": windows()}));
    cluster.pod("bare", json!({}), pod.clone(), json!({"phase": "Pending"}));
    cluster.pod("rollout-1", owned("ReplicaSet", "rollout"), pod.clone(), json!({"phase": "Pending"}));
    cluster.pod("deployed-1", owned("StatefulSet", "deployed"), pod, json!({"phase": "Pending"}));
    let line = |workload: &str| format!("web Unschedulable {workload}: new pods cannot be scheduled to any pool");
    cluster.assert_issues(
        &[(&line("Pod shop/bare"), ""), (&line("ReplicaSet shop/rollout"), "")],
        &"the template of a StatefulSet is checked with the StatefulSet",
    );
}
