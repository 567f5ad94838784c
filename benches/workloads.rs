//! The figures of the verdicts on workloads in a large cluster: 5,000 nodes and 150,000 pods. They are printed, not judged.

#![allow(clippy::unwrap_used)] // what cannot be run ends the benchmark

use std::{
    fs,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use winpool::domain::{
    node::WindowsNode,
    pool::{Pool, RuntimeClassView, Snapshot},
    workload::{self, Ground, Ledger, Shared},
};

const POOLS: usize = 10;
const NODES: usize = 5_000;
const PODS: usize = 150_000;
/// How many pods a workload has.
const REPLICAS: usize = 50;
/// How often the verdict on a pod is measured.
const EVENTS: usize = 20_000;

fn main() {
    let snapshot = world();
    let mut shared = Shared::default();
    let begin = Instant::now();
    let pods: Vec<Arc<workload::Pod>> = (0..PODS).map(|number| Arc::new(read(number, true, &mut shared))).collect();
    figure("reading 150,000 pods", "none", begin.elapsed());
    println!("{:<58} {:>9.1} MB   (goal: 300 MB)", "resident memory with these and 5,000 nodes", resident());

    let mut ledger = Ledger::default();
    let begin = Instant::now();
    ledger.stand_on(Ground::of(&snapshot));
    for pod in &pods {
        ledger.pod(&pod.key.clone(), Some(pod.clone()));
    }
    black_box((0..POOLS).map(|pool| ledger.summary(&format!("pool-{pool}"))).collect::<Vec<_>>());
    figure("first full verdict on them", "5 s", begin.elapsed());
    drop(pods);
    println!("{:<58} {:>9.1} MB   (goal: 300 MB)", "resident memory with the verdicts", resident());

    let changed: Vec<Arc<workload::Pod>> =
        (0..EVENTS).map(|event| Arc::new(read(event * 7 % PODS, event % 2 == 0, &mut shared))).collect();
    let begin = Instant::now();
    for pod in changed {
        ledger.pod(&pod.key.clone(), Some(pod));
    }
    let each = begin.elapsed() / u32::try_from(EVENTS).unwrap();
    println!("{:<58} {:>9.1} us   (goal: 50 us)", "the verdict on one pod that changed", each.as_secs_f64() * 1e6);
    let begin = Instant::now();
    ledger.stand_on(Ground::of(&Snapshot::default()));
    ledger.stand_on(Ground::of(&snapshot));
    figure("judging everything anew, twice", "none", begin.elapsed());
}

fn figure(what: &str, goal: &str, took: Duration) {
    println!("{what:<58} {:>9.1} ms   (goal: {goal})", took.as_secs_f64() * 1000.0);
}

/// The resident memory of this process, in millions of bytes.
fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
}

/// Pools with their classes and nodes, as the operator has made them.
fn world() -> Snapshot {
    let pools = (0..POOLS).map(|number| {
        let name = format!("pool-{number}");
        let spec = json!({
            "windowsVersion": "ltsc2022",
            "nodeSelector": {"matchLabels": {"agentpool": name}},
            "runtimeClasses": [{"name": format!("windows-{number}")}],
        });
        (name.clone(), Arc::new(Pool::from_object(parse(json!({"metadata": {"name": name}, "spec": spec})))))
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
        (
            format!("windows-{number}"),
            Arc::new(RuntimeClassView::from(parse::<k8s_openapi::api::node::v1::RuntimeClass>(class))),
        )
    });
    Snapshot {
        pools: pools.collect(),
        runtime_classes: classes.collect(),
        nodes: (0..NODES).map(|number| (format!("win-{number}"), Arc::new(node(number)))).collect(),
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

/// A pod as an API server gives it: every third is for Windows and on one of the nodes.
fn read(number: usize, runs: bool, shared: &mut Shared) -> workload::Pod {
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
    workload::Pod::read(parse(pod), shared)
}

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
