//! Speed, memory and size. The results are printed only, because they depend on the load of the machine.

#![allow(clippy::disallowed_methods, clippy::print_stdout)] // I/O, and time
#![allow(clippy::unwrap_used)] // an error ends the benchmark

mod snapshots;

use std::{
    fmt::Write as _,
    fs,
    hint::black_box,
    io::{self, BufWriter, Write as _},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use winpool::{
    output::{OutputFormat, write_objects},
    render::Documents,
};
use winpool_check::{
    manifests::{Budget, ManifestSet, Manifests},
    render::{render, snapshot},
};
use winpool_facts::{ContainerdVersion, Minor};
use winpool_rules::{
    operation::{Done, Outcome},
    pool::{Snapshot, configs::ExpectedNode, plan::plan},
    status::pool::report,
};

const POOLS: usize = 1000;
const KUBERNETES: [u32; 5] = [30, 32, 34, 35, 37];
const CONTAINERD: [(u32, u32); 2] = [(1, 7), (2, 3)];
const NODES: usize = 5000;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pools.yaml");
    fs::write(&file, manifests()).unwrap();
    print_result("render of 1,000 pools x 10 variants, in process", "1 s", &best_of(3, || render_all(&file)));
    println!("{:<58} {:>12}   (goal: 100 MB)", "  peak resident memory of that", peak_memory());
    print_result("render of the same by the binary, as YAML", "1 s", &best_of(3, || run_binary(&file)));
    let (new, converged) = snapshots::new_and_settled(1, NODES);
    print_result("reconcile of a pool with 5,000 new nodes", "20 ms", &best_of(10, || reconcile(&new)));
    print_result("reconcile of the same without changes", "20 ms", &best_of(10, || reconcile(&converged)));
    let size = fs::metadata(env!("CARGO_BIN_EXE_winpool")).unwrap().len();
    println!("{:<58} {:>9.1} MB   (goal: 20 MB)", "binary", size as f64 / 1e6);
}

struct Times {
    wall: Duration,
    on_cpu: Duration,
}

fn print_result(what: &str, goal: &str, times: &Times) {
    let [wall, on_cpu] = [times.wall, times.on_cpu].map(|time| time.as_secs_f64() * 1000.0);
    // The CPU time of child processes is not known.
    let on_cpu =
        if times.on_cpu < Duration::from_millis(1) { String::new() } else { format!(", {on_cpu:.1} ms CPU time") };
    println!("{what:<58} {wall:>9.1} ms   (goal: {goal}{on_cpu})");
}

fn best_of(times: usize, run: impl Fn()) -> Times {
    let timed = || {
        let (begin, on_cpu) = (Instant::now(), snapshots::time_on_cpu());
        run();
        (begin.elapsed(), snapshots::time_on_cpu().saturating_sub(on_cpu))
    };
    let (walls, cpus): (Vec<_>, Vec<_>) = (0..times).map(|_| timed()).unzip();
    let least = |times: Vec<Duration>| times.into_iter().min().unwrap_or_default();
    Times { wall: least(walls), on_cpu: least(cpus) }
}

fn peak_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown");
    line.trim()
        .strip_suffix(" kB")
        .and_then(|kib| kib.parse::<f64>().ok())
        .map_or_else(|| line.to_owned(), |kib| format!("{:.1} MB", kib * 1024.0 / 1e6))
}

/// A profile, and pools with two Windows versions that use it.
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
    let resources = ManifestSet::new(Manifests::read(&[file.to_owned()], &mut Budget::unbounded()).unwrap()).unwrap();
    let snapshot = snapshot(&resources, Default::default(), "winpool-system");
    let expected_nodes: Vec<_> = KUBERNETES
        .iter()
        .flat_map(|kubelet| CONTAINERD.iter().map(|(major, minor)| (*kubelet, *major, *minor)))
        .map(|(kubelet, major, minor)| ExpectedNode {
            kubelet: Minor(kubelet),
            containerd: Some(ContainerdVersion::new(major, minor, 0)),
        })
        .collect();
    let rendered = render(&snapshot, &expected_nodes, &resources).unwrap();
    // Some variants of the newer Windows share a ConfigMap.
    assert!(rendered.config_maps.len() > POOLS * 9, "{}", rendered.config_maps.len());
    let mut out = BufWriter::new(io::sink());
    let documents = Documents::from(rendered);
    write_objects(&mut out, documents.objects.iter().map(|(_, object)| object), OutputFormat::Yaml).unwrap();
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

/// The computations of a reconcile: the plan and the status.
fn reconcile(snapshot: &Snapshot) {
    let plan = plan(snapshot, "pool-0").unwrap();
    let results = plan.steps.iter().flatten().map(|operation| (operation.clone(), Outcome::Done)).collect();
    let done = Done { results, complete: true };
    black_box(report(snapshot, &plan.with_outcomes(&done), &done));
}
