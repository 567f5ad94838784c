//! The cost of checking the workloads of a large cluster with 5,000 nodes and 150,000 pods. The results are printed
//! only.

#![allow(clippy::disallowed_methods, clippy::print_stdout)] // I/O, and time
#![allow(clippy::unwrap_used)] // an error ends the benchmark

use std::{
    fs,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use winpool_core::node::WindowsNode;
use winpool_rules::{
    known_issues,
    operation::Done,
    pool::{Pool, RuntimeClassView, Snapshot, plan::Planner},
    status::pool::report,
};
use winpool_workload::{Shared, WorkloadIndex};

const POOLS: usize = 10;
const NODES: usize = 5_000;
const PODS: usize = 150_000;
/// The number of pods of a workload.
const REPLICAS: usize = 50;
/// The number of changed pods.
const EVENTS: usize = 20_000;

fn main() {
    let snapshot = cluster();
    let mut shared = Shared::default();
    let begin = Instant::now();
    let pods: Vec<Arc<winpool_workload::Pod>> =
        (0..PODS).map(|number| Arc::new(read(number, true, &mut shared))).collect();
    print_result("reading 150,000 pods", "none", begin.elapsed());
    println!("{:<58} {:>9.1} MB   (goal: 300 MB)", "resident memory with these and 5,000 nodes", resident());

    let mut index = WorkloadIndex::default();
    let begin = Instant::now();
    index.set_state(snapshot.scheduling_state());
    for pod in &pods {
        index.set_pod(&pod.key.clone(), Some(pod.clone()));
    }
    black_box((0..POOLS).map(|pool| index.summary(&format!("pool-{pool}"))).collect::<Vec<_>>());
    print_result("first check of all workloads", "5 s", begin.elapsed());
    drop(pods);
    println!("{:<58} {:>9.1} MB   (goal: 300 MB)", "resident memory with the results", resident());

    known_issues(&snapshot, &index);

    let changed: Vec<Arc<winpool_workload::Pod>> =
        (0..EVENTS).map(|event| Arc::new(read(event * 7 % PODS, event % 2 == 0, &mut shared))).collect();
    let begin = Instant::now();
    for pod in changed {
        index.set_pod(&pod.key.clone(), Some(pod));
    }
    let each = begin.elapsed() / u32::try_from(EVENTS).unwrap();
    println!("{:<58} {:>9.1} us   (goal: 50 us)", "the check of one changed pod", each.as_secs_f64() * 1e6);
    let begin = Instant::now();
    index.set_state(Snapshot::default().scheduling_state());
    index.set_state(snapshot.scheduling_state());
    print_result("checking all workloads again, twice", "none", begin.elapsed());
}

/// The known issues of all pools, beside a reconcile of all without changes: planning and reporting, which find them too.
fn known_issues(snapshot: &Snapshot, index: &WorkloadIndex) {
    let planner = Planner::new(snapshot);
    let pools: Vec<_> = (0..POOLS).map(|number| format!("pool-{number}")).collect();
    let begin = Instant::now();
    for pool in &pools {
        black_box(known_issues::check(planner.members(pool), Some(&index.summary(pool))));
    }
    let checks = begin.elapsed();
    print_result("known issues of 10 pools with 50,000 pods", "none", checks);
    let done = Done { results: Vec::new(), complete: true };
    let begin = Instant::now();
    for pool in &pools {
        black_box(report(snapshot, &planner.plan(pool).unwrap().with_outcomes(&done), &done));
    }
    let share = checks.as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0;
    println!("{:<58} {share:>9.1} %    (goal: none)", "  of the time to plan and report these pools");
}

fn print_result(what: &str, goal: &str, elapsed: Duration) {
    println!("{what:<58} {:>9.1} ms   (goal: {goal})", elapsed.as_secs_f64() * 1000.0);
}

/// The resident memory of this process in megabytes.
fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
}

/// Reconciled pools with their classes and nodes.
fn cluster() -> Snapshot {
    let pools = (0..POOLS).map(|number| {
        let name = format!("pool-{number}");
        let spec = json!({
            "windowsVersion": "ltsc2022",
            "nodeSelector": {"matchLabels": {"agentpool": name}},
            "runtimeClasses": [{"name": format!("windows-{number}")}],
        });
        Pool::from_object(parse(json!({"metadata": {"name": name}, "spec": spec})))
    });
    let classes = (0..POOLS).map(|number| {
        let class = json!({
            "metadata": {"name": format!("windows-{number}")},
            "handler": "runhcs-wcow-process",
            "scheduling": {
                "nodeSelector": {"kubernetes.io/os": "windows", "winpool.dev/pool": format!("pool-{number}")},
                "tolerations": [{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}],
            },
        });
        RuntimeClassView::from(parse::<k8s_openapi::api::node::v1::RuntimeClass>(class))
    });
    Snapshot {
        pools: pools.collect(),
        runtime_classes: classes.collect(),
        nodes: (0..NODES).map(node).collect(),
        ..Snapshot::default()
    }
}

fn node(number: usize) -> WindowsNode {
    let pool = format!("pool-{}", number % POOLS);
    parse::<k8s_openapi::api::core::v1::Node>(json!({
        "metadata": {"name": format!("win-{number}"), "labels": {
            "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": format!("win-{number}"),
            "node.kubernetes.io/windows-build": "10.0.20348", "agentpool": pool, "winpool.dev/pool": pool,
            "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
        }},
        "spec": {"taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "7", "memory": "28Gi", "pods": "110"},
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "containerd://2.1.4", "kernelVersion": "10.0.20348.4529",
                "kubeProxyVersion": "v1.34.2", "kubeletVersion": "v1.34.2", "machineID": "", "operatingSystem": "windows",
                "osImage": "Windows Server 2022 Datacenter", "systemUUID": "",
            },
        },
    }))
    .into()
}

/// A pod as returned by an API server. Every third workload runs on Windows nodes.
fn read(number: usize, runs: bool, shared: &mut Shared) -> winpool_workload::Pod {
    let workload = number / REPLICAS;
    let windows = workload.is_multiple_of(3);
    let app = format!("app-{workload}");
    let class = windows.then(|| format!("windows-{}", workload % POOLS));
    let node = if windows { format!("win-{}", number % NODES) } else { format!("linux-{}", number % NODES) };
    let state = if runs { json!({"running": {}}) } else { json!({"waiting": {"reason": "ContainerCreating"}}) };
    let pod = json!({
        "metadata": {
            "name": format!("{app}-5d8c7b6f9-{number:06}"), "namespace": format!("team-{}", workload % 100),
            "uid": format!("00000000-0000-4000-8000-{number:012}"), "labels": {"app": app, "pod-template-hash": "5d8c7b6f9"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-5d8c7b6f9"), "uid": "u", "controller": true}],
        },
        "spec": {
            "nodeName": node, "runtimeClassName": class, "nodeSelector": {"kubernetes.io/os": if windows { "windows" } else { "linux" }},
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"},
            ],
            "containers": [{
                "name": "main", "image": format!("registry.example.com/{app}:ltsc2022"),
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}},
            }],
        },
        "status": {"phase": "Running", "containerStatuses": [{
            "name": "main", "image": "x", "imageID": "x@sha256:1", "ready": runs, "restartCount": 0, "state": state,
        }]},
    });
    winpool_workload::Pod::read(parse(pod), shared)
}

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
