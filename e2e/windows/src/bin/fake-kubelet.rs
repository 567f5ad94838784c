//! A kubelet, as far as an agent observes it: a service that reads its configuration, answers health checks, and reports its
//! Node and Lease if it has a kubeconfig.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a program for developers

use std::{
    env, fs,
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::exit,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use e2e_windows::{
    behavior::{Behavior, Failure},
    fail,
    flags::Flags,
};
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use winpool_core::kubernetes::quantity::Quantity;

const VERSION: &str = "v1.36.2";
/// The endpoint of no container runtime. The agent runs a kubelet with it to check a configuration.
const NO_RUNTIME: &str = "npipe:////./pipe/winpool-none";
const CPU: &str = "4";
const MEMORY: &str = "8Gi";
const DEFAULT_HEALTHZ_PORT: u16 = 10248;
const SWITCHES: [&str; 2] = ["version", "windows-service"];

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A kubelet that has read its configuration.
struct Kubelet {
    flags: Flags,
    config: Value,
    behavior: Behavior,
    started: Instant,
}

fn main() {
    let flags = Flags::parse(env::args().skip(1), &SWITCHES);
    if flags.has("version") {
        println!("Kubernetes {VERSION}");
        return;
    }
    let kubelet = Kubelet::new(flags).unwrap_or_else(|error| command_failed(&error));
    if kubelet.flags.get("container-runtime-endpoint") == Some(NO_RUNTIME) {
        command_failed("failed to run Kubelet: no client provided, cannot use webhook authentication");
    }
    if kubelet.behavior.is(Failure::ExitEarly) {
        command_failed("failed to run Kubelet: it ends early");
    }
    #[cfg(windows)]
    if kubelet.flags.has("windows-service") {
        let behavior = kubelet.behavior.clone();
        if let Err(error) = e2e_windows::service::run(behavior, move || Box::new(move |stop| kubelet.run(stop))) {
            fail(&error.to_string());
        }
        return;
    }
    kubelet.run(&AtomicBool::new(false));
}

/// Ends as the real kubelet does.
fn command_failed(error: &str) -> ! {
    fail(&format!("E1122 00:00:00.000000    1 run.go:72] \"command failed\" err={error:?}"))
}

impl Kubelet {
    fn new(flags: Flags) -> Result<Self, String> {
        let path = flags.get("config").ok_or("failed to load kubelet config file: no --config")?.to_owned();
        let failed = |error: String| format!("failed to load kubelet config file, path: {path}, error: {error}");
        let content = fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
        let config = parse(&content).map_err(failed)?;
        if config["maxPods"].as_u64() == Some(0) {
            return Err("failed to validate kubelet configuration, error: invalid configuration: maxPods".to_owned());
        }
        let behavior = Behavior::of(&path, &content)?;
        Ok(Self { flags, config, behavior, started: Instant::now() })
    }

    /// Runs until it is stopped.
    fn run(self, stop: &AtomicBool) {
        let crash = self.behavior.crash();
        let kubelet = Arc::new(self);
        let (health, status) = (kubelet.clone(), kubelet.clone());
        thread::spawn(move || health.serve_health());
        thread::spawn(move || status.report_status());
        while !stop.load(Ordering::Relaxed) {
            if crash.is_some_and(|time| kubelet.started.elapsed() >= time) {
                exit(1);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a slow kubelet works.
    fn wait_slow(&self) {
        thread::sleep(self.behavior.slow().saturating_sub(self.started.elapsed()));
    }

    fn serve_health(&self) {
        self.wait_slow();
        let port = self.config["healthzPort"].as_u64().and_then(|port| u16::try_from(port).ok());
        let address = (Ipv4Addr::LOCALHOST, port.unwrap_or(DEFAULT_HEALTHZ_PORT));
        let listener = match TcpListener::bind(address) {
            Ok(listener) => listener,
            Err(error) => return eprintln!("healthz: {address:?}: {error}"),
        };
        for stream in listener.incoming().flatten() {
            let hang = self.behavior.is(Failure::Hang);
            thread::spawn(move || answer(stream, hang));
        }
    }

    /// Reports Node and Lease every second, as long as the API server answers.
    fn report_status(&self) {
        let (Some(kubeconfig), Some(name)) = (self.flags.get("kubeconfig"), self.flags.get("hostname-override")) else {
            return;
        };
        self.wait_slow();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return eprintln!("status: {error}"),
        };
        loop {
            if let Err(error) = runtime.block_on(self.report(kubeconfig, name)) {
                eprintln!("status: {error}");
            }
            thread::sleep(Duration::from_millis(300));
        }
    }

    async fn report(&self, kubeconfig: &str, name: &str) -> Result<(), Error> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        let (nodes, leases): (Api<Node>, Api<Lease>) =
            (Api::all(client.clone()), Api::namespaced(client, "kube-node-lease"));
        let apply = PatchParams::apply("kubelet").force();
        // Before 1.22 an apply of the status with the same field manager would remove the labels.
        match nodes.create(&PostParams::default(), &serde_json::from_value(self.node(name))?).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created?),
        }
        loop {
            nodes.patch_status(name, &apply, &Patch::Apply(self.status(name))).await?;
            leases.patch(name, &apply, &Patch::Apply(lease(name))).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn node(&self, name: &str) -> Value {
        let mut labels = json!({"kubernetes.io/os": "windows", "kubernetes.io/hostname": name});
        let own =
            self.flags.get("node-labels").unwrap_or_default().split(',').filter_map(|label| label.split_once('='));
        own.for_each(|(key, value)| labels[key] = json!(value));
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    }

    /// The reserves of a resource for the system and for Kubernetes.
    fn reserved(&self, resource: &str) -> Quantity {
        let reserves = ["systemReserved", "kubeReserved"].map(|field| self.config[field][resource].as_str());
        let milli = reserves.into_iter().flatten().map(|text| quantity(text).milli()).sum();
        Quantity::of_milli(milli)
    }

    /// The memory below which pods are evicted, in bytes. The default applies only if there is no threshold at all.
    fn threshold(&self) -> i64 {
        let default = if self.config["evictionHard"].is_object() { "0" } else { "500Mi" };
        quantity(self.config["evictionHard"]["memory.available"].as_str().unwrap_or(default)).bytes()
    }

    fn status(&self, name: &str) -> Value {
        let now = Timestamp::now().to_string();
        let ready = if self.behavior.is(Failure::NotReady) { "False" } else { "True" };
        let pods = self.config["maxPods"].as_u64().unwrap_or(110).to_string();
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "status": {
                "capacity": {"pods": pods, "cpu": CPU, "memory": MEMORY},
                "allocatable": {
                    "pods": pods,
                    "cpu": format!("{}m", quantity(CPU).milli() - self.reserved("cpu").milli()),
                    "memory": (quantity(MEMORY).bytes() - self.reserved("memory").bytes() - self.threshold()).to_string(),
                },
                "nodeInfo": {
                    "architecture": "amd64", "bootID": "fake", "containerRuntimeVersion": "containerd://1.7.27",
                    "kernelVersion": "10.0.20348.2700", "kubeProxyVersion": VERSION, "kubeletVersion": VERSION,
                    "machineID": name, "operatingSystem": "windows", "osImage": "Windows Server 2022 Datacenter",
                    "systemUUID": name,
                },
                "conditions": [{
                    "type": "Ready", "status": ready, "reason": "KubeletReady",
                    "message": "kubelet is posting ready status", "lastHeartbeatTime": now, "lastTransitionTime": now,
                }],
            },
        })
    }
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or(Quantity::of_bytes(0))
}

fn lease(name: &str) -> Value {
    let renewed = format!("{:.6}", Timestamp::now());
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed});
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec})
}

/// Parses a file as the kubelet does: a byte order mark and CRLF are allowed.
fn parse(content: &str) -> Result<Value, String> {
    let config: Value =
        serde_saphyr::from_str(content.trim_start_matches('\u{feff}')).map_err(|error| error.to_string())?;
    if config["kind"] == "KubeletConfiguration" { Ok(config) } else { Err("no kind KubeletConfiguration".to_owned()) }
}

/// Answers a health check.
fn answer(mut stream: TcpStream, hang: bool) {
    let mut request = [0; 1024];
    let _ = stream.read(&mut request);
    if hang {
        loop {
            thread::park();
        }
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
}
