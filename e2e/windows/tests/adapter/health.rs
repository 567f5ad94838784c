//! Health checks on the loopback interface.

use winpool_agent::{host::Host, windows::Windows};

use super::{Service, eventually};

#[test]
fn the_status_of_a_health_check_follows_the_service() {
    for (port, behavior, expected) in [(21101, "", 200), (21102, "unhealthy", 500), (21103, "slow=700", 200)] {
        let service = Service::kubelet("winpool-health", &format!("healthzPort: {port}\r\n"), behavior);
        assert!(Windows.http_status(port, "/healthz").is_err(), "{behavior}: it does not run yet");
        Windows.start(&service.name).unwrap();
        eventually("it answers", || Windows.http_status(port, "/healthz").is_ok());
        assert_eq!(Windows.http_status(port, "/healthz").unwrap(), expected, "{behavior}");
        Windows.stop(&service.name).unwrap();
        service.until_stopped();
        // A service reports that it is stopped before its process ends.
        eventually("it does not answer any more", || Windows.http_status(port, "/healthz").is_err());
    }
}

#[test]
fn a_health_check_without_answer_is_an_error() {
    let service = Service::kubelet("winpool-hang", "healthzPort: 21104\r\n", "hang");
    Windows.start(&service.name).unwrap();
    service.until_running();
    assert!(Windows.http_status(21104, "/healthz").is_err());
}
