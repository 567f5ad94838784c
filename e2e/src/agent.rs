//! Simulated Windows nodes that run the agent: files and services in memory, and a kubelet that reports to the API server what
//! its configuration file says when it is started.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};
use winpool_agent::{
    cycle::Limits,
    host::{
        Host, ProgramOutput, RegistryKey, RuntimeError, SandboxKind, ServiceDefinition, ServicePolicy, ServiceState,
    },
    report::HARDWARE_CONFIG,
    run::{self, AgentOptions},
    worker::CHECK_INTERVAL,
};
use winpool_api::ServiceStart;
use winpool_render::allowances::Allowances;

use crate::{
    control_plane::{ControlPlane, OPERATOR_NAMESPACE},
    kubelet::{KubeletConfiguration, Kubelets},
    progress::say,
};

/// The file of the kubelet's flag `--config`, as kubeadm writes it.
pub const KUBELET_CONFIG: &str = r"C:\var\lib\kubelet\config.yaml";
/// The configuration of containerd.
const CONTAINERD_CONFIG: &str = r"C:\Program Files\containerd\config.toml";

const KUBECONFIG: &str = r"C:\etc\kubernetes\kubelet.conf";
const KUBELET: &str = "kubelet";
const CONTAINERD: &str = "containerd";
/// How long an agent may take to finish its action when it is stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time between two renewals of a Lease. No node lifecycle controller runs that would need more of them, and the
/// renewals of a thousand nodes would be most of the load.
const LEASE_INTERVAL: Duration = Duration::from_secs(300);
/// The services of a simulated node need no time; the other limits allow for a busy machine.
const LIMITS: Limits = Limits {
    service: Duration::from_secs(30),
    stable: Duration::from_millis(300),
    verify: Duration::from_secs(10),
    confirm: Duration::from_secs(120),
};

/// The machine of a node, which outlives the processes of its agent.
#[derive(Clone)]
pub struct Machine {
    name: String,
    kubelets: Arc<Kubelets>,
    handle: Handle,
    state: Arc<Mutex<State>>,
}

struct State {
    files: BTreeMap<String, Vec<u8>>,
    services: BTreeMap<String, Service>,
    /// The kubelet ends shortly after its start when its configuration file contains this text.
    flaw: Option<String>,
    /// What the script that reads facts prints. Without it, no fact can be read.
    machine: Option<String>,
    pids: u32,
    /// How often the kubelet was started.
    starts: u32,
    restore_service: bool,
}

struct Service {
    definition: ServiceDefinition,
    state: ServiceState,
}

/// A running agent. Its process ends when this is dropped.
pub struct Agent {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<io::Result<()>>,
}

impl Machine {
    /// A machine as kubeadm leaves it, with containerd 2.1, whose kubelet runs.
    pub fn new(name: &str, kubelets: Arc<Kubelets>, control_plane: &ControlPlane) -> Result<Self> {
        let service = |name: &str, command: &str, depends_on: &[&str], pid| {
            let depends_on = depends_on.iter().map(|name| (*name).to_owned()).collect();
            let definition = ServiceDefinition {
                name: name.into(),
                command: command.into(),
                depends_on,
                ..ServiceDefinition::default()
            };
            (name.to_owned(), Service { definition, state: ServiceState::Running { pid } })
        };
        let kubelet = r"C:\k\kubelet.exe --windows-service --config=C:\var\lib\kubelet\config.yaml --kubeconfig=C:\etc\kubernetes\kubelet.conf";
        let containerd = r#""C:\Program Files\containerd\containerd.exe" --run-service"#;
        let state = State {
            files: BTreeMap::from([
                (
                    KUBELET_CONFIG.into(),
                    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n".into(),
                ),
                (CONTAINERD_CONFIG.into(), "version = 3\n".into()),
                (KUBECONFIG.into(), control_plane.kubelet_kubeconfig(name)?.into()),
            ]),
            services: BTreeMap::from([
                service(CONTAINERD, containerd, &[], 1),
                service(KUBELET, kubelet, &[CONTAINERD], 2),
            ]),
            flaw: None,
            machine: None,
            pids: 2,
            starts: 0,
            restore_service: false,
        };
        Ok(Self { name: name.to_owned(), kubelets, handle: Handle::current(), state: Arc::new(Mutex::new(state)) })
    }

    /// Makes the kubelet end shortly after its start if its configuration file contains this text.
    #[must_use]
    pub fn fails_with(self, text: &str) -> Self {
        self.state().flaw = Some(text.to_owned());
        self
    }

    /// Makes the script that reads facts print these lines. The services have no recovery settings.
    #[must_use]
    pub fn prints(self, lines: &[&str]) -> Self {
        self.state().machine = Some(lines.join("\r\n"));
        self
    }

    /// Starts the agent of this node as the user of this client.
    pub fn agent(&self, client: Client) -> Agent {
        let (node, namespace) = (self.name.clone(), OPERATOR_NAMESPACE.to_owned());
        let options = AgentOptions {
            node,
            namespace,
            limits: LIMITS,
            allowances: Allowances::default(),
            check_interval: CHECK_INTERVAL,
            kubelet: None,
        };
        let (stop, stopped) = oneshot::channel();
        let stopped = async { drop(stopped.await) };
        let task = tokio::spawn(run::run(client, self.clone(), options, stopped));
        Agent { stop: Some(stop), task }
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> String {
        self.state().files.get(path).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }

    /// Whether the kubelet runs.
    pub fn kubelet_runs(&self) -> bool {
        matches!(self.state().services[KUBELET].state, ServiceState::Running { .. })
    }

    /// How often the kubelet was started since the machine was made.
    pub fn kubelet_starts(&self) -> u32 {
        self.state().starts
    }

    /// Whether the service that restores the former configuration after a reboot is installed.
    pub fn has_restore_service(&self) -> bool {
        self.state().restore_service
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the kubelet with the configuration file as it is now.
    fn start_kubelet(&self) -> io::Result<()> {
        let text = self.text(KUBELET_CONFIG);
        let configuration = KubeletConfiguration::parse(&text).map_err(io::Error::other)?;
        let ends = self.state().flaw.as_ref().is_some_and(|flaw| text.contains(flaw));
        self.state().starts += 1;
        let pid = self.state().pids;
        drop(self.handle.spawn(self.clone().run_kubelet(pid, configuration, ends)));
        Ok(())
    }

    async fn run_kubelet(self, pid: u32, configuration: KubeletConfiguration, ends: bool) {
        let runs = || self.state().services[KUBELET].state == ServiceState::Running { pid };
        if ends {
            sleep(Duration::from_millis(200)).await;
            if runs() {
                self.state()
                    .services
                    .get_mut(KUBELET)
                    .into_iter()
                    .for_each(|kubelet| kubelet.state = ServiceState::Stopped);
            }
            return;
        }
        let name = &self.name;
        if let Err(error) = self.kubelets.start_with(name, configuration).await {
            say(format_args!("simulated node {name}: {error:#}"));
        }
        let mut interval = Duration::from_millis(500);
        loop {
            sleep(interval).await;
            if !runs() {
                return;
            }
            if let Err(error) = renew_lease(self.kubelets.client(), name).await {
                say(format_args!("Lease of simulated node {name}: {error:#}"));
            }
            interval = (interval * 2).min(LEASE_INTERVAL);
        }
    }
}

async fn renew_lease(client: Client, node: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(client, "kube-node-lease");
    let body = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": node },
        "spec": { "holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": format!("{:.6}", Timestamp::now()) },
    });
    leases.patch(node, &PatchParams::apply("kubelet").force(), &Patch::Apply(body)).await?;
    Ok(())
}

impl Agent {
    /// Stops the agent as a container is stopped, and waits until it has ended.
    pub async fn stop(mut self) -> Result<()> {
        drop(self.stop.take());
        timeout(STOP_TIMEOUT, &mut self.task).await???;
        Ok(())
    }
}

impl Host for Machine {
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.state().files.get(path).cloned())
    }

    fn replace(&self, path: &str, content: &[u8]) -> io::Result<()> {
        self.state().files.insert(path.to_owned(), content.to_vec());
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.state().files.remove(path);
        Ok(())
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        let below = state.files.keys().filter_map(|path| path.strip_prefix(directory)?.strip_prefix('\\'));
        Ok(below.filter(|name| !name.contains('\\')).map(str::to_owned).collect())
    }

    fn is_local(&self, _: &str) -> io::Result<bool> {
        Ok(true)
    }

    fn services(&self) -> io::Result<Vec<ServiceDefinition>> {
        Ok(self.state().services.values().map(|service| service.definition.clone()).collect())
    }

    fn policy(&self, _: &str) -> io::Result<ServicePolicy> {
        let is_known = Machine::state(self).machine.is_some();
        let policy = ServicePolicy { start: ServiceStart::Manual, restarts: Some(false) };
        is_known.then_some(policy).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    fn registry(&self, key: &str) -> io::Result<Option<RegistryKey>> {
        if key == HARDWARE_CONFIG {
            // The simulated kubelet reports the name of the node.
            let values = BTreeMap::from([("LastConfig".to_owned(), format!("{{{}}}", self.name))]);
            return Ok(Some(RegistryKey { values, ..RegistryKey::default() }));
        }
        if Machine::state(self).machine.is_some() { Ok(None) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    fn define(&self, definition: &ServiceDefinition) -> io::Result<()> {
        let mut state = self.state();
        let service = state.services.get_mut(&definition.name).ok_or(io::ErrorKind::NotFound)?;
        service.definition = definition.clone();
        Ok(())
    }

    fn state(&self, service: &str) -> io::Result<Option<ServiceState>> {
        Ok(Machine::state(self).services.get(service).map(|service| service.state))
    }

    fn process(&self, service: &str) -> io::Result<Option<u32>> {
        Ok(match Host::state(self, service)? {
            Some(ServiceState::Running { pid }) => Some(pid),
            _ => None,
        })
    }

    fn processes(&self, program: &str) -> io::Result<Vec<u32>> {
        Ok(self.process(program.trim_end_matches(".exe"))?.into_iter().collect())
    }

    fn start(&self, service: &str) -> io::Result<()> {
        {
            let mut state = Machine::state(self);
            state.pids += 1;
            let pid = state.pids;
            let service = state.services.get_mut(service).ok_or(io::ErrorKind::NotFound)?;
            if matches!(service.state, ServiceState::Running { .. }) {
                return Ok(());
            }
            service.state = ServiceState::Running { pid };
        }
        if service == KUBELET { self.start_kubelet() } else { Ok(()) }
    }

    fn stop(&self, service: &str) -> io::Result<()> {
        let mut state = Machine::state(self);
        let service = state.services.get_mut(service).ok_or(io::ErrorKind::NotFound)?;
        service.state = ServiceState::Stopped;
        Ok(())
    }

    fn kill(&self, _: u32) -> io::Result<()> {
        Ok(())
    }

    fn run(&self, program: &str, arguments: &[String], _: Duration) -> io::Result<ProgramOutput> {
        let output = |code, stdout: &str, stderr: &str| ProgramOutput {
            code: Some(code),
            stdout: stdout.as_bytes().to_vec(),
            stderr: stderr.as_bytes().to_vec(),
        };
        if program.ends_with("powershell.exe") {
            return Ok(output(0, Machine::state(self).machine.as_deref().unwrap_or_default(), ""));
        }
        let version = arguments.iter().any(|argument| argument == "--version");
        Ok(match (program.ends_with("containerd.exe"), version) {
            (true, true) => output(0, "containerd github.com/containerd/containerd/v2 v2.1.4 1677a1796431\n", ""),
            (true, false) => output(0, "", ""),
            (false, true) => output(0, &format!("Kubernetes {}\r\n", self.kubelets.version()), ""),
            (false, false) => output(1, "", "no client provided, cannot use webhook authentication\n"),
        })
    }

    fn http_status(&self, _: u16, _: &str) -> io::Result<u16> {
        if self.kubelet_runs() { Ok(200) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
    }

    fn ensure_image(&self, _: &str, _: &str, _: Duration) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn try_sandbox(&self, _: &str, _: SandboxKind, _: Duration) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn set_restore_service(&self, installed: bool) -> io::Result<()> {
        Machine::state(self).restore_service = installed;
        Ok(())
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
