//! A simulated node for tests: files, services that behave as their configuration says, a clock, and faults.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    io,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    cycle::{Cluster, PodPhase},
    host::{Host, Output, ServiceDefinition, ServiceState},
};

/// The file that the kubelet of a simulated node reads when it starts. Each line that is a behaviour takes effect:
/// `exit` (ends at its start), `crash` (ends one second later), `unhealthy`, `slow` (healthy after ten minutes),
/// `offline` (renews no Lease), `evict` (its pods fail).
pub const CONFIG: &str = r"C:\k\config.yaml";

/// What happens at some call of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The agent is killed: this call and all others fail until it is started again.
    Crash,
    /// Windows restarts.
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
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Crash, Self::Reboot, Self::DiskFull, Self::Locked, Self::IgnoreStop, Self::Offline, Self::ClockBack];
}

/// A service of a simulated node.
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

/// The state of a simulated node.
#[derive(Debug)]
pub struct State {
    /// The files by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The services by name, dependencies first.
    pub services: BTreeMap<String, Service>,
    /// Whether the service that restores the last good configuration is installed.
    pub restores: bool,
    /// The phase of the pod `pod-1`.
    pub pod: PodPhase,
    /// The faults, each before a number of calls.
    pub faults: VecDeque<(u32, Fault)>,
    /// Whether the agent was killed.
    pub crashed: bool,
    /// Whether Windows restarts.
    pub rebooting: bool,
    uptime: SignedDuration,
    clock: Timestamp,
    until: BTreeMap<&'static str, SignedDuration>,
    pids: u32,
}

/// A simulated node.
#[derive(Debug)]
pub struct FakeHost(pub RefCell<State>);

impl FakeHost {
    /// A node with containerd and a kubelet that run with a configuration.
    pub fn new(config: &str, faults: impl IntoIterator<Item = (u32, Fault)>) -> Self {
        let service = |name: &str, depends_on: &[&str]| {
            let definition = ServiceDefinition {
                name: name.to_owned(),
                command: format!("{name}.exe"),
                unexpanded: None,
                depends_on: depends_on.iter().map(|name| (*name).to_owned()).collect(),
                environment: Vec::new(),
            };
            let loaded = (definition.clone(), config.to_owned());
            (
                name.to_owned(),
                Service { definition, state: ServiceState::Stopped, loaded, pid: 0, started: SignedDuration::ZERO },
            )
        };
        let mut state = State {
            files: BTreeMap::from([(CONFIG.to_owned(), config.as_bytes().to_vec())]),
            services: BTreeMap::from([service("containerd", &[]), service("kubelet", &["containerd"])]),
            restores: false,
            pod: PodPhase::Running,
            faults: faults.into_iter().collect(),
            crashed: false,
            rebooting: false,
            uptime: SignedDuration::ZERO,
            clock: Timestamp::from_second(1_800_000_000).unwrap(),
            until: BTreeMap::new(),
            pids: 100,
        };
        state.start_all();
        Self(RefCell::new(state))
    }

    /// The configuration that the running kubelet has read; `None` if it does not run.
    pub fn running(&self) -> Option<String> {
        let state = self.0.borrow();
        let kubelet = &state.services["kubelet"];
        matches!(kubelet.state, ServiceState::Running { .. }).then(|| kubelet.loaded.1.clone())
    }

    /// The content of a file as text.
    pub fn text(&self, path: &str) -> Option<String> {
        self.0.borrow().files.get(path).map(|bytes| String::from_utf8(bytes.clone()).unwrap())
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
                self.services.values_mut().for_each(|service| service.state = ServiceState::Stopped);
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
        for service in self.services.values_mut() {
            if service.behaves("crash") && uptime - service.started > SignedDuration::from_secs(1) {
                service.state = ServiceState::Stopped;
            }
        }
        if self.services["kubelet"].behaves("evict") {
            self.pod = PodPhase::Failed;
        }
    }

    fn start_all(&mut self) {
        for name in ["containerd", "kubelet"] {
            self.start(name);
        }
    }

    fn start(&mut self, name: &str) {
        let config = self.files.get(CONFIG).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        self.pids += 1;
        let (pid, uptime) = (self.pids, self.uptime);
        let Some(service) = self.services.get_mut(name) else { return };
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
        let kubelet = &self.services["kubelet"];
        let slow = kubelet.behaves("slow") && self.uptime - kubelet.started < SignedDuration::from_mins(10);
        matches!(kubelet.state, ServiceState::Running { .. }) && !slow && !kubelet.behaves("unhealthy")
    }
}

impl Service {
    /// Only the kubelet reads the configuration.
    fn behaves(&self, behaviour: &str) -> bool {
        self.definition.name == "kubelet" && self.loaded.1.lines().any(|line| line == behaviour)
    }
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

    fn services(&self) -> io::Result<Vec<ServiceDefinition>> {
        Ok(self.call()?.services.values().map(|service| service.definition.clone()).collect())
    }

    fn define(&self, definition: &ServiceDefinition) -> io::Result<()> {
        let mut state = self.write()?;
        let service = state.services.get_mut(&definition.name).ok_or(io::ErrorKind::NotFound)?;
        service.definition = definition.clone();
        Ok(())
    }

    fn state(&self, service: &str) -> io::Result<Option<ServiceState>> {
        Ok(self.call()?.services.get(service).map(|service| service.state))
    }

    fn process(&self, service: &str) -> io::Result<Option<u32>> {
        let state = self.call()?;
        let runs = |service: &&Service| service.state != ServiceState::Stopped;
        Ok(state.services.get(service).filter(runs).map(|service| service.pid))
    }

    fn processes(&self, program: &str) -> io::Result<Vec<u32>> {
        let state = self.call()?;
        let service = state.services.get(program.trim_end_matches(".exe"));
        let respawned = |service: &Service| match service.behaves("respawn") {
            true => u32::try_from((state.uptime - service.started).as_secs() / 3).unwrap_or_default(),
            false => 0,
        };
        let runs = |service: &&Service| service.state != ServiceState::Stopped;
        Ok(service.filter(runs).map(|service| service.pid + 1000 * respawned(service)).into_iter().collect())
    }

    fn start(&self, service: &str) -> io::Result<()> {
        self.call()?.start(service);
        Ok(())
    }

    fn stop(&self, service: &str) -> io::Result<()> {
        let mut state = self.call()?;
        let ignored = state.is("deaf");
        if state.services.get(service).is_some_and(|service| service.state == ServiceState::Pending) {
            return Err(io::Error::from_raw_os_error(1061));
        }
        let service = state.services.get_mut(service).filter(|_| !ignored);
        service.into_iter().for_each(|service| service.state = ServiceState::Stopped);
        Ok(())
    }

    fn kill(&self, pid: u32) -> io::Result<()> {
        let mut state = self.call()?;
        let killed = state.services.values_mut().filter(|service| service.pid == pid);
        killed.for_each(|service| service.state = ServiceState::Stopped);
        Ok(())
    }

    fn run(&self, program: &str, _: &[String], _: Duration) -> io::Result<Output> {
        Err(io::Error::new(io::ErrorKind::NotFound, format!("{program} does not exist")))
    }

    fn http_status(&self, port: u16, path: &str) -> io::Result<u16> {
        let state = self.call()?;
        match (port, path) {
            (10248, "/healthz") if state.healthy() => Ok(200),
            (10248, "/healthz") => Ok(500),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
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
        let renews = state.healthy() && !state.services["kubelet"].behaves("offline");
        Ok(renews.then_some(state.clock))
    }

    fn pods(&self) -> io::Result<BTreeMap<String, PodPhase>> {
        let state = self.call()?;
        if state.is("offline") {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(BTreeMap::from([("pod-1".to_owned(), state.pod)]))
    }

    fn kubelet_config(&self) -> Option<Value> {
        let max_pods = if self.0.borrow().services["kubelet"].behaves("overridden") { 110 } else { 42 };
        Some(json!({ "maxPods": max_pods }))
    }
}
