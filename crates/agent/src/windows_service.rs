//! The Windows service that restores the last good configuration: `winpool-agent restore --service`.

#![allow(clippy::disallowed_methods)] // I/O, and time

use std::{
    ffi::OsString,
    io,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use windows_service::{
    Error, define_windows_service,
    service::{ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType},
    service_control_handler::{self, ServiceControlHandlerResult},
    service_dispatcher,
};

/// The name of the service.
pub const RESTORE_SERVICE: &str = "winpool-restore";
/// The program of the service: a copy of the agent, because the agent's own program is in a container.
pub const RESTORE_PROGRAM: &str = r"C:\Program Files\winpool\winpool-agent.exe";
pub const RESTORE_ARGUMENTS: [&str; 2] = ["restore", "--service"];

/// The exit code of the service if its work failed. It is in the event log of Windows.
const FAILED: ServiceExitCode = ServiceExitCode::ServiceSpecific(1);

type Work = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// The work of the service. The service control manager calls a function without context.
static WORK: Mutex<Option<Work>> = Mutex::new(None);

define_windows_service!(service_entry, service_main);

/// Runs this process as the service: it is reported as running during the work, and as stopped afterwards. The work cannot
/// be stopped, because a configuration that is restored in part is worse than one that is restored late.
/// A failure of the work is the exit code of the service.
pub fn run(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    *WORK.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(work));
    match service_dispatcher::start(RESTORE_SERVICE, service_entry) {
        Err(Error::Winapi(error)) => Err(error),
        result => result.map_err(io::Error::other),
    }
}

fn service_main(_: Vec<OsString>) {
    let handler = |control| match control {
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    };
    // Without the service control manager there is nothing to report to, and it ends this process.
    let Ok(manager) = service_control_handler::register(RESTORE_SERVICE, handler) else { return };
    let report = |current_state, exit_code| {
        let _ = manager.set_service_status(ServiceStatus {
            service_type: ServiceType::OWN_PROCESS,
            current_state,
            controls_accepted: ServiceControlAccept::empty(),
            exit_code,
            checkpoint: 0,
            wait_hint: Duration::ZERO,
            process_id: None,
        });
    };
    report(ServiceState::Running, ServiceExitCode::NO_ERROR);
    let work = WORK.lock().unwrap_or_else(PoisonError::into_inner).take();
    let exit_code = match work.map(|work| work()) {
        Some(Err(_)) => FAILED,
        _ => ServiceExitCode::NO_ERROR,
    };
    report(ServiceState::Stopped, exit_code);
}
