//! A stand-in for `rke2.exe agent`: a service that writes the configurations of upstream's containerd and kubelet, starts them, and starts
//! one again five seconds after it has ended. When the service has stopped, they end.
//!
//! Sources: rancher/rke2 6ce1a80, `pkg/executor/pebinary/pebinary.go` (arguments, restarts), `pkg/windows/service_windows.go` (the order of
//! the end), `pkg/cli/defaults/defaults.go` (logs); k3s-io/k3s, `pkg/daemons/agent/agent.go` and `agent_windows.go` (the kubelet),
//! `pkg/agent/templates/templates.go` with k3s-io/k3s#13680 (containerd), and `pkg/configfilearg/parser.go`; read 2026-11-29.

use std::{
    fs::{self, OpenOptions},
    io::{self, Error},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use winpool_facts::{ContainerRuntime, containerd::PIPE};

use crate::{
    behavior::Behavior,
    fail,
    service::{self, Work},
};

const AGENT: &str = r"C:\var\lib\rancher\rke2\agent";
const PROGRAMS: &str = r"C:\var\lib\rancher\rke2\bin";
/// The pause before a program is started again.
const PAUSE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// Runs the service, with the configuration file of RKE2 at a path.
pub fn run(config: &str) -> io::Result<()> {
    // Wine takes a path without a drive for one of Unix.
    let settings = settings(&format!("C:{config}"))?;
    let containerd = in_folder(format!(r"{AGENT}\etc\containerd\config.toml"))?;
    fs::write(&containerd, config_of_containerd())?;
    let defaults = in_folder(format!(r"{AGENT}\etc\kubelet.conf.d\00-rke2-defaults.conf"))?;
    fs::write(defaults, defaults_of_kubelet().to_string())?;
    let ends = AtomicBool::new(false);
    let keep = |program: &str, arguments: &[String], log: &str| {
        keep_running(program, arguments, log, &ends).unwrap_or_else(|error| fail(&error.to_string()));
    };
    thread::scope(|scope| {
        scope.spawn(|| keep("containerd.exe", &["-c".to_owned(), containerd], r"containerd\containerd.log"));
        scope.spawn(|| {
            wait_until(|| is_set(&ends) || OpenOptions::new().read(true).write(true).open(PIPE).is_ok());
            keep("kubelet.exe", &arguments_of_kubelet(&settings), r"logs\kubelet.log");
        });
        let start = || -> Work { Box::new(|stop: &AtomicBool| wait_until(|| is_set(stop))) };
        let served = service::run(Behavior::default(), start);
        ends.store(true, Ordering::Relaxed);
        served
    })
}

fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}

fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::sleep(POLL);
    }
}

/// Runs a program, again and again, until the flag is set.
fn keep_running(program: &str, arguments: &[String], log: &str, ends: &AtomicBool) -> io::Result<()> {
    let output = OpenOptions::new().create(true).append(true).open(in_folder(format!(r"{AGENT}\{log}"))?)?;
    while !is_set(ends) {
        let mut command = Command::new(format!(r"{PROGRAMS}\{program}"));
        command.args(arguments).current_dir(r"C:\").stdin(Stdio::null());
        let mut child = command.stdout(output.try_clone()?).stderr(output.try_clone()?).spawn()?;
        while !is_set(ends) && child.try_wait()?.is_none() {
            thread::sleep(POLL);
        }
        let _ = child.kill();
        child.wait()?;
        let ended = Instant::now();
        wait_until(|| is_set(ends) || ended.elapsed() > PAUSE);
    }
    Ok(())
}

/// A path whose folder exists.
fn in_folder(path: String) -> io::Result<String> {
    fs::create_dir_all(Path::new(&path).parent().unwrap_or(Path::new("")))?;
    Ok(path)
}

/// The settings in a file and in those of its directory, in their order. A key with `+` adds to a list.
fn settings(config: &str) -> io::Result<Map<String, Value>> {
    let added = fs::read_dir(format!("{config}.d")).into_iter().flatten();
    let mut added = added.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    added.sort();
    let mut settings = Map::new();
    for file in [config.into()].into_iter().chain(added) {
        let read: Map<String, Value> = serde_saphyr::from_str(&fs::read_to_string(file)?).map_err(Error::other)?;
        for (key, value) in read {
            match (key.strip_suffix('+'), value) {
                (Some(key), Value::Array(added)) => {
                    let list = settings.entry(key).or_insert_with(|| json!([]));
                    list.as_array_mut().ok_or_else(|| Error::other(format!("{key} is no list")))?.extend(added);
                }
                (_, value) => drop(settings.insert(key, value)),
            }
        }
    }
    Ok(settings)
}

fn texts<'a>(settings: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a str> {
    settings.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn arguments_of_kubelet(settings: &Map<String, Value>) -> Vec<String> {
    let name = settings.get("node-name").and_then(Value::as_str).unwrap_or_default();
    let labels = texts(settings, "node-label").collect::<Vec<_>>().join(",");
    let mut arguments = vec![
        "--cgroups-per-qos=false".to_owned(),
        "--enforce-node-allocatable=".to_owned(),
        "--file-check-frequency=5s".to_owned(),
        "--hairpin-mode=promiscuous-bridge".to_owned(),
        "--resolv-conf=".to_owned(),
        "--sync-frequency=30s".to_owned(),
        r"--cert-dir=C:\var\lib\kubelet\pki".to_owned(),
        format!(r"--config-dir={AGENT}\etc\kubelet.conf.d"),
        format!("--hostname-override={name}"),
        format!(r"--kubeconfig={AGENT}\kubelet.kubeconfig"),
        format!("--node-labels={labels}"),
        r"--root-dir=C:\var\lib\kubelet".to_owned(),
    ];
    arguments.extend(texts(settings, "kubelet-arg").map(|argument| format!("--{argument}")));
    arguments
}

/// What every node of RKE2 has; the addresses are those of a cluster.
fn defaults_of_kubelet() -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true, "cacheTTL": "2m0s"}},
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "clusterDNS": ["10.43.0.10"], "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": ContainerRuntime::Containerd(()).endpoint(),
        "evictionHard": {"imagefs.available": "15%", "nodefs.available": "15%"},
        "evictionMinimumReclaim": {"imagefs.available": "20%", "nodefs.available": "20%"},
        "failSwapOn": false, "healthzBindAddress": "127.0.0.1", "serializeImagePulls": false,
        "logging": {"format": "text", "verbosity": 0, "flushFrequency": "5s"},
        "staticPodPath": format!(r"{AGENT}\pod-manifests"),
    })
}

fn config_of_containerd() -> String {
    let agent = AGENT.replace('\\', r"\\");
    format!(
        r#"# File generated by rke2. DO NOT EDIT. Use config-v3.toml.tmpl instead.
version = 3
imports = ["{agent}\\etc\\containerd/config-v3.toml.d/*.toml"]
root = "{agent}\\containerd"
state = "{agent}\\containerd\\state"

[grpc]
  address = "//./pipe/containerd-containerd"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "index.docker.io/rancher/mirrored-pause:3.6"

[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = "{agent}\\etc\\containerd\\certs.d"

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["C:\\var\\lib\\rancher\\rke2\\bin"]
  conf_dir = "{agent}\\etc\\cni"
"#
    )
}
