//! The speed and memory of `winpool lint` with 10,000 manifests, as one stream and as files. The results are printed
//! only.

#![allow(clippy::disallowed_methods, clippy::print_stdout)] // I/O, and time
#![allow(clippy::unwrap_used)] // an error ends the benchmark

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const MANIFESTS: usize = 10_000;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    for (name, wrong) in [("without a finding", false), ("with three findings in each", true)] {
        let stream = folder.path().join(format!("{wrong}.yaml"));
        fs::write(&stream, (0..MANIFESTS / 2).map(|number| pair(number, wrong)).collect::<Vec<_>>().join("---\n"))
            .unwrap();
        print_result(&format!("10,000 manifests {name}, one stream"), &stream);
    }
    let files = folder.path().join("files");
    fs::create_dir(&files).unwrap();
    for number in 0..MANIFESTS / 2 {
        fs::write(files.join(format!("{number}.yaml")), pair(number, true)).unwrap();
    }
    print_result("10,000 manifests with three findings in each, 5,000 files", &files);
}

/// A Deployment and its Service, on request with three findings in each on average.
fn pair(number: usize, wrong: bool) -> String {
    let (tag, policy) = if wrong { ("latest", "Local") } else { ("ltsc2022", "Cluster") };
    let mut text = format!(
        "\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web-{number}, namespace: team-{}, labels: {{app: web-{number}}}}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: web-{number}}}}}
  template:
    metadata:
      labels: {{app: web-{number}, tier: front}}
    spec:
      os: {{name: windows}}
      nodeSelector: {{kubernetes.io/os: windows, node.kubernetes.io/windows-build: 10.0.20348}}
      tolerations: [{{key: os, value: windows, effect: NoSchedule}}]
      containers:
",
        number % 50
    );
    for container in ["web", "sidecar"] {
        let _ = write!(
            text,
            "      - name: {container}
        image: registry.example.com/team/{container}:{tag}
        ports: [{{containerPort: 8080, name: http}}]
        env:
        - {{name: Logging__LogLevel__Default, value: Information}}
        - {{name: ConnectionStrings__Main, valueFrom: {{secretKeyRef: {{name: web-{number}, key: connection}}}}}}
        resources: {{requests: {{cpu: 100m, memory: 1Gi}}, limits: {{cpu: '1', memory: 1Gi}}}}
        readinessProbe: {{httpGet: {{path: /healthz, port: http}}, periodSeconds: 10}}
"
        );
        if wrong {
            text.push_str("        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}\n");
        }
    }
    let _ = write!(
        text,
        "---
apiVersion: v1
kind: Service
metadata: {{name: web-{number}, namespace: team-{}}}
spec:
  type: LoadBalancer
  externalTrafficPolicy: {policy}
  selector: {{app: web-{number}}}
  ports: [{{port: 80, targetPort: http}}]
",
        number % 50
    );
    text
}

/// Prints the time and the memory of the best of three runs.
fn print_result(what: &str, path: &Path) {
    let runs: Vec<_> = (0..3).map(|_| run(path)).collect();
    let elapsed = runs.iter().map(|(elapsed, _)| *elapsed).min().unwrap_or_default();
    let memory = runs.iter().map(|(_, memory)| *memory).max().unwrap_or_default();
    println!(
        "{what:<58} {:>9.1} ms   (goal: 5 s)   {:>6.1} MB   (goal: 200 MB)",
        elapsed.as_secs_f64() * 1000.0,
        memory as f64 / 1e6
    );
}

/// The time of a run, and its peak memory in bytes, read while it runs.
fn run(path: &Path) -> (Duration, u64) {
    let begin = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_winpool"))
        .args(["lint", "-o", "json", "-f"])
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        most = most.max(peak.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() * 1024);
        std::thread::sleep(Duration::from_millis(2));
    }
    (begin.elapsed(), most)
}
