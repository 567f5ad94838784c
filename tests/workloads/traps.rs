//! Every trap, told at the pool that it concerns and with its remedy; and its twin, of which nothing is told.

use serde_json::{Value, json};

use crate::{
    cluster::{CONTAINERD, Cluster, container, merge, running, spec, tolerated, town, village},
    model::{CLASS, NODE},
};

/// A trap: what makes the pods, the spec of a pod, how what is told begins and ends, and the fields that mend it.
type Trap = (&'static str, Value, (&'static str, &'static str), Value);

#[track_caller]
fn each_is_told_and_mended(cluster: &Cluster, traps: Vec<Trap>) {
    for (kind, fields, expected, mend) in traps {
        let mut bad = cluster.clone();
        bad.controller(kind, spec(fields.clone()));
        bad.tells(&[expected], &format!("{kind} {fields}"));
        let mut good = cluster.clone();
        let mut mended = fields;
        merge(&mut mended, mend);
        good.controller(kind, spec(mended.clone()));
        good.tells(&[], &format!("{kind} {mended}, mended"));
    }
}

fn windows() -> Value {
    json!({"kubernetes.io/os": "windows"})
}

#[test]
fn what_no_pool_takes_is_told_at_the_pool_that_comes_nearest() {
    let mut cluster = town();
    cluster.class("mine", "docker", json!({"kubernetes.io/os": "windows", "agentpool": "batch"}));
    each_is_told_and_mended(
        &cluster,
        vec![
            (
                "Deployment",
                json!({"runtimeClassName": "windows-ltsc2025"}),
                (
                    "web NoPoolTakes Deployment shop/deployment: no pool takes a new pod of it: there is no RuntimeClass",
                    "windows-ltsc2025: name one of windows-ltsc2022, windows-ltsc2019",
                ),
                json!({"runtimeClassName": "windows-ltsc2022"}),
            ),
            (
                "StatefulSet",
                json!({"runtimeClassName": "windows-ltsc2022", "nodeSelector": {"node.kubernetes.io/windows-build": "10.0.17763"}}),
                (
                    "web NoPoolTakes StatefulSet shop/statefulset: no pool takes a new pod of it: it selects node.kubernetes.io/windows-build=10.0.17763",
                    "RuntimeClass windows-ltsc2022 selects node.kubernetes.io/windows-build=10.0.20348, so it is refused: remove one of the two",
                ),
                json!({"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348"}}),
            ),
            (
                "Job",
                json!({"nodeSelector": {"kubernetes.io/os": "windows", "agentpool": "batch", "disk": "ssd"}, "tolerations": tolerated()}),
                (
                    "batch NoPoolTakes Job shop/job: no pool takes a new pod of it: no node has all that it selects",
                    "those of pool batch not disk=ssd: correct the selector",
                ),
                json!({"nodeSelector": {"kubernetes.io/os": "windows", "agentpool": "batch"}}),
            ),
            (
                "Deployment",
                json!({"nodeSelector": windows()}),
                (
                    "web NoPoolTakes Deployment shop/deployment: no pool takes a new pod of it: it does not tolerate os=windows:NoSchedule of pool web",
                    "add the toleration, or runtimeClassName: windows-ltsc2022",
                ),
                json!({"tolerations": tolerated()}),
            ),
            (
                "Deployment",
                json!({"runtimeClassName": "mine"}),
                (
                    "batch NoPoolTakes Deployment shop/deployment: no pool takes a new pod of it: the container runtime of pool batch has no handler docker",
                    "only runhcs-wcow-process, runhcs-wcow-hypervisor: use a class with one of these",
                ),
                json!({"runtimeClassName": "windows-ltsc2019"}),
            ),
        ],
    );
}

#[test]
fn what_the_daemon_set_controller_does_not_do_is_told() {
    each_is_told_and_mended(
        &town(),
        vec![
            (
                "DaemonSet",
                json!({"runtimeClassName": "windows-ltsc2019"}),
                (
                    "batch DaemonSetIgnoresRuntimeClass DaemonSet shop/daemonset: relies on RuntimeClass windows-ltsc2019",
                    "write kubernetes.io/arch=amd64, kubernetes.io/os=windows, node.kubernetes.io/windows-build=10.0.17763 into the nodeSelector of its template, and the tolerations of the class",
                ),
                json!({
                    "nodeSelector": {"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.17763"},
                    "tolerations": tolerated(),
                }),
            ),
            (
                "DaemonSet",
                json!({"nodeSelector": {"kubernetes.io/os": "windows", "agentpool": "batch"}}),
                (
                    "batch DaemonSetNotTolerating DaemonSet shop/daemonset: selects nodes of pool batch and gets no pod there",
                    "it does not tolerate os=windows:NoSchedule: add the toleration to its template",
                ),
                json!({"tolerations": [{"operator": "Exists"}]}),
            ),
            (
                // The tolerations of its class come too late.
                "DaemonSet",
                json!({
                    "runtimeClassName": "windows-ltsc2022",
                    "nodeSelector": {"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"},
                }),
                (
                    "web DaemonSetNotTolerating DaemonSet shop/daemonset: selects nodes of pool web and gets no pod there",
                    "add the toleration to its template",
                ),
                json!({"tolerations": tolerated()}),
            ),
        ],
    );
}

#[test]
fn what_goes_by_a_class_is_told_at_the_pool_that_makes_it() {
    let mut cluster = town();
    // The older pool has a node of the other's build too.
    cluster.node("web-3", 17763, CONTAINERD);
    cluster.world.settle();
    let class = json!({"runtimeClassName": "windows-ltsc2019"});
    cluster.controller("DaemonSet", spec(class.clone()));
    cluster.tells(&[("batch DaemonSetIgnoresRuntimeClass", "the tolerations of the class")], &"and not at pool web");
    cluster.pod("app", json!({}), spec(class), json!({"phase": "Pending"}));
    assert_eq!((cluster.summary("web").pods, cluster.summary("batch").pods), (0, 1));
}

#[test]
fn a_daemon_set_is_told_of_at_every_pool_that_it_misses() {
    let mut cluster = town();
    cluster.controller("DaemonSet", spec(json!({"nodeSelector": windows()})));
    let told = |pool| format!("{pool} DaemonSetNotTolerating DaemonSet shop/daemonset: selects nodes of pool {pool}");
    cluster.tells(&[(&told("batch"), ""), (&told("web"), "")], &"both");
}

#[test]
fn a_workload_for_linux_that_nothing_keeps_off_is_told_at_every_pool_where_it_may_land() {
    let everything = json!([{"operator": "Exists"}]);
    let traps = |kind| {
        vec![
            (
                kind,
                json!({"tolerations": everything}),
                (
                    "web LinuxPodMayLand",
                    "does not say which system it is for, and nothing keeps its pods off the nodes of this pool: select kubernetes.io/os=linux",
                ),
                json!({"nodeSelector": {"kubernetes.io/os": "linux"}}),
            ),
            (
                kind,
                json!({"tolerations": everything, "os": {"name": "linux"}}),
                (
                    "web LinuxPodMayLand",
                    "is for Linux, and nothing keeps its pods off the nodes of this pool: select kubernetes.io/os=linux too",
                ),
                json!({"tolerations": []}),
            ),
        ]
    };
    for kind in ["Deployment", "DaemonSet", "StatefulSet", "Job"] {
        each_is_told_and_mended(&village(json!({})), traps(kind));
    }
    // A pool that asks for no taint is open to everything that selects nothing.
    let open = village(json!({"taints": []}));
    each_is_told_and_mended(
        &open,
        vec![(
            "Deployment",
            json!({}),
            ("web LinuxPodMayLand", "select kubernetes.io/os=linux"),
            json!({"nodeSelector": {"disk": "ssd"}}),
        )],
    );
}

#[test]
fn memory_that_is_not_reserved_is_worth_a_look() {
    let class = |container: Value| json!({"runtimeClassName": "windows-ltsc2022", "containers": [container]});
    let resources = |requests: Value, limits: Value| {
        let mut one = container("example.com/app:1");
        one["resources"] = json!({"requests": requests, "limits": limits});
        class(one)
    };
    let mended = class(container("example.com/app:1"));
    each_is_told_and_mended(
        &town(),
        vec![
            (
                "Deployment",
                resources(json!({}), json!({})),
                (
                    "web MemoryNotReserved Deployment shop/deployment: container app has no memory limit",
                    "set one, and request as much",
                ),
                mended.clone(),
            ),
            (
                "Deployment",
                resources(json!({"memory": "512Mi"}), json!({"memory": "2Gi"})),
                (
                    "web MemoryNotReserved Deployment shop/deployment: container app requests 512Mi of memory and may take 2Gi",
                    "request as much as the limit",
                ),
                // A request that is left out is as much as the limit.
                resources(json!({}), json!({"memory": "2Gi"})),
            ),
        ],
    );
}

#[test]
fn what_a_namespace_gives_to_containers_counts_as_their_own() {
    let class =
        json!({"runtimeClassName": "windows-ltsc2022", "containers": [{"name": "app", "image": "example.com/app:1"}]});
    let expected = |end: &'static str| vec![("web MemoryNotReserved Deployment shop/deployment: container app", end)];
    let table = [
        (None, expected("has no memory limit: Windows pages instead of killing: set one, and request as much")),
        (Some(("1Gi", "2Gi")), expected("request as much as the limit")),
        (Some(("2Gi", "2Gi")), vec![]),
    ];
    for (defaults, expected) in table {
        let mut cluster = town();
        cluster.controller("Deployment", class.clone());
        cluster.defaults = defaults;
        cluster.tells(&expected, &format!("{defaults:?}"));
    }
}

#[test]
fn a_linux_pod_on_a_windows_node_is_told_until_it_is_gone() {
    let mut cluster = town();
    cluster.pod_on("stray", "batch-1", json!({"nodeSelector": {"kubernetes.io/os": "linux"}}), running());
    let expected = ("batch LinuxPodOnWindowsNode Pod shop/stray: is for Linux and on a Windows node", "in its spec");
    cluster.tells(&[expected], &"a pod whose node somebody named");
    cluster.pods.clear();
    cluster.pod_on("stray", "linux-1", json!({"nodeSelector": {"kubernetes.io/os": "linux"}}), running());
    cluster.tells(&[], &"the same on a Linux node");
}

#[test]
fn what_runs_and_would_not_come_back_is_told_before_it_restarts() {
    let would_not = |pool: &str| {
        format!(
            "{pool} WouldNotReturn Pod shop/app: runs, and would not come back after a restart: it does not tolerate os=windows:NoSchedule"
        )
    };
    let remedy = "add the toleration, or a RuntimeClass of the pool";
    let mut cluster = town();
    cluster.pod_on("app", "web-1", json!({"nodeSelector": windows()}), running());
    cluster.tells(&[(&would_not("web"), remedy)], &"it was there before the taint");
    let stamped = json!({
        "runtimeClassName": "windows-ltsc2022", "tolerations": tolerated(), "nodeSelector": {
            "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": "10.0.20348",
        },
    });
    cluster.pod_on("app", "web-1", stamped, running());
    cluster.tells(&[], &"its class tolerates");
    cluster.world.delete(CLASS, "windows-ltsc2022");
    cluster.tells(&[], &"a class that the pool is about to make again");

    // A pool that only looks sets no taint: what would be is told as such.
    let mut observed = village(json!({"mode": "Observe"}));
    observed.pod_on("app", "web-1", json!({"nodeSelector": windows()}), running());
    observed.tells(&[(&format!("{}, once the pool enforces it", would_not("web")), remedy)], &"withheld taints");
    observed.pod_on("app", "web-1", json!({"nodeSelector": windows(), "runtimeClassName": "mine"}), running());
    observed.tells(
        &[(
            "web WouldNotReturn Pod shop/app: a restart would be its last: there is no RuntimeClass mine",
            "or remove runtimeClassName",
        )],
        &"a class that is gone",
    );
}

#[test]
fn a_pod_that_carries_its_class_as_it_was_is_told_when_the_class_leads_elsewhere() {
    let mut cluster = town();
    cluster.class("app", "runhcs-wcow-process", json!({"kubernetes.io/os": "windows", "agentpool": "batch"}));
    let stamped = json!({
        "runtimeClassName": "app", "nodeSelector": {"kubernetes.io/os": "windows", "agentpool": "batch"},
        "tolerations": tolerated(),
    });
    cluster.pod_on("app", "batch-1", stamped, running());
    cluster.tells(&[], &"as its class has it");
    cluster.class("app", "runhcs-wcow-process", json!({"kubernetes.io/os": "windows", "agentpool": "web"}));
    let expected =
        "batch RuntimeClassChanged Pod shop/app: was created when RuntimeClass app selected agentpool=batch, now web";
    cluster.tells(&[(expected, "restart it to move it")], &"the class leads to another pool");
    cluster.class(
        "app",
        "runhcs-wcow-process",
        json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.17763"}),
    );
    cluster.tells(&[], &"the class says in other words what its node has");
}

#[test]
fn memory_limits_are_held_against_what_each_node_offers() {
    let mut cluster = town();
    let with_limit = |limit: &str| {
        let mut one = container("example.com/app:1");
        one["resources"] = json!({"requests": {"memory": limit}, "limits": {"memory": limit}});
        json!({"containers": [one], "tolerations": tolerated()})
    };
    cluster.pod_on("a", "web-1", with_limit("8Gi"), running());
    cluster.pod_on("b", "web-1", with_limit("8Gi"), running());
    cluster.pod_on("c", "web-2", with_limit("8Gi"), running());
    cluster.tells(&[], &"all that the nodes have");
    cluster.pod_on("c", "web-1", with_limit("512Mi"), running());
    let expected = (
        "web MemoryOvercommitted Node web-1: offers 16Gi to pods whose limits add up to",
        "lower the limits, or spread the pods",
    );
    cluster.tells(&[expected], &"half a gibibyte too much");
    cluster.world.edit(NODE, "web-1", |node| node["status"]["allocatable"]["memory"] = json!("32Gi"));
    cluster.tells(&[], &"the node has grown");
    cluster.world.edit(NODE, "web-1", |node| node["status"]["allocatable"]["memory"] = json!("4Gi"));
    cluster.pods.get_mut("shop/a").unwrap()["status"]["phase"] = json!("Succeeded");
    cluster.pods.remove("shop/b");
    cluster.tells(&[], &"what has ended takes nothing");
}

#[test]
fn limits_whose_sum_exceeds_64_bits_are_reported_and_removed_again() {
    let mut cluster = town();
    let limited = |limit: &str| {
        let mut one = container("example.com/app:1");
        one["resources"] = json!({"requests": {"memory": limit}, "limits": {"memory": limit}});
        json!({"containers": [one, one], "overhead": {"memory": "9E"}, "tolerations": tolerated()})
    };
    cluster.pod_on("a", "web-1", limited("9E"), running());
    cluster.pod_on("b", "web-1", limited("9E"), running());
    let expected = "web MemoryOvercommitted Node web-1: offers 16Gi to pods whose limits add up to more than 8Ei";
    cluster.tells(&[(expected, "")], &"two pods of 27E each");
    cluster.pods.remove("shop/b");
    cluster.pod_on("a", "web-1", spec(json!({"tolerations": tolerated()})), running());
    cluster.tells(&[], &"what went is subtracted in full");
}

#[test]
fn a_pod_of_a_controller_that_nobody_reads_is_judged_itself() {
    let mut cluster = town();
    let owned = |kind: &str, name: &str| json!({"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true}]});
    let pod = spec(json!({"nodeSelector": windows()}));
    cluster.pod("bare", json!({}), pod.clone(), json!({"phase": "Pending"}));
    cluster.pod("rollout-1", owned("ReplicaSet", "rollout"), pod.clone(), json!({"phase": "Pending"}));
    cluster.pod("deployed-1", owned("StatefulSet", "deployed"), pod, json!({"phase": "Pending"}));
    let line = |workload: &str| format!("web NoPoolTakes {workload}: no pool takes a new pod of it");
    cluster.tells(
        &[(&line("Pod shop/bare"), ""), (&line("ReplicaSet shop/rollout"), "")],
        &"the StatefulSet is read, and would be told of itself",
    );
}
