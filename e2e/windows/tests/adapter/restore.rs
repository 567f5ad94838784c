//! The service that restores the last good configuration when Windows starts.

use std::{env, fs, time::Duration};

use windows_service::service::{ServiceAccess, ServiceConfig, ServiceExitCode, ServiceStartType, ServiceType};
use winpool_agent::{
    host::{Host, ServiceState},
    windows::Windows,
    windows_service::{RESTORE_PROGRAM, RESTORE_SERVICE},
};

use super::{eventually, exists, helper, manager, strings};

/// Installs or removes the service from another program, of which the service runs a copy. The agent repeats it too: a deleted
/// service exists until its process has ended.
fn set_restore_service(installed: bool) {
    let arguments = strings(&["set-restore-service", if installed { "true" } else { "false" }]);
    eventually("the restore service is set", || {
        let output = Windows.run(&helper(), &arguments, Duration::from_secs(60)).unwrap();
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        output.code == Some(0)
    });
}

fn config() -> ServiceConfig {
    manager().open_service(RESTORE_SERVICE, ServiceAccess::QUERY_CONFIG).unwrap().query_config().unwrap()
}

#[test]
fn the_restore_service_starts_a_copy_of_the_program_with_windows() {
    for _ in 0..2 {
        set_restore_service(true);
        let config = config();
        let command = r#""C:\Program Files\winpool\winpool-agent.exe" restore --service"#;
        assert_eq!(config.executable_path.to_str(), Some(command));
        assert_eq!(config.start_type, ServiceStartType::AutoStart);
        assert_eq!(config.service_type, ServiceType::OWN_PROCESS);
        assert_eq!(fs::read(RESTORE_PROGRAM).unwrap(), fs::read(helper()).unwrap());
    }
    fs::write(RESTORE_PROGRAM, "of an older version").unwrap();
    set_restore_service(true);
    assert_eq!(fs::read(RESTORE_PROGRAM).unwrap(), fs::read(helper()).unwrap());
    for _ in 0..2 {
        set_restore_service(false);
        assert_eq!(Windows.state(RESTORE_SERVICE).unwrap(), None);
    }
}

/// Starts the service, which ends by itself. Wine's service manager reports a timeout if it has ended before its state is read
/// (`service_wait_for_startup` in `programs/services/services.c`).
fn start_once() {
    const TIMEOUT: i32 = 1053;
    if let Err(error) = Windows.start(RESTORE_SERVICE) {
        assert_eq!(error.raw_os_error(), Some(TIMEOUT), "{error}");
    }
}

#[test]
fn the_restore_service_does_its_work_once_and_reports_a_failure() {
    let (restored, fails) = (env::temp_dir().join("winpool-restored"), env::temp_dir().join("winpool-restore-fails"));
    for (failure, exit_code) in [(false, ServiceExitCode::NO_ERROR), (true, ServiceExitCode::ServiceSpecific(1))] {
        let _ = fs::remove_file(&restored);
        if failure {
            fs::write(&fails, "").unwrap();
        }
        set_restore_service(true);
        start_once();
        eventually("it is stopped", || Windows.state(RESTORE_SERVICE).unwrap() == Some(ServiceState::Stopped));
        assert!(exists(&restored));
        let service = manager().open_service(RESTORE_SERVICE, ServiceAccess::QUERY_STATUS).unwrap();
        assert_eq!(service.query_status().unwrap().exit_code, exit_code);
        drop(service);
        set_restore_service(false);
    }
    fs::remove_file(fails).unwrap();
}

#[test]
fn the_program_of_the_restore_service_is_none_without_the_service_control_manager() {
    let arguments = strings(&["agent", "restore", "--service"]);
    let output = Windows.run(&helper(), &arguments, Duration::from_secs(60)).unwrap();
    assert_eq!(output.code, Some(1));
}
