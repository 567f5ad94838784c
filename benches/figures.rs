//! The figures for speed, memory and size. They are printed, not judged: a loaded machine is no defect.

#![allow(clippy::unwrap_used)] // what cannot be run ends the benchmark

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    hint::black_box,
    io::{self, BufWriter, Write as _},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use winpool::{
    commands::{
        output::{Format, write_objects},
        render,
    },
    domain::{
        node::WindowsNode,
        operation::{Done, Operation, Outcome, Parts},
        pool::{Pool, ProfileView, Snapshot, configs::Newcomer, plan::plan, status::report},
    },
    facts::{ContainerdVersion, Minor},
    manifests::{Budget, Manifests, Resources},
};

const POOLS: usize = 1000;
const KUBERNETES: [u32; 5] = [20, 24, 30, 34, 36];
const CONTAINERD: [(u32, u32); 2] = [(1, 7), (2, 3)];
const NODES: usize = 5000;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pools.yaml");
    fs::write(&file, manifests()).unwrap();
    figure("render of 1,000 pools x 10 variants, in process", "1 s", &best_of(3, || render_all(&file)));
    println!("{:<58} {:>12}   (goal: 100 MB)", "  peak resident memory of that", peak_memory());
    figure("render of the same by the binary, as YAML", "1 s", &best_of(3, || run_binary(&file)));
    let (first, settled) = worlds();
    figure("planning pass over a pool of 5,000 new nodes", "20 ms", &best_of(10, || pass(&first)));
    figure("planning pass over the same when nothing is to be done", "20 ms", &best_of(10, || pass(&settled)));
    let size = fs::metadata(env!("CARGO_BIN_EXE_winpool")).unwrap().len();
    println!("{:<58} {:>9.1} MB   (goal: 20 MB)", "binary", size as f64 / 1e6);
}

/// The time that something took; what is beyond the time on a processor was spent waiting for one.
struct Took {
    wall: Duration,
    on_cpu: Duration,
}

fn figure(what: &str, goal: &str, took: &Took) {
    let [wall, on_cpu] = [took.wall, took.on_cpu].map(|time| time.as_secs_f64() * 1000.0);
    // A child process is on processors of its own account.
    let on_cpu =
        if took.on_cpu < Duration::from_millis(1) { String::new() } else { format!(", {on_cpu:.1} ms on a processor") };
    println!("{what:<58} {wall:>9.1} ms   (goal: {goal}{on_cpu})");
}

fn best_of(times: usize, run: impl Fn()) -> Took {
    let timed = || {
        let (begin, on_cpu) = (Instant::now(), time_on_cpu());
        run();
        (begin.elapsed(), time_on_cpu().saturating_sub(on_cpu))
    };
    let (walls, cpus): (Vec<_>, Vec<_>) = (0..times).map(|_| timed()).unzip();
    let least = |times: Vec<Duration>| times.into_iter().min().unwrap_or_default();
    Took { wall: least(walls), on_cpu: least(cpus) }
}

/// How long this thread has been on a processor.
fn time_on_cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).map_or(Duration::ZERO, Duration::from_nanos)
}

/// The most memory that this process has had.
fn peak_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown");
    line.trim()
        .strip_suffix(" kB")
        .and_then(|kib| kib.parse::<f64>().ok())
        .map_or_else(|| line.to_owned(), |kib| format!("{:.1} MB", kib * 1024.0 / 1e6))
}

/// A profile, and pools of two Windows versions that use it.
fn manifests() -> String {
    let mut text = "\
apiVersion: winpool.dev/v1alpha1
kind: WindowsRuntimeProfile
metadata: {name: standard}
spec:
  kubelet:
    systemReserved: {cpu: 500m, memory: 2Gi}
    kubeReserved: {cpu: 200m, memory: 512Mi}
    evictionHard: {memory.available: 500Mi}
    maxPods: 50
  containerd:
    registryMirrors:
    - {registry: docker.io, endpoints: [\"https://mirror.example\"]}
"
    .to_owned();
    for number in 0..POOLS {
        let version = ["ltsc2022", "ltsc2025"][number % 2];
        let _ = write!(
            text,
            "---
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {{name: pool-{number}}}
spec:
  windowsVersion: {version}
  nodeSelector: {{matchLabels: {{agentpool: pool-{number}}}}}
  profileRef: {{name: standard}}
  labels: {{team: team-{number}}}
"
        );
    }
    text
}

fn render_all(file: &std::path::Path) {
    let resources = Resources::of(Manifests::read(&[file.to_owned()], &mut Budget::unbounded()).unwrap()).unwrap();
    let snapshot = render::snapshot(&resources, Default::default(), "winpool-system");
    let newcomers: Vec<_> = KUBERNETES
        .iter()
        .flat_map(|kubelet| CONTAINERD.iter().map(|(major, minor)| (*kubelet, *major, *minor)))
        .map(|(kubelet, major, minor)| Newcomer {
            kubelet: Minor(kubelet),
            containerd: Some(ContainerdVersion::new(major, minor, 0)),
        })
        .collect();
    let rendered = render::render(&snapshot, &newcomers, &resources).unwrap();
    // Some variants of the newer Windows have one content, and so one ConfigMap.
    assert!(rendered.config_maps.len() > POOLS * 9, "{}", rendered.config_maps.len());
    let mut out = BufWriter::new(io::sink());
    write_objects(&mut out, rendered.objects(), Format::Yaml).unwrap();
    out.flush().unwrap();
}

fn run_binary(file: &std::path::Path) {
    let kubernetes: Vec<_> = KUBERNETES.iter().map(|minor| format!("1.{minor}")).collect();
    let containerd: Vec<_> = CONTAINERD.iter().map(|(major, minor)| format!("{major}.{minor}")).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_winpool"));
    command.arg("render").arg("-f").arg(file).args(["--kubernetes", &kubernetes.join(",")]);
    command.args(["--containerd", &containerd.join(",")]).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
}

/// A pool whose nodes have just come, and the same when everything is written.
fn worlds() -> (Snapshot, Snapshot) {
    let pool = json!({
        "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": {"name": "web", "generation": 1},
        "spec": {
            "windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "web"}},
            "profileRef": {"name": "standard"}, "labels": {"team": "web"},
        },
    });
    let profile = json!({
        "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsRuntimeProfile", "metadata": {"name": "standard"},
        "spec": {},
    });
    let mut objects: Vec<Value> = (0..NODES).map(node).collect();
    let places: BTreeMap<String, usize> = (0..NODES).map(|number| (format!("win-{number}"), number)).collect();
    let mut pool_now = pool.clone();
    let snapshot = |pool: &Value, nodes: &[Value]| Snapshot {
        namespace: "winpool-system".to_owned(),
        pools: [("web".to_owned(), Arc::new(Pool::from_object(read(pool))))].into(),
        profiles: [("standard".to_owned(), Arc::new(ProfileView::from_object(read(&profile))))].into(),
        nodes: nodes
            .iter()
            .map(|node| WindowsNode::from(read::<k8s_openapi::api::core::v1::Node>(node)))
            .map(|node| (node.name.clone(), Arc::new(node)))
            .collect(),
        api_server: Some(Minor(34)),
        ..Snapshot::default()
    };
    let first = snapshot(&pool, &objects);
    let mut settled = first.clone();
    let done = plan(&first, "web").unwrap();
    for operation in done.steps.into_iter().flatten() {
        match operation {
            Operation::PatchNode(patch) => {
                merge(&mut objects[places[&patch.node]], &patch.body(Parts::ALL));
            }
            Operation::RecordApplied { body, .. } => pool_now["status"] = body["status"].clone(),
            Operation::ApplyRuntimeClass { name, body, .. } => {
                let class = read::<k8s_openapi::api::node::v1::RuntimeClass>(&body);
                settled.runtime_classes.insert(name, Arc::new(class.into()));
            }
            Operation::ApplyConfigMap { name, body } => {
                let map = read::<k8s_openapi::api::core::v1::ConfigMap>(&body);
                settled.config_maps.insert(name, Arc::new(map.into()));
            }
            _ => {}
        }
    }
    let after = snapshot(&pool_now, &objects);
    settled = Snapshot { pools: after.pools, nodes: after.nodes, ..settled };
    assert_eq!(plan(&settled, "web").unwrap().steps, Vec::<Vec<Operation>>::new(), "nothing is left to do");
    (first, settled)
}

/// What an operator computes in a pass: the plan and the status.
fn pass(snapshot: &Snapshot) {
    let plan = plan(snapshot, "web").unwrap();
    let results = plan.steps.iter().flatten().map(|operation| (operation.clone(), Outcome::Done)).collect();
    black_box(report(snapshot, &plan, &Done { results, complete: true }));
}

fn node(number: usize) -> Value {
    let kubelet = ["v1.34.2", "v1.33.5"][number % 2];
    let containerd = ["containerd://2.1.5", "containerd://1.7.28"][number / 2 % 2];
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("win-{number}"), "uid": format!("uid-{number}"), "resourceVersion": number.to_string(),
            "labels": {
                "agentpool": "web", "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": format!("win-{number}"), "node.kubernetes.io/windows-build": "10.0.20348",
                "topology.kubernetes.io/zone": "zone-1", "node.kubernetes.io/instance-type": "large",
            },
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": {"cpu": "4", "memory": "16776752Ki", "pods": "110", "ephemeral-storage": "133703676Ki"},
            "allocatable": {"cpu": "4", "memory": "16674352Ki", "pods": "110", "ephemeral-storage": "133703676Ki"},
            "nodeInfo": {
                "kernelVersion": "10.0.20348.4529", "kubeletVersion": kubelet, "containerRuntimeVersion": containerd,
            },
        },
    })
}

fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap()
}

/// RFC 7386, as the API server applies it.
fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}
