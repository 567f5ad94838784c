//! A program as a Windows service.

use std::{
    ffi::OsString,
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use windows_service::{
    define_windows_service,
    service::{ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType},
    service_control_handler::{self, ServiceControlHandlerResult},
    service_dispatcher,
};

use crate::behavior::{Behavior, Failure};

/// What a service does until the flag is set.
pub type Work = Box<dyn FnOnce(&AtomicBool) + Send>;
/// What a service does before it reports that it runs.
type Start = Box<dyn FnOnce() -> Work + Send>;

static START: Mutex<Option<(Behavior, Start)>> = Mutex::new(None);
static STOP: AtomicBool = AtomicBool::new(false);
static IGNORE_STOP: AtomicBool = AtomicBool::new(false);

define_windows_service!(service_entry, service_main);

/// Runs this process as a service, until it is stopped or its work ends.
pub fn run(behavior: Behavior, start: impl FnOnce() -> Work + Send + 'static) -> io::Result<()> {
    *START.lock().unwrap_or_else(PoisonError::into_inner) = Some((behavior, Box::new(start)));
    // The name of a service with a process of its own is not used.
    service_dispatcher::start("", service_entry).map_err(io::Error::other)
}

/// Handles a control. It has no context of its own: windows-service drops that with the first stop, and there can be others.
fn handle(control: ServiceControl) -> ServiceControlHandlerResult {
    match control {
        ServiceControl::Stop | ServiceControl::Shutdown => {
            STOP.store(!IGNORE_STOP.load(Ordering::Relaxed), Ordering::Relaxed);
            ServiceControlHandlerResult::NoError
        }
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    }
}

fn service_main(_: Vec<OsString>) {
    let Some((behavior, start)) = START.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    IGNORE_STOP.store(behavior.is(Failure::IgnoreStop), Ordering::Relaxed);
    let Ok(manager) = service_control_handler::register("", handle) else { return };
    let report = |current_state, controls_accepted| {
        let _ = manager.set_service_status(ServiceStatus {
            service_type: ServiceType::OWN_PROCESS,
            current_state,
            controls_accepted,
            exit_code: ServiceExitCode::NO_ERROR,
            checkpoint: 0,
            wait_hint: Duration::ZERO,
            process_id: None,
        });
    };
    if behavior.is(Failure::StartPending) {
        report(ServiceState::StartPending, ServiceControlAccept::empty());
        loop {
            thread::park();
        }
    }
    let work = start();
    report(ServiceState::Running, ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN);
    work(&STOP);
    report(ServiceState::Stopped, ServiceControlAccept::empty());
}
