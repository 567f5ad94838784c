//! Common workloads without issues.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Value, json};

use winpool_model::{
    Model, NODE, POOL, taints,
    workloads::{CONTAINERD, Cluster, container, one_pool, running, spec, tolerated, two_pools},
};

/// Kind and fields of pods, by the name of the list.
static LISTS: LazyLock<BTreeMap<String, Vec<(String, Value)>>> =
    LazyLock::new(|| serde_saphyr::from_str(include_str!("no_issues.yaml")).unwrap());

fn everything() -> Value {
    json!([{"operator": "Exists"}])
}

fn windows() -> Value {
    json!({"kubernetes.io/os": "windows"})
}

#[track_caller]
fn assert_no_issues(cluster: &Cluster, list: &str) {
    for (kind, fields) in &LISTS[list] {
        let mut cluster = cluster.clone();
        cluster.controller(kind, spec(fields.clone()));
        cluster.assert_issues(&[], &format!("{kind} {fields}"));
    }
}

#[test]
fn linux_workloads_that_select_linux() {
    assert_no_issues(&two_pools(), "linux-in-two-pools");
    assert_no_issues(&one_pool(json!({"taints": []})), "linux-without-taints");
}

#[test]
fn linux_workloads_that_tolerate_a_taint_of_a_pool() {
    let dedicated = json!([{"key": "dedicated", "value": "shop", "effect": "NoSchedule"}]);
    let cluster = one_pool(json!({"taints": dedicated}));
    let tolerations = json!([{"key": "dedicated", "operator": "Exists"}]);
    assert_no_issues(&cluster, "linux-with-a-taint-of-a-pool");
    let mut waiting = cluster;
    let image = "docker.io/library/nginx:1.29";
    let fields = json!({"tolerations": tolerations, "containers": [container(image)]});
    waiting.lookups.insert(image.to_owned(), winpool_model::workloads::found(&["linux/amd64"]));
    waiting.pod("nginx", json!({}), spec(fields), json!({"phase": "Pending"}));
    waiting.assert_issues(&[], &"the image is for Linux");
    assert_eq!(waiting.summary("web").pods, 0);
}

#[test]
fn windows_workloads_that_select_and_tolerate_their_nodes() {
    let mut cluster = two_pools();
    cluster.class("any", "runhcs-wcow-process", windows());
    assert_no_issues(&cluster, "windows");
}

#[test]
fn inactive_controllers() {
    let bad = || spec(json!({"nodeSelector": windows()}));
    let mut cluster = two_pools();
    cluster.named_controller("Deployment", "scaled-down", bad(), json!({"replicas": 0}));
    cluster.named_controller("StatefulSet", "scaled-down", bad(), json!({"replicas": 0}));
    cluster.named_controller("Job", "suspended", bad(), json!({"suspend": true}));
    cluster.assert_issues(&[], &"no pods are created");
    for phase in ["Succeeded", "Failed"] {
        cluster.pod_on(phase, "web-1", json!({"nodeSelector": windows()}), json!({"phase": phase}));
        cluster.pod_on(&format!("{phase}-linux"), "web-1", json!({"os": {"name": "linux"}}), json!({"phase": phase}));
    }
    cluster.assert_issues(&[], &"finished pods are not checked");
    assert_eq!(cluster.summary("web").pods, 0);
}

#[test]
fn static_pods_ignore_taints() {
    let mut cluster = two_pools();
    let mirror = json!({
        "annotations": {"kubernetes.io/config.mirror": "hash"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "web-1", "uid": "u", "controller": true}],
    });
    let fields = spec(json!({"nodeName": "web-1", "os": {"name": "windows"}, "runtimeClassName": "missing"}));
    cluster.pod("proxy-web-1", mirror, fields, running());
    cluster.assert_issues(&[], &"a static pod");
    assert_eq!(cluster.summary("web").pods, 1);
}

#[test]
fn pods_outside_pools() {
    let mut cluster = two_pools();
    cluster.node("other-1", 17763, CONTAINERD);
    cluster.pod_on("unmarked", "web-1", json!({"tolerations": tolerated()}), running());
    cluster.pod_on("on-linux", "linux-1", json!({"tolerations": everything()}), running());
    cluster.pod_on("elsewhere", "other-1", json!({"nodeSelector": windows()}), running());
    cluster.pod("pending", json!({}), spec(json!({"nodeSelector": {"disk": "ssd"}})), json!({"phase": "Pending"}));
    cluster.pod("without-a-spec", json!({}), Value::Null, json!({}));
    cluster.assert_issues(&[], &"each pod is on a node that it selects");
    assert_eq!((cluster.summary("web").pods, cluster.summary("batch").pods), (1, 0));
}

#[test]
fn pods_that_are_pending_for_other_reasons() {
    let mut cluster = two_pools();
    let pending = |message: &str| json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]});
    cluster.pod(
        "large",
        json!({}),
        spec(json!({"runtimeClassName": "windows-ltsc2022"})),
        pending("0/3 nodes: 2 Insufficient memory"),
    );
    let by_daemon_set = json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": true}]});
    let pinned = json!({
        "nodeSelector": windows(), "tolerations": everything(),
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["batch-1"]}]},
        ]}}},
    });
    cluster.pod("agent-x", by_daemon_set, spec(pinned), pending("0/3 nodes: 1 Insufficient cpu"));
    cluster.assert_issues(&[], &"insufficient resources");
    assert_eq!(
        (cluster.summary("web").pods, cluster.summary("batch").pods),
        (1, 1),
        "each pod counts in the pool that it can be scheduled to"
    );
}

#[test]
fn nodes_with_transient_taints() {
    let mut cluster = two_pools();
    let fields = json!({"runtimeClassName": "windows-ltsc2022", "nodeSelector": windows(), "tolerations": tolerated()});
    cluster.pod_on("app", "web-1", fields.clone(), running());
    cluster.controller("Deployment", spec(fields));
    cluster.controller("DaemonSet", spec(json!({"nodeSelector": windows(), "tolerations": tolerated()})));
    for key in [
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/not-ready",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
        "startup-taint.cluster-autoscaler.kubernetes.io/agent",
    ] {
        let mut cluster = cluster.clone();
        for name in ["web-1", "web-2", "batch-1"] {
            cluster.model.edit(NODE, name, |node| {
                node["spec"]["taints"].as_array_mut().unwrap().push(json!({"key": key, "effect": "NoSchedule"}));
            });
        }
        cluster.assert_issues(&[], &key);
    }
}

#[test]
fn the_permanent_taint_of_a_cloud_must_be_tolerated() {
    let taint = json!({"key": "node.kubernetes.io/os", "value": "windows", "effect": "NoSchedule"});
    let with_tolerations = |tolerations: Value| {
        let mut cluster = two_pools();
        let fields = json!({"nodeSelector": windows(), "tolerations": tolerations});
        cluster.pod_on("app", "web-1", fields, running());
        for name in ["web-1", "web-2", "batch-1"] {
            cluster.model.edit(NODE, name, |node| {
                node["spec"]["taints"].as_array_mut().unwrap().push(taint.clone());
            });
        }
        cluster
    };
    let expected = [("web NotReschedulable Pod shop/app", "Add the toleration, or use a RuntimeClass of the pool")];
    with_tolerations(tolerated()).assert_issues(&expected, &"the pod tolerates only the taints of the pool");
    let mut both = tolerated();
    both.as_array_mut().unwrap().push(taint.clone());
    with_tolerations(both).assert_issues(&[], &"the pod tolerates the taint of the cloud too");
}

#[test]
fn one_node_with_a_manual_taint() {
    let mut cluster = two_pools();
    let fields = json!({"nodeSelector": windows(), "tolerations": tolerated()});
    cluster.pod_on("app", "web-1", fields.clone(), running());
    cluster.controller("Deployment", spec(fields.clone()));
    cluster.controller("DaemonSet", spec(fields));
    cluster.model.edit(NODE, "web-1", |node| {
        node["spec"]["taints"].as_array_mut().unwrap().push(json!({"key": "repair", "effect": "NoSchedule"}));
    });
    cluster.assert_issues(&[], &"another node has no such taint");
    cluster.model.edit(NODE, "web-2", |node| {
        node["spec"]["taints"].as_array_mut().unwrap().push(json!({"key": "repair", "effect": "NoSchedule"}));
    });
    cluster.assert_issues(
        &[("web DaemonSetNotTolerating DaemonSet", ""), ("web NotReschedulable Pod shop/app", "")],
        &"no node is left without the taint",
    );
}

#[test]
fn a_pool_in_mode_observe() {
    let observed = one_pool(json!({"mode": "Observe"}));
    assert_eq!(taints(observed.model.get(NODE, "web-1").unwrap()), Vec::<String>::new());
    assert_no_issues(&observed, "in-mode-observe");
    let mut without_class = observed;
    without_class.controller("Deployment", spec(json!({"runtimeClassName": "windows-ltsc2022"})));
    let expected = (
        "web Unschedulable Deployment shop/deployment: new pods cannot be scheduled to any pool: RuntimeClass windows-ltsc2022 does not exist",
        ". Create it, or remove runtimeClassName",
    );
    without_class.assert_issues(&[expected], &"a pool in mode Observe creates no class");
}

#[test]
fn a_pool_without_nodes() {
    let mut cluster = Cluster::new();
    cluster.pool("web", json!({"windowsVersion": "ltsc2022", "labels": {"team": "web"}}));
    cluster.model.converge();
    assert_no_issues(&cluster, "of-a-pool-without-nodes");
    cluster.controller(
        "Deployment",
        spec(json!({"nodeSelector": {"kubernetes.io/os": "windows", "team": "batch"}, "tolerations": tolerated()})),
    );
    cluster.assert_issues(
        &[("web Unschedulable", "the nodes of pool web do not have team=batch. Correct nodeSelector or affinity")],
        &"a label with another value in the spec of the pool",
    );
}

#[test]
fn a_class_that_its_pool_is_about_to_create() {
    let mut cluster = Cluster::new();
    cluster.node("web-1", 20348, CONTAINERD);
    cluster.pool("web", json!({"windowsVersion": "ltsc2022"}));
    cluster.controller("Deployment", spec(json!({"runtimeClassName": "windows-ltsc2022"})));
    cluster.assert_issues(&[], &"pool and Deployment were applied together");
    cluster.model.converge();
    cluster.assert_issues(&[], &"the pool created the class");
}

#[test]
fn windows_nodes_in_no_pool() {
    let mut cluster = two_pools();
    cluster.node("legacy-1", 17763, CONTAINERD);
    assert_no_issues(&cluster, "for-nodes-in-no-pool");
}

#[test]
fn nodes_without_a_reported_version() {
    let mut cluster = one_pool(json!({}));
    for name in ["web-1", "web-2"] {
        cluster.model.edit(NODE, name, |node| {
            node["status"] = json!({});
            node["metadata"]["labels"].as_object_mut().unwrap().remove("node.kubernetes.io/windows-build");
        });
    }
    let image = "mcr.microsoft.com/windows/servercore:ltsc2019";
    cluster.pod_on("app", "web-1", json!({"containers": [container(image)], "nodeSelector": windows()}), json!({}));
    cluster.assert_issues(&[], &"the version of the nodes is unknown");
    assert_eq!(cluster.summary("web").pods, 1);
}

#[test]
fn a_cluster_without_pools() {
    let mut cluster = Cluster { model: Model::new(), ..two_pools() };
    cluster.controller("DaemonSet", spec(json!({"runtimeClassName": "windows-ltsc2022"})));
    cluster.pod_on("app", "web-1", json!({"nodeSelector": windows()}), running());
    assert!(cluster.model.names(POOL).is_empty());
    cluster.assert_issues(&[], &"no pool reports issues");
}

#[test]
fn nodes_with_individual_labels() {
    let mut cluster = Cluster::new();
    for number in 0..40 {
        let name = format!("web-{number}");
        cluster.node(&name, 20348, CONTAINERD);
        cluster.model.edit(NODE, &name, |node| node["metadata"]["labels"]["machine"] = json!(format!("i-{number}")));
    }
    cluster.pool("web", json!({"windowsVersion": "ltsc2022"}));
    cluster.model.converge();
    assert_eq!(cluster.state().pools[0].groups.len(), 1, "the nodes are alike");
    assert_no_issues(&cluster, "for-one-label-of-a-node");
}
