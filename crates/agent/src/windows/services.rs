//! Services: the service control manager, and its database in the registry.

use std::{env, fs, io, path::PathBuf, thread, time::Duration};

use windows_registry::{Key, LOCAL_MACHINE, Type};
use windows_service::{
    Error,
    service::{
        Service, ServiceAccess, ServiceActionType, ServiceErrorControl, ServiceInfo, ServiceStartType,
        ServiceState as State, ServiceStatus, ServiceType,
    },
    service_manager::{ServiceManager, ServiceManagerAccess},
};
use winpool_api::ServiceStart;

use super::{
    super::{
        expand::expand,
        host::{ServiceDefinition, ServicePolicy, ServiceState},
        layout::command_line::{file_name, split},
        windows_service::{RESTORE_ARGUMENTS, RESTORE_PROGRAM, RESTORE_SERVICE},
    },
    files, programs,
    registry::{self, FILE_NOT_FOUND},
};

/// The database of the service control manager.
/// <https://learn.microsoft.com/windows/win32/services/database-of-installed-services>
const DATABASE: &str = r"SYSTEM\CurrentControlSet\Services";

const IMAGE_PATH: &str = "ImagePath";

// <https://learn.microsoft.com/windows/win32/debug/system-error-codes>
const ACCESS_DENIED: u32 = 5;
const SERVICE_ALREADY_RUNNING: i32 = 1056;
/// A service whose process ends before it has answered a control (PowerShell/Win32-OpenSSH#1231).
const BROKEN_PIPE: i32 = 109;
const SERVICE_DOES_NOT_EXIST: i32 = 1060;
const SERVICE_CANNOT_ACCEPT_CONTROL: i32 = 1061;
const SERVICE_NOT_ACTIVE: i32 = 1062;
const SERVICE_MARKED_FOR_DELETE: i32 = 1072;
const SERVICE_EXISTS: i32 = 1073;

/// How often a stop is requested from a service that cannot accept it at that time.
const STOP_ATTEMPTS: u32 = 20;
const STOP_PAUSE: Duration = Duration::from_millis(50);

/// The definitions of the services that have a process of their own. Keys that only their owner may read are left out.
pub(super) fn definitions() -> io::Result<Vec<ServiceDefinition>> {
    let database = LOCAL_MACHINE.open(DATABASE)?;
    let mut definitions = Vec::new();
    for name in database.keys()? {
        if let Some(key) = optional(database.open(&name))? {
            definitions.extend(definition(name, &key)?);
        }
    }
    Ok(definitions)
}

/// The definition in the key of a service; `None` for drivers and for services that share a process.
fn definition(name: String, key: &Key) -> io::Result<Option<ServiceDefinition>> {
    let kind = ServiceType::from_bits_retain(optional(key.get_u32("Type"))?.unwrap_or_default());
    let Some(stored) = image_path(key)?.filter(|_| kind.contains(ServiceType::OWN_PROCESS)) else { return Ok(None) };
    let command = expanded(&stored);
    let unexpanded = Some(stored).filter(|stored| *stored != command && is_expandable(key));
    let (depends_on, environment) = (list(key, "DependOnService")?, list(key, "Environment")?);
    Ok(Some(ServiceDefinition { name, command, unexpanded, depends_on, environment }))
}

fn image_path(key: &Key) -> io::Result<Option<String>> {
    optional(key.get_string(IMAGE_PATH))
}

/// A command line with its variables expanded. It is `REG_EXPAND_SZ` on Windows, and `REG_SZ` on Wine.
fn expanded(command: &str) -> String {
    expand(command, |name| env::var(name).ok())
}

fn is_expandable(key: &Key) -> bool {
    key.get_type(IMAGE_PATH).is_ok_and(|kind| kind == Type::ExpandString)
}

/// A value of several strings. Some programs write empty strings at its end.
fn list(key: &Key, name: &str) -> io::Result<Vec<String>> {
    let strings = optional(key.get_multi_string(name))?.unwrap_or_default();
    Ok(strings.into_iter().filter(|string| !string.is_empty()).collect())
}

/// The result, or `None` if the key or value does not exist or must not be read.
fn optional<T>(result: windows_registry::Result<T>) -> io::Result<Option<T>> {
    registry::unless(result, &[FILE_NOT_FOUND, ACCESS_DENIED])
}

/// Writes command line and environment if they differ. A command line that expands to the one of the definition keeps its
/// `%VARIABLES%`, or gets those of the definition again.
pub(super) fn define(definition: &ServiceDefinition) -> io::Result<()> {
    let key = LOCAL_MACHINE.options().read().write().open(format!(r"{DATABASE}\{}", definition.name))?;
    let stored = image_path(&key)?;
    let unexpanded = definition.unexpanded.as_ref().filter(|text| expanded(text) == definition.command);
    let is_current = match unexpanded {
        Some(text) => stored.as_ref() == Some(text),
        None => stored.map(|stored| expanded(&stored)).as_ref() == Some(&definition.command),
    };
    if !is_current {
        set_command(&definition.name, unexpanded.unwrap_or(&definition.command))?;
        // Wine stores it as REG_SZ.
        unexpanded.map_or(Ok(()), |text| key.set_expand_string(IMAGE_PATH, text))?;
    }
    let environment: Vec<&str> = definition.environment.iter().map(String::as_str).collect();
    if environment == list(&key, "Environment")? {
        return Ok(());
    }
    match environment.as_slice() {
        [] => optional(key.remove_value("Environment")).map(drop),
        variables => Ok(key.set_multi_string("Environment", variables)?),
    }
}

/// Changes the command line through the service control manager, which keeps a copy of its database in memory.
fn set_command(name: &str, command: &str) -> io::Result<()> {
    let service = open(name, ServiceAccess::QUERY_CONFIG | ServiceAccess::CHANGE_CONFIG)?;
    let config = service.query_config().map_err(io_error)?;
    let info = ServiceInfo {
        name: name.into(),
        display_name: config.display_name,
        // SERVICE_NO_CHANGE. For all other types the command line would be quoted as if it were one path.
        service_type: ServiceType::from_bits_retain(u32::MAX),
        start_type: config.start_type,
        error_control: config.error_control,
        executable_path: command.into(),
        launch_arguments: Vec::new(),
        // Unchanged.
        dependencies: Vec::new(),
        account_name: None,
        account_password: None,
    };
    service.change_config(&info).map_err(io_error)
}

pub(super) fn policy(name: &str) -> io::Result<ServicePolicy> {
    let service = open(name, ServiceAccess::QUERY_CONFIG)?;
    let start = match service.query_config().map_err(io_error)?.start_type {
        // The first two are those of drivers.
        ServiceStartType::BootStart | ServiceStartType::SystemStart | ServiceStartType::AutoStart => {
            ServiceStart::Automatic
        }
        ServiceStartType::OnDemand => ServiceStart::Manual,
        ServiceStartType::Disabled => ServiceStart::Disabled,
    };
    let actions = service.get_failure_actions().ok().map(|failure| failure.actions.unwrap_or_default());
    let restarts = actions.map(|all| all.iter().any(|action| action.action_type == ServiceActionType::Restart));
    Ok(ServicePolicy { start, restarts })
}

pub(super) fn state(name: &str) -> io::Result<Option<ServiceState>> {
    let status = open(name, ServiceAccess::QUERY_STATUS).and_then(|service| service.query_status().map_err(io_error));
    match status {
        Ok(status) => Ok(Some(state_of(&status))),
        Err(error) if error.raw_os_error() == Some(SERVICE_DOES_NOT_EXIST) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The process of a service. Wine knows it only while the service runs.
pub(super) fn process(name: &str) -> io::Result<Option<u32>> {
    let status = open(name, ServiceAccess::QUERY_STATUS)?.query_status().map_err(io_error)?;
    match status.process_id.filter(|pid| *pid != 0) {
        None if status.current_state != State::Stopped => only_process(name),
        pid => Ok(pid),
    }
}

/// The only process of the program of a service, if no other service has that program.
fn only_process(name: &str) -> io::Result<Option<u32>> {
    let program = |definition: &ServiceDefinition| {
        split(&definition.command).first().map(|program| file_name(&program.value)).unwrap_or_default()
    };
    let definitions = definitions()?;
    let Some(own) = definitions.iter().find(|other| other.name.eq_ignore_ascii_case(name)).map(program) else {
        return Ok(None);
    };
    if definitions.iter().filter(|other| program(other) == own).count() > 1 {
        return Ok(None);
    }
    Ok(match programs::processes(&own)?[..] {
        [pid] => Some(pid),
        _ => None,
    })
}

/// A service that runs without a process has ended: Wine reports that if it is stopped twice at the same time.
fn state_of(status: &ServiceStatus) -> ServiceState {
    match (status.current_state, status.process_id.unwrap_or_default()) {
        (State::Stopped, _) | (State::Running, 0) => ServiceState::Stopped,
        (State::Running, pid) => ServiceState::Running { pid },
        _ => ServiceState::Pending,
    }
}

pub(super) fn start(name: &str) -> io::Result<()> {
    match open(name, ServiceAccess::START)?.start::<&str>(&[]).map_err(io_error) {
        Err(error) if error.raw_os_error() == Some(SERVICE_ALREADY_RUNNING) => Ok(()),
        result => result,
    }
}

pub(super) fn stop(name: &str) -> io::Result<()> {
    let service = open(name, ServiceAccess::STOP | ServiceAccess::QUERY_STATUS)?;
    let mut attempt = 1;
    loop {
        let Err(error) = service.stop().map_err(io_error) else { return Ok(()) };
        match error.raw_os_error() {
            Some(SERVICE_NOT_ACTIVE | BROKEN_PIPE) => return Ok(()),
            Some(SERVICE_CANNOT_ACCEPT_CONTROL) if attempt < STOP_ATTEMPTS => {}
            _ => return Err(error),
        }
        // It is starting, already stopping, or its process is about to end.
        let status = service.query_status().map_err(io_error)?;
        if status.current_state == State::StopPending || state_of(&status) == ServiceState::Stopped {
            return Ok(());
        }
        thread::sleep(STOP_PAUSE);
        attempt += 1;
    }
}

/// Copies this program to where Windows finds it without the agent's container, and defines the service that starts it.
pub(super) fn install_restore() -> io::Result<()> {
    let program = fs::read(env::current_exe()?)?;
    if files::read(RESTORE_PROGRAM)?.as_ref() != Some(&program) {
        files::replace(RESTORE_PROGRAM, &program)?;
    }
    let info = ServiceInfo {
        name: RESTORE_SERVICE.into(),
        display_name: "winpool restore".into(),
        service_type: ServiceType::OWN_PROCESS,
        start_type: ServiceStartType::AutoStart,
        error_control: ServiceErrorControl::Normal,
        executable_path: PathBuf::from(RESTORE_PROGRAM),
        launch_arguments: RESTORE_ARGUMENTS.map(Into::into).into(),
        dependencies: Vec::new(),
        account_name: None,
        account_password: None,
    };
    let manager = manager(ServiceManagerAccess::CREATE_SERVICE)?;
    match manager.create_service(&info, ServiceAccess::empty()).map_err(io_error) {
        Err(error) if error.raw_os_error() == Some(SERVICE_EXISTS) => {
            open(RESTORE_SERVICE, ServiceAccess::CHANGE_CONFIG)?.change_config(&info).map_err(io_error)
        }
        result => result.map(drop),
    }
}

/// Deletes the service. It is not stopped: if it runs, it is this program or one that restores files, and Windows deletes
/// the service when that has ended.
pub(super) fn remove_restore() -> io::Result<()> {
    let deleted = open(RESTORE_SERVICE, ServiceAccess::DELETE).and_then(|service| service.delete().map_err(io_error));
    match deleted {
        Err(error) if matches!(error.raw_os_error(), Some(SERVICE_DOES_NOT_EXIST | SERVICE_MARKED_FOR_DELETE)) => {
            Ok(())
        }
        result => result,
    }
}

fn open(name: &str, access: ServiceAccess) -> io::Result<Service> {
    manager(ServiceManagerAccess::CONNECT)?.open_service(name, access).map_err(io_error)
}

fn manager(access: ServiceManagerAccess) -> io::Result<ServiceManager> {
    ServiceManager::local_computer(None::<&str>, ServiceManagerAccess::CONNECT | access).map_err(io_error)
}

/// The system error, with its number.
fn io_error(error: Error) -> io::Error {
    match error {
        Error::Winapi(error) => error,
        error => io::Error::other(error),
    }
}
