//! What every real cluster has: of none of it anything is told.

use serde_json::{Value, json};

use crate::{
    cluster::{CONTAINERD, Cluster, container, running, spec, tolerated, town, village},
    model::{NODE, POOL, World, taints},
};

fn everything() -> Value {
    json!([{"operator": "Exists"}])
}

fn windows() -> Value {
    json!({"kubernetes.io/os": "windows"})
}

fn by_affinity(terms: Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

#[track_caller]
fn nothing_is_told_of(cluster: &Cluster, workloads: Vec<(&'static str, Value)>) {
    for (kind, fields) in workloads {
        let mut cluster = cluster.clone();
        cluster.controller(kind, spec(fields.clone()));
        cluster.tells(&[], &format!("{kind} {fields}"));
    }
}

#[test]
fn workloads_for_linux_that_say_so() {
    let linux = json!({"kubernetes.io/os": "linux"});
    nothing_is_told_of(
        &town(),
        vec![
            // kube-proxy and the agents of networks tolerate everything.
            ("DaemonSet", json!({"nodeSelector": linux, "tolerations": everything(), "hostNetwork": true})),
            ("DaemonSet", json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}, "tolerations": everything()})),
            (
                "DaemonSet",
                json!({"affinity": by_affinity(json!([expression("kubernetes.io/os", "In", &["linux"])])), "tolerations": everything()}),
            ),
            (
                "DaemonSet",
                json!({"affinity": by_affinity(json!([expression("kubernetes.io/os", "NotIn", &["windows"])])), "tolerations": everything()}),
            ),
            ("Deployment", json!({})),
            (
                "Deployment",
                json!({"tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]}),
            ),
            ("Deployment", json!({"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]})),
            ("Deployment", json!({"runtimeClassName": "gvisor"})),
            ("StatefulSet", json!({"nodeSelector": {"kubernetes.io/hostname": "linux-1"}})),
        ],
    );
    // Without taints, what leads to Linux nodes by other labels is as good.
    nothing_is_told_of(
        &village(json!({"taints": []})),
        vec![
            ("Deployment", json!({"nodeSelector": linux})),
            ("Deployment", json!({"nodeSelector": {"kubernetes.io/hostname": "linux-1"}})),
            ("Deployment", json!({"nodeName": "linux-1"})),
            (
                "DaemonSet",
                json!({"affinity": by_affinity(json!([expression("kubernetes.io/hostname", "In", &["linux-1", "linux-2"])]))}),
            ),
            ("DaemonSet", json!({"affinity": by_affinity(json!([expression("agentpool", "NotIn", &["web"])]))})),
        ],
    );
}

#[test]
fn workloads_for_linux_that_share_a_taint_with_a_pool() {
    let dedicated = json!([{"key": "dedicated", "value": "shop", "effect": "NoSchedule"}]);
    let cluster = village(json!({"taints": dedicated}));
    let tolerations = json!([{"key": "dedicated", "operator": "Exists"}]);
    nothing_is_told_of(
        &cluster,
        vec![
            ("Deployment", json!({"tolerations": tolerations, "nodeSelector": {"agentpool": "linux-shop"}})),
            ("DaemonSet", json!({"tolerations": tolerations})),
        ],
    );
    let mut waiting = cluster.clone();
    let image = "docker.io/library/nginx:1.29";
    let fields = json!({"tolerations": tolerations, "containers": [container(image)]});
    waiting.lookups.insert(image.to_owned(), crate::cluster::found(&["linux/amd64"]));
    waiting.pod("nginx", json!({}), spec(fields), json!({"phase": "Pending"}));
    waiting.tells(&[], &"the registry says that it is for Linux");
    assert_eq!(waiting.summary("web").pods, 0);
}

#[test]
fn workloads_for_windows_that_are_well_written() {
    let mut cluster = town();
    cluster.class("any", "runhcs-wcow-process", windows());
    nothing_is_told_of(
        &cluster,
        vec![
            ("Deployment", json!({"runtimeClassName": "windows-ltsc2019"})),
            ("Deployment", json!({"nodeSelector": windows(), "tolerations": tolerated()})),
            ("Deployment", json!({"nodeSelector": windows(), "tolerations": everything()})),
            (
                "Deployment",
                json!({"affinity": by_affinity(json!([expression("kubernetes.io/os", "In", &["windows"])])), "tolerations": tolerated()}),
            ),
            (
                "Deployment",
                json!({"nodeSelector": {"kubernetes.io/os": "windows", "kubernetes.io/hostname": "web-2"}, "tolerations": tolerated()}),
            ),
            (
                "Deployment",
                json!({
                    "nodeSelector": windows(), "tolerations": tolerated(),
                    "affinity": by_affinity(json!([expression("kubernetes.io/hostname", "In", &["batch-1"])])),
                }),
            ),
            (
                "Deployment",
                json!({
                    "nodeSelector": windows(), "tolerations": tolerated(),
                    "affinity": by_affinity(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["web-1"]}]}])),
                }),
            ),
            ("Deployment", json!({"nodeName": "web-1", "os": {"name": "windows"}})),
            ("DaemonSet", json!({"nodeSelector": windows(), "tolerations": everything()})),
            (
                "DaemonSet",
                json!({
                    "affinity": by_affinity(json!([expression("kubernetes.io/os", "In", &["windows"])])),
                    "tolerations": tolerated(), "runtimeClassName": "any",
                }),
            ),
            // What picks the nodes of the class by labels of its own relies on nothing.
            (
                "DaemonSet",
                json!({"nodeSelector": {"agentpool": "web"}, "tolerations": tolerated(), "runtimeClassName": "windows-ltsc2022"}),
            ),
            // Clouds ship DaemonSets for nodes that a cluster may never have.
            (
                "DaemonSet",
                json!({"nodeSelector": {"kubernetes.io/os": "windows", "accelerator": "gpu"}, "tolerations": everything()}),
            ),
        ],
    );
}

#[test]
fn what_wants_no_pod_now() {
    let bad = || spec(json!({"nodeSelector": windows()}));
    let mut cluster = town();
    cluster.named_controller("Deployment", "asleep", bad(), json!({"replicas": 0}), json!({}));
    cluster.named_controller("StatefulSet", "asleep", bad(), json!({"replicas": 0}), json!({}));
    cluster.named_controller("Job", "later", bad(), json!({"suspend": true}), json!({}));
    for condition in ["Complete", "Failed"] {
        let status = json!({"conditions": [{"type": condition, "status": "True"}]});
        cluster.named_controller("Job", &condition.to_lowercase(), bad(), json!({}), status);
    }
    cluster.tells(&[], &"nothing is to be placed");
    for phase in ["Succeeded", "Failed"] {
        cluster.pod_on(phase, "web-1", json!({"nodeSelector": windows()}), json!({"phase": phase}));
        cluster.pod_on(&format!("{phase}-linux"), "web-1", json!({"os": {"name": "linux"}}), json!({"phase": phase}));
    }
    cluster.tells(&[], &"what has ended comes back as something else");
    assert_eq!(cluster.summary("web").pods, 0);
}

#[test]
fn static_pods_are_back_whatever_the_taints() {
    let mut cluster = town();
    let mirror = json!({
        "annotations": {"kubernetes.io/config.mirror": "hash"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "web-1", "uid": "u", "controller": true}],
    });
    let fields = spec(json!({"nodeName": "web-1", "os": {"name": "windows"}, "runtimeClassName": "gone"}));
    cluster.pod("proxy-web-1", mirror, fields, running());
    cluster.tells(&[], &"a kubelet made it of a file");
    assert_eq!(cluster.summary("web").pods, 1);
}

#[test]
fn pods_that_are_nothing_to_a_pool() {
    let mut cluster = town();
    cluster.node("other-1", 17763, CONTAINERD);
    cluster.pod_on("unmarked", "web-1", json!({"tolerations": tolerated()}), running());
    cluster.pod_on("on-linux", "linux-1", json!({"tolerations": everything()}), running());
    cluster.pod_on("elsewhere", "other-1", json!({"nodeSelector": windows()}), running());
    cluster.pod("waits", json!({}), spec(json!({"nodeSelector": {"disk": "ssd"}})), json!({"phase": "Pending"}));
    cluster.pod("without-a-spec", json!({}), Value::Null, json!({}));
    cluster.tells(&[], &"each is where it should be");
    assert_eq!((cluster.summary("web").pods, cluster.summary("batch").pods), (1, 0));
}

#[test]
fn pods_that_wait_for_other_reasons() {
    let mut cluster = town();
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
        "affinity": by_affinity(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["batch-1"]}]}])),
    });
    cluster.pod("agent-x", by_daemon_set, spec(pinned), pending("0/3 nodes: 1 Insufficient cpu"));
    cluster.tells(&[], &"there is no room");
    assert_eq!(
        (cluster.summary("web").pods, cluster.summary("batch").pods),
        (1, 1),
        "each counts where it is bound for"
    );
}

#[test]
fn nodes_whose_state_passes() {
    let mut cluster = town();
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
            cluster.world.edit(NODE, name, |node| {
                node["spec"]["taints"].as_array_mut().unwrap().push(json!({"key": key, "effect": "NoSchedule"}));
            });
        }
        cluster.tells(&[], &key);
    }
}

#[test]
fn the_taint_that_a_cloud_keeps_on_its_windows_nodes_must_be_tolerated() {
    let taint = json!({"key": "node.kubernetes.io/os", "value": "windows", "effect": "NoSchedule"});
    let judged = |tolerations: Value| {
        let mut cluster = town();
        let fields = json!({"nodeSelector": windows(), "tolerations": tolerations});
        cluster.pod_on("app", "web-1", fields, running());
        for name in ["web-1", "web-2", "batch-1"] {
            cluster.world.edit(NODE, name, |node| {
                node["spec"]["taints"].as_array_mut().unwrap().push(taint.clone());
            });
        }
        cluster
    };
    let told = [("web WouldNotReturn Pod shop/app", "add the toleration, or a RuntimeClass of the pool")];
    judged(tolerated()).tells(&told, &"the pod tolerates the taints of the pool alone");
    let mut both = tolerated();
    both.as_array_mut().unwrap().push(taint.clone());
    judged(both).tells(&[], &"the pod tolerates the taint of the cloud too");
}

#[test]
fn one_node_that_somebody_tainted_by_hand() {
    let mut cluster = town();
    let fields = json!({"nodeSelector": windows(), "tolerations": tolerated()});
    cluster.pod_on("app", "web-1", fields.clone(), running());
    cluster.controller("Deployment", spec(fields.clone()));
    cluster.controller("DaemonSet", spec(fields));
    cluster.world.edit(NODE, "web-1", |node| {
        node["spec"]["taints"].as_array_mut().unwrap().push(json!({"key": "repair", "effect": "NoSchedule"}));
    });
    cluster.tells(&[], &"there is another node for what is on it");
    cluster.world.edit(NODE, "web-2", |node| {
        node["spec"]["taints"].as_array_mut().unwrap().push(json!({"key": "repair", "effect": "NoSchedule"}));
    });
    cluster.tells(
        &[("web DaemonSetNotTolerating DaemonSet", ""), ("web WouldNotReturn Pod shop/app", "")],
        &"and now there is none",
    );
}

#[test]
fn a_pool_that_only_looks() {
    let observed = village(json!({"mode": "Observe"}));
    assert_eq!(taints(observed.world.get(NODE, "web-1").unwrap()), Vec::<String>::new());
    nothing_is_told_of(
        &observed,
        vec![
            ("Deployment", json!({"nodeSelector": windows()})),
            ("DaemonSet", json!({"nodeSelector": windows()})),
            ("Deployment", json!({"nodeSelector": {"agentpool": "web", "kubernetes.io/os": "windows"}})),
        ],
    );
    let mut without_class = observed;
    without_class.controller("Deployment", spec(json!({"runtimeClassName": "windows-ltsc2022"})));
    let expected = (
        "web NoPoolTakes Deployment shop/deployment: no pool takes a new pod of it: there is no RuntimeClass windows-ltsc2022",
        "create it, or remove runtimeClassName",
    );
    without_class.tells(&[expected], &"such a pool makes no class");
}

#[test]
fn a_pool_that_has_no_nodes_yet() {
    let mut cluster = Cluster::new();
    cluster.pool("web", json!({"windowsVersion": "ltsc2022", "labels": {"team": "web"}}));
    cluster.world.settle();
    nothing_is_told_of(
        &cluster,
        vec![
            ("Deployment", json!({"runtimeClassName": "windows-ltsc2022"})),
            // Its nodes may have labels that nobody knows yet.
            (
                "Deployment",
                json!({"runtimeClassName": "windows-ltsc2022", "nodeSelector": {"topology.kubernetes.io/zone": "a"}}),
            ),
            (
                "Deployment",
                json!({
                    "runtimeClassName": "windows-ltsc2022",
                    "affinity": by_affinity(json!([expression("topology.kubernetes.io/zone", "In", &["a", "b"])])),
                }),
            ),
            ("DaemonSet", json!({"nodeSelector": windows(), "tolerations": tolerated()})),
            ("Deployment", json!({"tolerations": everything()})),
        ],
    );
    cluster.controller(
        "Deployment",
        spec(json!({"nodeSelector": {"kubernetes.io/os": "windows", "team": "batch"}, "tolerations": tolerated()})),
    );
    cluster.tells(
        &[("web NoPoolTakes", "those of pool web not team=batch: correct the selector")],
        &"what it will not have",
    );
}

#[test]
fn a_class_that_its_pool_is_about_to_make() {
    let mut cluster = Cluster::new();
    cluster.node("web-1", 20348, CONTAINERD);
    cluster.pool("web", json!({"windowsVersion": "ltsc2022"}));
    cluster.controller("Deployment", spec(json!({"runtimeClassName": "windows-ltsc2022"})));
    cluster.tells(&[], &"pool and Deployment were applied together");
    cluster.world.settle();
    cluster.tells(&[], &"and a moment later the class is there");
}

#[test]
fn windows_nodes_in_no_pool() {
    let mut cluster = town();
    cluster.node("legacy-1", 17763, CONTAINERD);
    nothing_is_told_of(
        &cluster,
        vec![
            ("Deployment", json!({"nodeSelector": {"kubernetes.io/os": "windows", "agentpool": "legacy"}})),
            ("Deployment", json!({"nodeSelector": windows()})),
            (
                "Deployment",
                json!({"nodeSelector": {"kubernetes.io/os": "windows", "kubernetes.io/hostname": "legacy-1"}}),
            ),
            ("DaemonSet", json!({"nodeSelector": {"kubernetes.io/os": "windows", "agentpool": "legacy"}})),
        ],
    );
}

#[test]
fn nodes_that_report_nothing() {
    let mut cluster = village(json!({}));
    for name in ["web-1", "web-2"] {
        cluster.world.edit(NODE, name, |node| {
            node["status"] = json!({});
            node["metadata"]["labels"].as_object_mut().unwrap().remove("node.kubernetes.io/windows-build");
        });
    }
    let image = "mcr.microsoft.com/windows/servercore:ltsc2019";
    cluster.pod_on("app", "web-1", json!({"containers": [container(image)], "nodeSelector": windows()}), json!({}));
    cluster.tells(&[], &"nobody knows what they run");
    assert_eq!(cluster.summary("web").pods, 1);
}

#[test]
fn a_cluster_without_pools() {
    let mut cluster = Cluster { world: World::new(), ..town() };
    cluster.controller("DaemonSet", spec(json!({"runtimeClassName": "windows-ltsc2022"})));
    cluster.pod_on("app", "web-1", json!({"nodeSelector": windows()}), running());
    assert!(cluster.world.names(POOL).is_empty());
    cluster.tells(&[], &"there is nowhere to tell anything");
}

#[test]
fn nodes_that_each_have_a_label_of_their_own() {
    let mut cluster = Cluster::new();
    for number in 0..40 {
        let name = format!("web-{number}");
        cluster.node(&name, 20348, CONTAINERD);
        cluster.world.edit(NODE, &name, |node| node["metadata"]["labels"]["machine"] = json!(format!("i-{number}")));
    }
    cluster.pool("web", json!({"windowsVersion": "ltsc2022"}));
    cluster.world.settle();
    assert_eq!(cluster.ground().pools[0].kinds.len(), 1, "they are of one kind");
    let selector = json!({"kubernetes.io/os": "windows", "machine": "i-7"});
    let pinned = json!({"nodeSelector": selector, "tolerations": tolerated()});
    nothing_is_told_of(&cluster, vec![("Deployment", spec(pinned.clone())), ("DaemonSet", spec(pinned))]);
}
