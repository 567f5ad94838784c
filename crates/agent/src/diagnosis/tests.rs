use jiff::Timestamp;

use super::*;
use crate::tests::fake::{FakeHost, output, service};

const CONTAINERD: &str = r#""C:\Program Files\containerd\containerd.exe" --run-service"#;
const KUBELET: &str = r"C:\k\kubelet.exe --windows-service --config=C:\var\lib\kubelet\config.yaml";

/// The diagnosis of a node of kubeadm whose scripts print these lines.
fn diagnosis(lines: &[&str]) -> NodeDiagnosis {
    let host = FakeHost::with(vec![service("containerd", CONTAINERD, &[]), service("kubelet", KUBELET, &[])], &[]);
    host.0.borrow_mut().programs.push(("powershell.exe", "-NoProfile", output(0, &lines.join("\r\n"), "")));
    read(&host, Time(Timestamp::UNIX_EPOCH), Some(&json!({"containerLogMaxSize": "10Mi"})))
}

#[test]
fn each_list_is_what_the_script_printed_of_it() {
    let all = diagnosis(&[
        "network|nat|nat",
        "network|flannel.4096|Overlay",
        "network|read",
        "endpoint|10.244.1.7|False",
        "exception|10.96.0.0/12",
        "exception|10.244.0.0/16",
        "endpoint|10.244.1.8|False",
        "exception|10.96.0.0/12",
        "endpoint|10.244.2.9|True",
        "endpoint||False",
        "endpoint|read",
        "loadbalancer|read",
        "route|0.0.0.0/0|10.1.0.1|vEthernet (Ethernet)",
        "route|10.1.0.0/16|0.0.0.0|vEthernet (Ethernet)",
        "route|read",
        "port|10250",
        "port|135",
        "port|10250",
        "port|read",
        "adapter|vEthernet (Ethernet)|1500",
        "adapter|Loopback Pseudo-Interface 1|4294967295",
        "adapter|read",
        r"containerlog|73400320|C:\var\log\pods\shop_app_1\app\0.log",
    ]);
    let network = |name: &str, type_: &str| HnsNetwork { name: name.into(), type_: type_.into() };
    assert_eq!(all.networks, Some(vec![network("nat", "nat"), network("flannel.4096", "Overlay")]));
    assert_eq!(all.endpoints, Some(vec!["10.244.1.7".to_owned(), "10.244.1.8".to_owned()]), "of this node");
    assert_eq!(all.exceptions, Some(vec!["10.244.0.0/16".to_owned(), "10.96.0.0/12".to_owned()]));
    assert_eq!(all.load_balancers, Some(0));
    let adapter = "vEthernet (Ethernet)".to_owned();
    let route = RouteState { destination: "0.0.0.0/0".into(), next_hop: "10.1.0.1".into(), adapter: adapter.clone() };
    assert_eq!(all.routes, Some(vec![route]), "those to a gateway");
    assert_eq!(all.ports, Some(vec![135, 10250]));
    assert_eq!(all.adapters.unwrap()[0], AdapterState { name: adapter, mtu: 1500 });
    let path = r"C:\var\log\pods\shop_app_1\app\0.log".to_owned();
    assert_eq!(all.largest_log, Some(ContainerLog { path, mebibytes: 70, maximum_mebibytes: Some(10) }));
    assert_eq!((all.requested_at.0, all.logs), (Timestamp::UNIX_EPOCH, Vec::new()));
    let states: Vec<_> = all.services.iter().map(|service| (service.name.as_str(), service.state.name())).collect();
    assert_eq!(states, [("containerd", "Running"), ("kubelet", "Running")], "others do not exist");
}

#[test]
fn what_was_not_read_completely_is_absent() {
    let none = diagnosis(&[]);
    let lists = (&none.networks, &none.endpoints, &none.exceptions, &none.load_balancers, &none.routes, &none.ports);
    assert_eq!(lists, (&None, &None, &None, &None, &None, &None));
    assert_eq!((&none.adapters, &none.largest_log, none.logs.len()), (&None, &None, 0));
    assert_eq!(diagnosis(&["network|nat|nat"]).networks, None, "PowerShell ended before the list did");
    assert_eq!(diagnosis(&["network|read"]).networks, Some(Vec::new()));
}

#[test]
fn an_address_of_several_endpoints_is_shown_with_all_of_them() {
    let lines = ["endpoint|10.244.1.7|False", "endpoint|10.244.1.8|True", "endpoint|10.244.1.7|True", "endpoint|read"];
    assert_eq!(diagnosis(&lines).endpoints, Some(vec!["10.244.1.7".to_owned(); 2]));
}

#[test]
fn load_balancers_are_counted_in_both_forms_of_the_list() {
    let table: &[(&[&str], u32)] = &[
        // kubernetes/kubernetes#135802
        (
            &[
                "Load Balancer    : 3599612c-54b4-4b9d-9258-4fc5e2100549",
                "  Virtual IPs      : 172.30.0.1",
                "  Direct IP IDs    : 78c19c4d-7edf-43bd-ab2a-5ccf97f214fe",
            ],
            1,
        ),
        // One line for each, as in kubernetes/kubernetes#110849.
        (
            &[
                "Load Balancer                        | Virtual IPs | Direct IP IDs",
                "3599612c-54b4-4b9d-9258-4fc5e2100549 | 172.30.0.1  | 78c19c4d-7edf-43bd-ab2a-5ccf97f214fe",
                "4599612c-54b4-4b9d-9258-4fc5e2100549 | 172.30.0.10 | 78c19c4d-7edf-43bd-ab2a-5ccf97f214fe",
            ],
            2,
        ),
        (&["Load Balancer                        | Virtual IPs | Direct IP IDs"], 0),
        (&[], 0),
    ];
    for (printed, expected) in table {
        let lines: Vec<_> = printed.iter().map(|line| format!("loadbalancer|{line}")).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).chain(["loadbalancer|read"]).collect();
        assert_eq!(diagnosis(&lines).load_balancers, Some(*expected), "{printed:?}");
    }
}

#[test]
fn logs_have_their_last_lines_without_credentials() {
    let place = r"place|C:\var\log\kubelet\kubelet.log";
    let logs = diagnosis(&[
        place,
        "line|E1127 03:00:00.1 1 a.go:1] token=hunter22",
        "line|-----BEGIN PRIVATE KEY-----",
        "line|MII",
    ])
    .logs;
    assert_eq!(
        logs.iter().map(|log| &*log.service).collect::<Vec<_>>(),
        ["kubelet", "containerd", "kube-proxy", "nssm"]
    );
    assert_eq!(logs[0].place, r"C:\var\log\kubelet\kubelet.log");
    assert_eq!(logs[0].lines, ["E1127 03:00:00.1 1 a.go:1] token=***", "***", "***"]);
    assert_eq!(diagnosis(&[place]).logs, [], "an empty log is none");
}

#[test]
fn a_diagnosis_of_any_node_has_at_most_sixteen_kibibytes() {
    let name = "n".repeat(500);
    let mut lines = Vec::new();
    for number in 0..2000 {
        lines.push(format!("network|{name}{number}|Overlay"));
        lines.push(format!("endpoint|fd00:10:244:1:1111:2222:3333:{number}|False"));
        lines.push(format!("exception|fd00:10:244:1:1111:2222:{number}::/96"));
        lines.push(format!("route|10.{}.{}.0/24|10.1.0.1|{name}", number / 256, number % 256));
        lines.push(format!("port|{number}"));
        lines.push(format!("adapter|{name}|1500"));
    }
    lines.extend((1960..2000).map(|number| format!("line|{number} {}", "\"".repeat(500))));
    lines.extend(["network", "endpoint", "route", "port", "adapter"].map(|list| format!("{list}|read")));
    lines.push(format!("place|{name}"));
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let diagnosis = diagnosis(&lines);
    let size = json!(diagnosis).to_string().len();
    assert!((12 * 1024..=MAX_BYTES).contains(&size), "{size}");
    assert!(
        diagnosis.logs.iter().all(|log| log.lines.last().is_none_or(|last| last.starts_with("1999"))),
        "the newest stay"
    );
    assert_eq!(diagnosis.endpoints.unwrap().len(), MAX_ENDPOINTS);
}

#[test]
fn the_file_of_a_log_is_below_var_log_or_where_rke2_writes_it() {
    let kubelet = [
        r"C:\var\log\kubelet.log",
        r"C:\var\log\kubelet\kubelet.log",
        r"C:\var\log\kubelet\kubelet.err.log",
        r"C:\var\lib\rancher\rke2\agent\logs\kubelet.log",
    ];
    assert_eq!(paths(&LOG_SOURCES[0]), kubelet);
}
