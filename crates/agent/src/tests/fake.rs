//! A simulated node for tests: files, services that behave as their configuration says, a clock, and faults.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    io,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    cycle::{Cluster, PodPhase, PodsError},
    host::{
        Host, ProgramOutput, RegistryKey, RuntimeError, SandboxKind, ServiceDefinition, ServicePolicy, ServiceState,
    },
};

/// The file that the kubelet of a simulated node reads when it starts. Each line that is a behaviour takes effect:
/// `exit` (ends at its start), `crash` (ends one second later), `unhealthy`, `slow` (healthy after ten minutes),
/// `offline` (renews no Lease), `evict` (its pods fail), `no-sandbox` and `no-network` (containerd starts no sandbox, or none with a
/// network).
pub const CONFIG: &str = r"C:\k\config.yaml";

/// The kubeconfig of the kubelet, with a content that the API server accepts.
pub const KUBECONFIG: &str = r"C:\k\kubelet.conf";

/// What happens at some call of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The agent is killed: this call and all others fail until it is started again.
    Crash,
    Reboot,
    /// Writes fail during the next minute.
    DiskFull,
    /// Files cannot be replaced during the next minute, because another program keeps them open.
    Locked,
    /// The services ignore the request to stop during the next minute.
    IgnoreStop,
    /// The API server does not answer during the next minute.
    Offline,
    /// The clock is set back by one hour.
    ClockBack,
}

impl Fault {
    pub const ALL: [Self; 7] =
        [Self::Crash, Self::Reboot, Self::DiskFull, Self::Locked, Self::IgnoreStop, Self::Offline, Self::ClockBack];
}

#[derive(Clone, Debug)]
pub struct Service {
    /// The definition for the next start.
    pub definition: ServiceDefinition,
    pub state: ServiceState,
    /// The definition and the configuration that it was started with.
    pub loaded: (ServiceDefinition, String),
    pid: u32,
    started: SignedDuration,
}

#[derive(Debug)]
pub struct State {
    pub files: BTreeMap<String, Vec<u8>>,
    pub services: Vec<Service>,
    /// The output of a program, by the end of its path and its first argument.
    pub programs: Vec<(&'static str, &'static str, ProgramOutput)>,
    pub registry: BTreeMap<String, RegistryKey>,
    pub policies: BTreeMap<String, ServicePolicy>,
    pub runs: Vec<String>,
    pub written: BTreeMap<String, String>,
    /// Whether the service that restores the last good configuration is installed.
    pub restores: bool,
    pub pull: Result<(), RuntimeError>,
    /// Whether the process of the kubelet runs on for some seconds when its service has stopped, and a second one cannot start.
    pub lingers: bool,
    pub lists_processes: bool,
    pub pod: PodPhase,
    /// The faults, each before a number of calls.
    pub faults: VecDeque<(u32, Fault)>,
    pub crashed: bool,
    pub rebooting: bool,
    uptime: SignedDuration,
    clock: Timestamp,
    until: BTreeMap<&'static str, SignedDuration>,
    pids: u32,
}

#[derive(Debug)]
pub struct FakeHost(pub RefCell<State>);

pub fn service(name: &str, command: &str, depends_on: &[&str]) -> ServiceDefinition {
    let depends_on = depends_on.iter().map(|&name| name.to_owned()).collect();
    ServiceDefinition { name: name.to_owned(), command: command.to_owned(), depends_on, ..ServiceDefinition::default() }
}

/// The data of a ConfigMap.
pub fn data(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
}

pub fn output(code: i32, stdout: &str, stderr: &str) -> ProgramOutput {
    ProgramOutput { code: Some(code), stdout: stdout.into(), stderr: stderr.into() }
}

impl FakeHost {
    /// A node with containerd and a kubelet that run with a configuration.
    pub fn new(config: &str, faults: impl IntoIterator<Item = (u32, Fault)>) -> Self {
        let services =
            vec![service("containerd", "containerd.exe", &[]), service("kubelet", "kubelet.exe", &["containerd"])];
        let node = Self::with(services, &[(CONFIG, config), (KUBECONFIG, "of the kubelet")]);
        {
            let mut state = node.0.borrow_mut();
            state.faults = faults.into_iter().collect();
            state.stop_all();
            state.start_all();
        }
        node
    }

    /// A node with these running services and files, kubelet 1.36 and containerd 2.3.
    pub fn with(services: Vec<ServiceDefinition>, files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec()));
        let state = State {
            files: files.collect(),
            services: services.into_iter().map(Service::running).collect(),
            programs: Vec::new(),
            registry: BTreeMap::new(),
            policies: BTreeMap::new(),
            runs: Vec::new(),
            written: BTreeMap::new(),
            restores: false,
            pull: Ok(()),
            lingers: false,
            lists_processes: true,
            pod: PodPhase::Running,
            faults: VecDeque::new(),
            crashed: false,
            rebooting: false,
            uptime: SignedDuration::ZERO,
            clock: Timestamp::from_second(1_800_000_000).unwrap(),
            until: BTreeMap::new(),
            pids: 100,
        };
        Self(RefCell::new(state)).kubelet("1.36.2").containerd("v2.3.4")
    }

    pub fn kubelet(self, version: &str) -> Self {
        self.with_version("kubelet.exe", &format!("Kubernetes v{version}\r\n"))
    }

    pub fn containerd(self, version: &str) -> Self {
        let text = format!("containerd github.com/containerd/containerd/v2 {version} 1677a1796431\n");
        self.with_version("containerd.exe", &text)
    }

    fn with_version(mut self, program: &'static str, text: &str) -> Self {
        let programs = &mut self.0.get_mut().programs;
        programs.retain(|(other, ..)| *other != program);
        programs.push((program, "--version", output(0, text, "")));
        self
    }

    /// Writes a file without the agent.
    pub fn put(&self, path: &str, content: impl Into<Vec<u8>>) {
        self.0.borrow_mut().files.insert(path.to_owned(), content.into());
    }

    /// The configuration that the running kubelet has read; `None` if it does not run.
    pub fn running(&self) -> Option<String> {
        let state = self.0.borrow();
        let kubelet = state.service("kubelet")?;
        matches!(kubelet.state, ServiceState::Running { .. }).then(|| kubelet.loaded.1.clone())
    }

    pub fn text(&self, path: &str) -> String {
        String::from_utf8(self.0.borrow().files[path].clone()).unwrap()
    }

    /// Ends a crash, or the restart of Windows with its automatic services. Returns whether Windows was restarted.
    pub fn revive(&self) -> bool {
        let mut state = self.0.borrow_mut();
        let rebooted = state.rebooting;
        (state.crashed, state.rebooting) = (false, false);
        if rebooted {
            state.start_all();
        }
        rebooted
    }

    /// Counts a call, and begins the fault that is due.
    fn call(&self) -> io::Result<std::cell::RefMut<'_, State>> {
        let mut state = self.0.borrow_mut();
        if state.crashed {
            return Err(io::Error::other("the agent was killed"));
        }
        state.advance(SignedDuration::from_millis(5));
        if let Some((calls, fault)) = state.faults.front().copied() {
            if calls > 0 {
                state.faults[0].0 -= 1;
            } else {
                state.faults.pop_front();
                state.begin(fault);
            }
        }
        if state.crashed { Err(io::Error::other("the agent was killed")) } else { Ok(state) }
    }

    fn write(&self) -> io::Result<std::cell::RefMut<'_, State>> {
        let state = self.call()?;
        if state.is("full") {
            return Err(io::Error::from_raw_os_error(112));
        }
        Ok(state)
    }
}

impl State {
    fn begin(&mut self, fault: Fault) {
        let minute = self.uptime + SignedDuration::from_mins(1);
        match fault {
            Fault::Crash => self.crashed = true,
            Fault::Reboot => {
                (self.crashed, self.rebooting) = (true, true);
                self.stop_all();
            }
            Fault::DiskFull => drop(self.until.insert("full", minute)),
            Fault::Locked => drop(self.until.insert("locked", minute)),
            Fault::IgnoreStop => drop(self.until.insert("deaf", minute)),
            Fault::Offline => drop(self.until.insert("offline", minute)),
            Fault::ClockBack => self.clock -= SignedDuration::from_hours(1),
        }
    }

    fn is(&self, what: &str) -> bool {
        self.until.get(what).is_some_and(|until| self.uptime < *until)
    }

    fn advance(&mut self, time: SignedDuration) {
        self.uptime += time;
        self.clock += time;
        let uptime = self.uptime;
        for service in &mut self.services {
            if service.behaves("crash") && uptime - service.started > SignedDuration::from_secs(1) {
                service.state = ServiceState::Stopped;
            }
        }
        if self.services.iter().any(|service| service.behaves("evict")) {
            self.pod = PodPhase::Failed;
        }
    }

    fn start_all(&mut self) {
        for name in ["containerd", "kubelet"] {
            self.start(name);
        }
    }

    fn stop_all(&mut self) {
        self.services.iter_mut().for_each(|service| service.state = ServiceState::Stopped);
    }

    pub fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.definition.name == name)
    }

    fn service_mut(&mut self, name: &str) -> Option<&mut Service> {
        self.services.iter_mut().find(|service| service.definition.name == name)
    }

    fn start(&mut self, name: &str) {
        let config = self.files.get(CONFIG).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        self.pids += 1;
        let (pid, uptime) = (self.pids, self.uptime);
        let lingers = name == "kubelet" && self.is("lingering");
        let Some(service) = self.service_mut(name).filter(|_| !lingers) else { return };
        if service.state != ServiceState::Stopped {
            return;
        }
        service.loaded = (service.definition.clone(), config.unwrap_or_default());
        (service.started, service.pid) = (uptime, pid);
        let runs = !service.behaves("exit") && !service.loaded.1.is_empty();
        service.state = match runs {
            _ if service.behaves("pending") => ServiceState::Pending,
            true => ServiceState::Running { pid },
            false => ServiceState::Stopped,
        };
    }

    fn healthy(&self) -> bool {
        let Some(kubelet) = self.service("kubelet") else { return false };
        let slow = kubelet.behaves("slow") && self.uptime - kubelet.started < SignedDuration::from_mins(10);
        matches!(kubelet.state, ServiceState::Running { .. }) && !slow && !kubelet.behaves("unhealthy")
    }
}

impl Service {
    /// A service that runs without a configuration.
    pub fn running(definition: ServiceDefinition) -> Self {
        let loaded = (definition.clone(), String::new());
        Self { definition, state: ServiceState::Running { pid: 1 }, loaded, pid: 1, started: SignedDuration::ZERO }
    }

    /// Only the kubelet reads the configuration.
    fn behaves(&self, behaviour: &str) -> bool {
        self.definition.name == "kubelet" && self.loaded.1.lines().any(|line| line == behaviour)
    }
}

fn unreachable(error: io::Error) -> RuntimeError {
    RuntimeError::Unreachable { address: "pipe".to_owned(), why: error.to_string() }
}

impl Host for FakeHost {
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.call()?.files.get(path).cloned())
    }

    fn replace(&self, path: &str, content: &[u8]) -> io::Result<()> {
        let mut state = self.write()?;
        if state.is("locked") {
            return Err(io::Error::from_raw_os_error(32));
        }
        state.files.insert(path.to_owned(), content.to_vec());
        state.written.insert(path.to_owned(), String::from_utf8_lossy(content).into_owned());
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.write()?.files.remove(path);
        Ok(())
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let state = self.call()?;
        let names = state.files.keys().filter_map(|path| path.strip_prefix(directory)?.strip_prefix('\\'));
        Ok(names.filter(|name| !name.contains('\\')).map(str::to_owned).collect())
    }

    /// The drive `S:` is that of a share.
    fn is_local(&self, path: &str) -> io::Result<bool> {
        Ok(!path.starts_with("S:"))
    }

    fn services(&self) -> io::Result<Vec<ServiceDefinition>> {
        Ok(self.call()?.services.iter().map(|service| service.definition.clone()).collect())
    }

    fn policy(&self, service: &str) -> io::Result<ServicePolicy> {
        self.call()?.policies.get(service).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn registry(&self, key: &str) -> io::Result<Option<RegistryKey>> {
        Ok(self.call()?.registry.get(key).cloned())
    }

    fn define(&self, definition: &ServiceDefinition) -> io::Result<()> {
        let mut state = self.write()?;
        let service = state.service_mut(&definition.name).ok_or(io::ErrorKind::NotFound)?;
        service.definition = definition.clone();
        Ok(())
    }

    fn state(&self, service: &str) -> io::Result<Option<ServiceState>> {
        Ok(self.call()?.service(service).map(|service| service.state))
    }

    fn process(&self, service: &str) -> io::Result<Option<u32>> {
        let state = self.call()?;
        let runs = |service: &&Service| service.state != ServiceState::Stopped;
        Ok(state.service(service).filter(runs).map(|service| service.pid))
    }

    fn processes(&self, program: &str) -> io::Result<Vec<u32>> {
        let state = self.call()?;
        if !state.lists_processes {
            return Err(io::Error::other("processes cannot be listed"));
        }
        let service = state.service(program.trim_end_matches(".exe"));
        let respawned = |service: &Service| match service.behaves("respawn") {
            true => u32::try_from((state.uptime - service.started).as_secs() / 3).unwrap_or_default(),
            false => 0,
        };
        let runs = |service: &&Service| service.state != ServiceState::Stopped || state.is("lingering");
        Ok(service.filter(runs).map(|service| service.pid + 1000 * respawned(service)).into_iter().collect())
    }

    fn start(&self, service: &str) -> io::Result<()> {
        self.call()?.start(service);
        Ok(())
    }

    fn stop(&self, service: &str) -> io::Result<()> {
        let mut state = self.call()?;
        let ignored = state.is("deaf");
        if state.lingers && service == "kubelet" {
            let until = state.uptime + SignedDuration::from_secs(5);
            state.until.insert("lingering", until);
        }
        if state.service(service).is_some_and(|service| service.state == ServiceState::Pending) {
            return Err(io::Error::from_raw_os_error(1061));
        }
        let service = state.service_mut(service).filter(|_| !ignored);
        service.into_iter().for_each(|service| service.state = ServiceState::Stopped);
        Ok(())
    }

    fn kill(&self, pid: u32) -> io::Result<()> {
        let mut state = self.call()?;
        let killed = state.services.iter_mut().filter(|service| service.pid == pid);
        killed.for_each(|service| service.state = ServiceState::Stopped);
        Ok(())
    }

    fn run(&self, program: &str, arguments: &[String], _: Duration) -> io::Result<ProgramOutput> {
        let first = arguments.first().map(String::as_str).unwrap_or_default();
        let mut state = self.call()?;
        state.runs.push(format!("{program} {}", arguments.join(" ")));
        let found = state.programs.iter().find(|(name, start, _)| program.ends_with(name) && first.starts_with(start));
        found.map(|(_, _, output)| output.clone()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn http_status(&self, port: u16, path: &str) -> io::Result<u16> {
        let state = self.call()?;
        match (port, path) {
            (10248, "/healthz") if state.healthy() => Ok(200),
            (10248, "/healthz") => Ok(500),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    fn ensure_image(&self, _: &str, image: &str, _: Duration) -> Result<(), RuntimeError> {
        let mut state = self.call().map_err(unreachable)?;
        state.runs.push(format!("pull {image}"));
        state.pull.clone()
    }

    fn try_sandbox(&self, _: &str, kind: SandboxKind, _: Duration) -> Result<(), RuntimeError> {
        let state = self.call().map_err(unreachable)?;
        let config = state.service("kubelet").map_or("", |kubelet| &kubelet.loaded.1);
        match config.lines().any(|line| line == "no-sandbox" || kind == SandboxKind::Network && line == "no-network") {
            true => Err(RuntimeError::Failed("pull access denied".to_owned())),
            false => Ok(()),
        }
    }

    fn set_restore_service(&self, installed: bool) -> io::Result<()> {
        self.write()?.restores = installed;
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.0.borrow().clock
    }

    fn sleep(&self, time: Duration) {
        self.0.borrow_mut().advance(SignedDuration::try_from(time).unwrap());
    }
}

impl Cluster for FakeHost {
    fn lease_renewed(&self) -> io::Result<Option<Timestamp>> {
        let state = self.call()?;
        if state.is("offline") {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let renews = state.healthy() && !state.service("kubelet").is_some_and(|kubelet| kubelet.behaves("offline"));
        Ok(renews.then_some(state.clock))
    }

    fn pods(&self, kubeconfig: &[u8]) -> Result<BTreeMap<String, PodPhase>, PodsError> {
        let state = self.call()?;
        if state.is("offline") {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        if kubeconfig != b"of the kubelet" {
            return Err(PodsError::Kubeconfig("Unauthorized".to_owned()));
        }
        Ok(BTreeMap::from([("pod-1".to_owned(), state.pod)]))
    }

    fn kubelet_config(&self) -> Option<Value> {
        let max_pods =
            if self.0.borrow().services.iter().any(|service| service.behaves("overridden")) { 110 } else { 42 };
        Some(json!({ "maxPods": max_pods }))
    }
}
