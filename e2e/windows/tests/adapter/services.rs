//! The life of a service.

use std::time::{Duration, Instant};

use windows_service::service::ServiceAccess;
use winpool_agent::{
    host::{Host, ServiceState},
    windows::Windows,
};

use super::{Service, eventually, manager, number, os_error};

#[test]
fn a_service_that_does_not_exist_has_no_state_and_cannot_be_started_or_stopped() {
    assert_eq!(Windows.state("winpool-none").unwrap(), None);
    assert_eq!(os_error(Windows.start("winpool-none")), Some(1060));
    assert_eq!(os_error(Windows.stop("winpool-none")), Some(1060));
}

#[test]
fn start_and_stop_can_be_repeated() {
    let service = Service::kubelet("winpool-life", "healthzPort: 21001\r\n", "");
    assert_eq!(service.state(), Some(ServiceState::Stopped));
    Windows.stop(&service.name).unwrap();
    for _ in 0..3 {
        assert_eq!(Windows.process(&service.name).unwrap(), None);
        Windows.start(&service.name).unwrap();
        service.until_running();
        let pid = service.pid();
        assert_eq!(Windows.process(&service.name).unwrap(), Some(pid));
        Windows.start(&service.name).unwrap();
        assert_eq!(service.pid(), pid, "a running service is not started again");
        Windows.stop(&service.name).unwrap();
        Windows.stop(&service.name).unwrap();
        service.until_stopped();
    }
}

#[test]
fn the_end_of_a_running_service_is_observed() {
    let service = Service::kubelet("winpool-crash", "healthzPort: 21002\r\n", "");
    Windows.start(&service.name).unwrap();
    service.until_running();
    Windows.kill(service.pid()).unwrap();
    service.until_stopped();
}

#[test]
fn a_service_that_ends_before_it_runs_is_an_error_of_its_start() {
    for (config, behavior) in [("healthzPort: 21003\r\n", "exit-early"), ("maxPods: 0\r\n", "")] {
        let service = Service::kubelet("winpool-early", config, behavior);
        assert!(Windows.start(&service.name).is_err(), "{config} {behavior}");
        service.until_stopped();
    }
}

#[test]
fn a_service_that_does_not_finish_its_start_cannot_be_stopped_and_is_killed() {
    let service = Service::kubelet("winpool-pending", "healthzPort: 21004\r\n", "start-pending");
    Windows.start(&service.name).unwrap();
    assert_eq!(service.state(), Some(ServiceState::Pending));
    assert!(Windows.stop(&service.name).is_err());
    assert_eq!(service.state(), Some(ServiceState::Pending));

    let pid = Windows.process(&service.name).unwrap().unwrap();
    Windows.kill(pid).unwrap();
    eventually("its process has ended", || Windows.process(&service.name).unwrap().is_none());
    std::fs::write(service.directory.path().join("kubelet.yaml.behavior"), "").unwrap();
    Windows.start(&service.name).unwrap();
    service.until_running();
}

#[test]
fn a_service_that_ignores_its_stop_is_killed() {
    let service = Service::kubelet("winpool-ignore", "healthzPort: 21005\r\n", "ignore-stop");
    Windows.start(&service.name).unwrap();
    service.until_running();
    Windows.stop(&service.name).unwrap();
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(500) {
        assert!(matches!(service.state(), Some(ServiceState::Running { .. })));
    }
    Windows.kill(service.pid()).unwrap();
    service.until_stopped();
    let status = manager().open_service(&service.name, ServiceAccess::QUERY_STATUS).unwrap().query_status();
    assert_eq!(number(status), None);
}
