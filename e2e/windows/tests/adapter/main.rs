//! The agent's adapter for Windows, on Windows or under Wine. The tests change services and the registry: run them in a
//! machine or a prefix of their own, one at a time.
#![cfg(windows)]
// clippy.toml allows these in tests, but takes a helper of a test for something else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod containerd;
mod definitions;
mod facts;
mod files;
mod programs;
mod restore;
mod services;

use std::{
    fs, io, path, process,
    thread::sleep,
    time::{Duration, Instant},
};

use windows_service::{
    Error,
    service::{ServiceAccess, ServiceDependency, ServiceErrorControl, ServiceInfo, ServiceStartType, ServiceType},
    service_manager::{ServiceManager, ServiceManagerAccess},
};
use winpool_agent::{
    host::{Host, ServiceState},
    windows::Windows,
};

/// <https://learn.microsoft.com/windows/win32/debug/system-error-codes>
const SERVICE_MARKED_FOR_DELETE: i32 = 1072;

/// The program of the tests.
fn helper() -> String {
    on_windows(env!("CARGO_BIN_EXE_helper"))
}

fn fake_kubelet() -> String {
    on_windows(env!("CARGO_BIN_EXE_fake-kubelet"))
}

fn fake_containerd() -> String {
    on_windows(env!("CARGO_BIN_EXE_fake-containerd"))
}

/// The path on Windows of a path of the system that has built the tests.
fn on_windows(path: &str) -> String {
    path::absolute(path).unwrap().into_os_string().into_string().unwrap()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Waits until a condition is true, on a busy machine too.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    const LIMIT: Duration = Duration::from_secs(120);
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// A service that is deleted at the end of its test.
struct Service {
    name: String,
    directory: tempfile::TempDir,
}

impl Service {
    /// A service that runs the fake kubelet with a configuration and a behavior.
    fn kubelet(name: &str, config: &str, behavior: &str) -> Self {
        let config = format!("kind: KubeletConfiguration\r\n{config}");
        Self::new(name, [&fake_kubelet(), "--windows-service"], "kubelet.yaml", &config, behavior)
    }

    /// A service that runs the fake containerd with a configuration and a behavior.
    fn containerd(name: &str, config: &str, behavior: &str) -> Self {
        Self::new(name, [&fake_containerd(), "--run-service"], "config.toml", config, behavior)
    }

    fn new(name: &str, [program, switch]: [&str; 2], file: &str, config: &str, behavior: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("node config ").tempdir().unwrap();
        let path = directory.path().join(file);
        fs::write(&path, config).unwrap();
        fs::write(directory.path().join(format!("{file}.behavior")), behavior).unwrap();
        let config = format!("--config={}", path.display());
        create_service(name, ServiceType::OWN_PROCESS, program, &[switch, &config], &[]);
        Self { name: name.to_owned(), directory }
    }

    fn state(&self) -> Option<ServiceState> {
        Windows.state(&self.name).unwrap()
    }

    fn pid(&self) -> u32 {
        match self.state() {
            Some(ServiceState::Running { pid }) => pid,
            state => panic!("{} is {state:?}", self.name),
        }
    }

    fn until_running(&self) {
        eventually("the service runs", || matches!(self.state(), Some(ServiceState::Running { .. })));
    }

    fn until_stopped(&self) {
        eventually("the service is stopped", || self.state() == Some(ServiceState::Stopped));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Ok(Some(ServiceState::Running { pid })) = Windows.state(&self.name) {
            let _ = Windows.kill(pid);
        }
        delete_service(&self.name);
        assert!(self.directory.path().exists());
    }
}

fn create_service(name: &str, kind: ServiceType, program: &str, arguments: &[&str], depends_on: &[&str]) {
    delete_service(name);
    let info = ServiceInfo {
        name: name.into(),
        display_name: name.into(),
        service_type: kind,
        start_type: ServiceStartType::OnDemand,
        error_control: ServiceErrorControl::Normal,
        executable_path: program.into(),
        launch_arguments: arguments.iter().map(Into::into).collect(),
        dependencies: depends_on.iter().map(|name| ServiceDependency::Service(name.into())).collect(),
        account_name: None,
        account_password: None,
    };
    // A deleted service exists until its process has ended.
    eventually("the former service is deleted", || {
        match manager().create_service(&info, ServiceAccess::QUERY_STATUS) {
            Err(Error::Winapi(error)) if error.raw_os_error() == Some(SERVICE_MARKED_FOR_DELETE) => false,
            result => result.map(|_| true).unwrap(),
        }
    });
}

fn delete_service(name: &str) {
    if let Ok(service) = manager().open_service(name, ServiceAccess::DELETE) {
        let _ = service.delete();
    }
}

fn manager() -> ServiceManager {
    ServiceManager::local_computer(None::<&str>, ServiceManagerAccess::ALL_ACCESS).unwrap()
}

/// The number of a system error.
fn number<T>(result: Result<T, Error>) -> Option<i32> {
    match result {
        Err(Error::Winapi(error)) => error.raw_os_error(),
        _ => None,
    }
}

/// Starts the helper beside the test.
fn start_helper(arguments: &[&str]) -> process::Child {
    process::Command::new(helper()).args(arguments).spawn().unwrap()
}

fn exists(path: &path::Path) -> bool {
    fs::exists(path).unwrap()
}

fn os_error<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}
