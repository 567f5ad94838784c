//! `winpool doctor`: what its rules find in what people have reported, and what they do not find.

mod fleet;
mod recorded;

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Output},
};

use fleet::{Fleet, merged, without};
use proptest::{collection::vec, prelude::*};
use recorded::recorded;
use serde_json::{Value, json};
use winpool_check::doctor::{Diagnosis, DiagnosisSubject, Evidence, EvidencePart, SYMPTOMS, Symptom, reduced};
use winpool_facts::catalogue::Entry;

use crate::status_page::assert_blocks;

fn diagnosis(evidence: &Value) -> Diagnosis {
    Diagnosis::of(&Evidence::from_parts(serde_json::from_value(evidence.clone()).unwrap()).unwrap())
}

/// Whether lines of logs can show a symptom, which never exclude it.
fn is_logged(symptom: &Symptom) -> bool {
    symptom.parts().contains(&EvidencePart::NodeLogs)
}

/// Why a symptom is not determinable.
fn because(diagnosis: &Diagnosis, id: &str) -> String {
    let symptom = diagnosis.not_determinable.iter().find(|symptom| symptom.id == id);
    symptom.unwrap_or_else(|| panic!("{id} in {diagnosis:#?}")).because.to_string()
}

/// The symptoms that count, and the others.
fn found(diagnosis: &Diagnosis) -> Vec<&str> {
    diagnosis.found.iter().chain(&diagnosis.also).map(|found| found.id).collect()
}

/// The component and the text of the errors that no symptom explains.
fn unexplained(diagnosis: &Diagnosis) -> Vec<String> {
    diagnosis.unexplained.iter().map(|error| format!("{}: {}", error.component, error.text)).collect()
}

fn undetermined(diagnosis: &Diagnosis) -> BTreeSet<&str> {
    diagnosis.not_determinable.iter().map(|symptom| symptom.id).collect()
}

#[test]
fn each_symptom_is_found_in_what_its_source_reports_and_excluded_in_a_healthy_fleet() {
    let healthy = diagnosis(&Fleet::default().evidence());
    let mut shown = BTreeSet::new();
    for (ids, case) in recorded() {
        let found_in_case = diagnosis(&case);
        assert_eq!(found(&found_in_case), ids, "{case:#}");
        assert_eq!(unexplained(&found_in_case), [""; 0], "{ids:?}: a row explains the error");
        let (id, symptom) = (ids[0], found_in_case.found.iter().chain(&found_in_case.also).next().unwrap());
        assert!(!symptom.evidence.is_empty() && symptom.evidence.iter().all(|one| !one.object.is_empty()), "{id}");
        match SYMPTOMS.iter().find(|symptom| symptom.entry.code == id).unwrap() {
            symptom if is_logged(symptom) => {
                let expected = format!("no line of the logs shows it. Run on the node: {}", symptom.command().unwrap());
                assert_eq!(because(&healthy, id), expected);
            }
            _ => assert!(healthy.excluded.contains(&id), "{id}"),
        }
        shown.insert(id);
    }
    // Only the program that writes a condition knows which status is a problem.
    let by_nodes = SYMPTOMS.iter().filter(|symptom| symptom.parts().is_empty()).map(|symptom| symptom.entry.code);
    for symptom in SYMPTOMS.iter().filter(|symptom| symptom.parts().is_empty()) {
        let expected = format!("only the node can show this. Run there: {}", symptom.command().unwrap());
        assert_eq!(because(&healthy, symptom.entry.code), expected);
    }
    let others: BTreeSet<_> = by_nodes.chain(["node-other-condition"]).collect();
    let all: BTreeSet<_> = SYMPTOMS.iter().map(|symptom| symptom.entry.code).collect();
    assert_eq!(&all - &others, shown, "every symptom has a recorded case");
    assert_eq!(all.len(), SYMPTOMS.len(), "ids are unique");
}

#[test]
fn an_error_without_a_row_is_reported_with_its_component_and_what_its_pods_have_in_common() {
    let mut fleet = Fleet { nodes: 2, pods: 3, ..Fleet::default() };
    fleet.pending(
        "CreateContainerError",
        "failed to create containerd task: hcs::System::Start: The device is busy. (0x1f): unknown",
    );
    let diagnosis = diagnosis(&fleet.evidence());
    assert_eq!(found(&diagnosis), [""; 0]);
    let expected = json!([{
        "component": "containerd or the host compute service",
        "text": "failed to create containerd task: hcs::System::Start: The device is busy. (0x1f): unknown",
        "place": "container app, waiting: CreateContainerError",
        "objects": ["Pod shop/app-0-0", "Pod shop/app-0-1", "Pod shop/app-0-2", "Pod shop/app-1-0", "Pod shop/app-1-1"],
        "more": 1,
        "since": null,
        "last": null,
        "nodes": ["win-0", "win-1"],
        "common": ["Windows 10.0.20348.4529", "kubelet v1.34.1", "containerd://2.3.7", "CNI kube-system/calico-node-windows",
                   "image registry.example/app:1"],
        "codes": ["0x1F ERROR_GEN_FAILURE: a device does not work"],
        "collect": ["winpool doctor node/win-0 --node-logs",
                    "on the node: Get-WinEvent -LogName Microsoft-Windows-Hyper-V-Compute-Operational -MaxEvents 50"],
    }]);
    assert_eq!(json!(diagnosis.unexplained), expected);
    assert_eq!(diagnosis.summary().unwrap(), "1 error that no symptom explains of pool web");
}

#[test]
fn each_kind_of_error_is_reported_although_no_row_has_its_text() {
    let pod = |change: fn(&mut Fleet)| {
        let mut fleet =
            Fleet { subject: json!({"kind": "pod", "namespace": "shop", "name": "app-0-0"}), ..Fleet::default() };
        change(&mut fleet);
        fleet.evidence()
    };
    let ended = |code: i32| {
        let mut fleet = Fleet::default();
        fleet.pending("CrashLoopBackOff", "back-off 5m0s restarting failed container");
        fleet.pod_status["phase"] = json!("Running");
        fleet.pod_status["containerStatuses"][0]["lastState"] =
            json!({"terminated": {"exitCode": code, "reason": "Error"}});
        fleet.evidence()
    };
    let unscheduled = |fleet: &mut Fleet| {
        fleet.pending("ContainerCreating", "");
        let message = "0/3 nodes are available: 3 node(s) had untolerated taint(s).";
        fleet.pod_status["conditions"] =
            json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]);
    };
    let unready = |fleet: &mut Fleet| {
        fleet.pod_status["conditions"] = json!([{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]"}]);
    };
    let log = |service: &'static str, line: &str| {
        Fleet { logs: vec![(service, line.to_owned())], ..Fleet::default() }.evidence()
    };
    let fatal = "F1126 02:00:00.000000 1 main.go:1] cannot open the database";
    let of_node = |reason: &str, reporter: &str, message: &str| {
        let mut evidence = Fleet::default().evidence();
        let about = json!({"kind": "Node", "name": "win-0", "uid": "win-0"});
        let event = json!({"metadata": {"name": "e", "namespace": "default"}, "involvedObject": about, "type": "Warning",
                           "reason": reason, "source": {"component": reporter}, "message": message});
        evidence["events"]["read"]["items"].as_array_mut().unwrap().push(event);
        evidence
    };
    for (reason, reporter) in [("Rebooted", "kubelet"), ("InvalidDiskCapacity", "kubelet"), ("NoPool", "winpool")] {
        assert_eq!(unexplained(&diagnosis(&of_node(reason, reporter, "it was so"))), [""; 0], "{reason}");
    }
    let table = [
        (of_node("ImageGCFailed", "kubelet", "failed to garbage collect"), "kubelet: failed to garbage collect"),
        (of_node("FailedToCreateRoute", "route_controller", "no quota"), "route_controller: no quota"),
        (ended(1), "program of the container: exit code 1: a code of the program itself, whose output says why"),
        (
            ended(0),
            "program of the container: exit code 0: the program has ended without an error, and the kubelet starts it again",
        ),
        (pod(unscheduled), "kube-scheduler: 0/3 nodes are available: 3 node(s) had untolerated taint(s)."),
        (pod(unready), "kubelet: containers with unready status: [app]"),
        (
            pod(|fleet| {
                fleet.pending("ContainerCreating", "");
                fleet.events(&["Unhealthy"], "Readiness probe failed: HTTP probe failed with statuscode: 503");
            }),
            "program of the container: Readiness probe failed: HTTP probe failed with statuscode: 503",
        ),
        (
            pod(|fleet| {
                fleet.pending("ContainerCreating", "");
                fleet.events(
                    &["FailedMount"],
                    "MountVolume.SetUp failed for volume \"a\" : the disk is in use elsewhere",
                );
                fleet.events(&["FailedMount"], "Unable to attach or mount volumes: unmounted volumes=[a]");
            }),
            "kubelet: MountVolume.SetUp failed for volume \"a\" : the disk is in use elsewhere",
        ),
        (log("kubelet", fatal), "kubelet: F1126 02:00:00.000000 1 main.go:1] cannot open the database"),
        (log("nssm", "panic: assignment to entry in nil map"), "nssm: panic: assignment to entry in nil map"),
    ];
    for (case, expected) in table {
        let diagnosis = diagnosis(&case);
        assert_eq!(found(&diagnosis), [""; 0], "{expected}");
        assert_eq!(unexplained(&diagnosis), [expected]);
    }
}

#[test]
fn lines_of_logs_that_are_no_fatal_ones_are_reported_of_nodes_in_trouble_only() {
    let line = r#"E1126 02:00:00.000000 1 a.go:1] "Cannot read the registry" err="x""#;
    let mut fleet = Fleet { nodes: 1, logs: vec![("kubelet", line.to_owned())], ..Fleet::default() };
    assert_eq!(unexplained(&diagnosis(&fleet.evidence())), [""; 0]);
    fleet.condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
    fleet.renewed = "2026-11-26T02:50:00Z";
    let diagnosis = diagnosis(&fleet.evidence());
    assert_eq!((found(&diagnosis), unexplained(&diagnosis)), (vec!["node-silent"], vec![format!("kubelet: {line}")]));
}

#[test]
fn a_known_issue_alone_is_no_failure_and_causes_come_before_what_follows_from_them() {
    let old = |mut case: Value| {
        case["nodes"]["read"]["items"][0]["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.28.0");
        diagnosis(&case)
    };
    let healthy = old(Fleet::default().evidence());
    assert_eq!((found(&healthy), healthy.summary()), (vec!["known-issue"], None));
    let mut fleet = Fleet::default();
    fleet.logs.push(("nssm", r"Program C:\k\kubelet.exe for service kubelet exited with return code 1.".to_owned()));
    fleet.logs.push(("kubelet", "Error: unknown flag: --cloud-config".to_owned()));
    fleet.condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
    fleet.renewed = "2026-11-26T02:50:00Z";
    let silent = old(fleet.evidence());
    assert_eq!(found(&silent), ["unknown-flag", "node-silent", "service-exits", "known-issue"]);
    assert_eq!(silent.summary().unwrap(), "3 symptoms of pool web");
}

#[test]
fn a_new_pod_is_said_to_be_new_and_does_not_exclude_that_it_stays_so() {
    let mut fleet = Fleet::default();
    fleet.pending("ContainerCreating", "");
    let young = diagnosis(&fleet.evidence());
    let expected = "too new to be judged: Pod shop/app-0-0, which began at 2026-11-26T02:55:00Z: images for Windows are large, so look again \
                    after 10 minutes";
    assert_eq!(because(&young, "container-creating"), expected);
}

#[test]
fn a_host_process_pod_has_the_names_of_its_host() {
    let pod_spec = json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true, "containers": [{"name": "app", "image": "a:1"}],
                            "securityContext": {"windowsOptions": {"hostProcess": true}}});
    let fleet = Fleet { pod_spec, ..Fleet::default() };
    assert!(diagnosis(&fleet.evidence()).excluded.contains(&"dns-policy"));
}

#[test]
fn a_bundle_is_read_for_any_subject_in_it() {
    let mut fleet = Fleet { nodes: 2, pods: 2, ..Fleet::default() };
    fleet.sandbox("failed to reserve sandbox name");
    let bundle = Evidence::from_parts(serde_json::from_value(fleet.evidence()).unwrap()).unwrap();
    let pod =
        |namespace: &str, name: &str| DiagnosisSubject::Pod { namespace: namespace.to_owned(), name: name.to_owned() };
    let node = |name: &str| DiagnosisSubject::Node { name: name.to_owned() };
    let table = [
        (pod("shop", "app-1-0"), Ok(("pod shop/app-1-0", 1))),
        (pod("default", "app-1-0"), Ok(("pod shop/app-1-0", 1))),
        (node("win-1"), Ok(("node win-1", 2))),
        (DiagnosisSubject::Pool { name: "web".to_owned() }, Ok(("pool web", 4))),
        (node("win-7"), Err("it has no node win-7, but win-0, win-1")),
        (DiagnosisSubject::Pool { name: "other".to_owned() }, Err("it is about pool web")),
    ];
    for (subject, expected) in table {
        let about = bundle.clone().about(subject).map(|evidence| Diagnosis::of(&evidence));
        let actual = about.as_ref().map(|of| (of.subject.as_str(), of.found[0].evidence.len() + of.found[0].more));
        assert_eq!(actual.map_err(String::as_str), expected);
    }
}

#[test]
fn a_remedy_has_commands_with_the_names_of_the_first_evidence() {
    for symptom in SYMPTOMS {
        assert!(symptom.entry.remedy.contains('`'), "{} has no command", symptom.entry.code);
    }
    let mut fleet = Fleet::default();
    fleet.pending("CreateContainerConfigError", "configmap \"settings\" not found");
    let found = diagnosis(&fleet.evidence()).found.remove(0);
    let expected = "`kubectl -n shop get configmaps,secrets`, and create it, or mark it as `optional: true` in the pod";
    assert_eq!((found.id, found.remedy.as_str()), ("object-missing", expected));
}

#[test]
fn evidence_is_the_text_as_it_was_written_and_at_most_five_of_many() {
    let text = "open /run/flannel/subnet.env: The system cannot find the path specified.";
    let mut fleet = Fleet { pods: 9, ..Fleet::default() };
    fleet.sandbox(text);
    let diagnosis = diagnosis(&fleet.evidence());
    let found = json!(diagnosis.found[0]);
    assert_eq!(
        found["evidence"][0],
        json!({"object": "Pod shop/app-0-0", "place": "event FailedCreatePodSandBox", "text": text})
    );
    assert_eq!((found["evidence"].as_array().unwrap().len(), &found["more"]), (5, &json!(4)));
    assert_eq!(diagnosis.summary().unwrap(), "1 symptom of pool web");
}

#[test]
fn each_log_that_is_not_read_or_cut_is_named_and_excludes_nothing() {
    let mut fleet = Fleet { nodes: 3, ..Fleet::default() };
    let mut case = fleet.evidence();
    let logs = case["nodeLogs"]["read"]["items"].as_array_mut().unwrap();
    let mut of = |service: &str, node: &str, content: Value| {
        let log = logs.iter_mut().find(|log| log["service"] == service && log["node"] == node).unwrap();
        log["content"] = content;
    };
    of("kube-proxy", "win-0", json!({"unread": "the node has neither events nor a file of it"}));
    of("kube-proxy", "win-1", json!({"read": {"place": "event log Application", "lines": [], "cut": true}}));
    of("kubelet", "win-2", json!({"unread": "the time limit"}));
    let expected = "no line of the logs that were read shows it (kube-proxy on win-0 is not read: the node has neither events nor a \
                    file of it, kube-proxy on win-1 is cut). Run on the node: Get-HnsNetwork | ? Name -ieq \"cbr0\"";
    assert_eq!(because(&diagnosis(&case), "kube-proxy-network"), expected);

    let not_requested = json!({"unavailable": "give --node-logs"});
    let case = without(&case, EvidencePart::NodeLogs, &not_requested);
    let expected =
        "logs of nodes are not read: give --node-logs. Run on the node: Get-HnsNetwork | ? Name -ieq \"cbr0\"";
    assert_eq!(because(&diagnosis(&case), "kube-proxy-network"), expected);

    fleet.logs = ["first", "last"].map(|text| ("kube-proxy", format!("Unable to find HNS Network, {text}"))).to_vec();
    let found = json!(diagnosis(&fleet.evidence()).found[0]);
    let expected = json!({"object": "Node win-0", "place": r"log of kube-proxy, C:\var\log\kube-proxy.log",
                          "text": "Unable to find HNS Network, last"});
    assert_eq!(
        (&found["evidence"][0], found["evidence"].as_array().unwrap().len()),
        (&expected, 3),
        "one of each node"
    );
}

#[test]
fn a_node_without_a_diagnosis_excludes_nothing_and_the_command_that_requests_one_is_printed() {
    let first = |evidence: &mut Value| evidence["nodeConfigs"]["read"]["items"].as_array_mut().unwrap()[0].take();
    let command = |node: &str| {
        Some(format!("kubectl annotate wnp web winpool.dev/diagnose={node}@2026-11-26T03:00:00Z --overwrite"))
    };
    let mut fleet = Fleet { nodes: 2, answered: false, ..Fleet::default() };
    let not_requested = fleet.evidence();
    fleet.answered = true;
    let mut one_has_not_answered = fleet.evidence();
    let mut of_first = first(&mut one_has_not_answered);
    of_first["status"]["diagnosis"].take();
    one_has_not_answered["nodeConfigs"]["read"]["items"][0] = of_first;
    let mut one_has_no_agent = fleet.evidence();
    one_has_no_agent["nodeConfigs"]["read"]["items"].as_array_mut().unwrap().remove(0);
    fleet.answer = json!({"requestedAt": "2026-11-26T02:20:00Z"});
    let old = fleet.evidence();
    fleet.answer = json!({"networks": null});
    let not_read = fleet.evidence();
    let forbidden = without(&not_requested, EvidencePart::NodeConfigs, &json!({"unavailable": "forbidden"}));
    let table = [
        (
            not_requested,
            "agents do not show it (no diagnosis of win-0 is requested, no diagnosis of win-1 is requested)",
            command("win-0"),
        ),
        (
            one_has_not_answered,
            "agents do not show it (a diagnosis of win-0 is requested since 2026-11-26T02:58:00Z, and not there yet)",
            None,
        ),
        (one_has_no_agent, "agents do not show it (win-0 has no agent)", None),
        (
            old,
            "agents do not show it (a diagnosis of win-0 is requested since 2026-11-26T02:58:00Z, and not there yet, a diagnosis of win-1 \
             is requested since 2026-11-26T02:58:00Z, and not there yet)",
            None,
        ),
        (not_read, "agents do not show it (win-0 has not read its networks, win-1 has not read its networks)", None),
        (forbidden, "windowsnodeconfigs are not read: forbidden", None),
    ];
    for (case, expected, request) in table {
        let diagnosis = diagnosis(&case);
        let because = because(&diagnosis, "hns-network");
        assert_eq!(because.split_once(". Run on the node: ").unwrap().0, expected);
        assert_eq!(diagnosis.request, request, "{expected}");
    }
    let mut unready = Fleet { nodes: 2, answered: false, ..Fleet::default() }.evidence();
    unready["nodes"]["read"]["items"][1]["status"]["conditions"][0]["status"] = json!("False");
    assert_eq!(diagnosis(&unready).request, command("win-1"), "a node that is not ready comes first");
}

#[test]
fn the_answer_of_one_agent_is_enough_to_find_a_symptom() {
    let mut fleet = Fleet { nodes: 2, ..Fleet::default() };
    fleet.answer = json!({"loadBalancers": 0});
    let mut case = fleet.evidence();
    case["nodeConfigs"]["read"]["items"].as_array_mut().unwrap().remove(0);
    let found = json!(diagnosis(&case).found[0]);
    let text = "there is none, and kube-proxy runs: at least that of the Service kubernetes is missing";
    let expected = json!([{"object": "Node win-1", "place": "load balancers of HNS", "text": text}]);
    assert_eq!((&found["id"], &found["evidence"]), (&json!("load-balancers-lost"), &expected));
}

#[test]
fn what_an_answer_does_not_prove_is_not_determinable() {
    let table = [
        (
            "mtu",
            json!({"adapters": [{"name": "vEthernet (Ethernet)", "mtu": 1500}]}),
            "the network of win-0 may have a smaller MTU than its adapters: vEthernet (Ethernet) 1500",
        ),
        (
            "exception-list",
            json!({"exceptions": ["10.244.0.0/16", "100.64.0.0/10", "fd00::/48"]}),
            "compare the address with the ExceptionList of win-0: 10.244.0.0/16, 100.64.0.0/10, fd00::/48",
        ),
        (
            "log-rotation",
            json!({"largestLog": {"path": "a", "mebibytes": 900}}),
            "win-0 has not read containerLogMaxSize",
        ),
        ("service-stopped", json!({"services": []}), "win-0 has not read its services"),
        ("kubelet-port", json!({"ports": null}), "win-0 has not read its ports"),
        (
            "kubelet-port",
            json!({"ports": [], "services": [{"name": "other", "state": "Running"}]}),
            "the kubelet of win-0 does not run",
        ),
        ("kubelet-port", json!({"ports": vec![1; 128]}), "win-0 has more ports than an answer lists"),
    ];
    for (id, answer, expected) in table {
        let because = because(&diagnosis(&Fleet { answer, ..Fleet::default() }.evidence()), id);
        assert!(because.starts_with(&format!("agents do not show it ({expected}). ")), "{because}");
    }
    // Without kube-proxy, for instance with another program for Services, there are no load balancers.
    let answer = json!({"loadBalancers": 0});
    let without_proxy = Fleet { answer, components: vec![false, true, true], ..Fleet::default() };
    assert!(diagnosis(&without_proxy.evidence()).excluded.contains(&"load-balancers-lost"));
    // A pod that began after the reading, and one with the network of the node.
    for change in [
        |pod: &mut Value| {
            pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-26T02:59:00Z")
        },
        |pod: &mut Value| pod["spec"]["hostNetwork"] = json!(true),
        |pod: &mut Value| pod["spec"]["securityContext"] = json!({"windowsOptions": {"hostProcess": true}}),
    ] {
        let mut case = Fleet { answer: json!({"endpoints": []}), ..Fleet::default() }.evidence();
        change(&mut case["pods"]["read"]["items"][3]);
        assert!(diagnosis(&case).excluded.contains(&"hns-endpoint-missing"), "{case:#}");
    }
}

#[test]
fn the_port_of_a_kubelet_is_the_one_that_its_node_reports() {
    let mut case = Fleet { answer: json!({"ports": [10350]}), ..Fleet::default() }.evidence();
    assert_eq!(found(&diagnosis(&case)), ["kubelet-port"]);
    case["nodes"]["read"]["items"][0]["status"]["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": 10350}});
    assert!(diagnosis(&case).excluded.contains(&"kubelet-port"));
}

#[test]
fn an_address_that_no_node_reports_is_not_judged_and_one_that_somebody_sets_is_right() {
    let with = |annotations: Value| {
        let mut case = Fleet::default().evidence();
        case["nodes"]["read"]["items"][0]["metadata"]["annotations"] = annotations;
        diagnosis(&case)
    };
    let other = json!({"flannel.alpha.coreos.com/public-ip": "203.0.113.7"});
    let expected = "the CNI of win-0 uses 203.0.113.7, which win-0 does not report. If the address has changed, restart the CNI on the node";
    assert_eq!(because(&with(other), "node-address"), expected);
    let set = json!({"flannel.alpha.coreos.com/public-ip": "203.0.113.7", "flannel.alpha.coreos.com/public-ip-overwrite": "203.0.113.7"});
    assert!(with(set).excluded.contains(&"node-address"));
}

#[test]
fn a_line_shows_a_symptom_with_all_parts_of_its_text() {
    for line in [
        r#"E1126 1 run.go:74] "command failed" err="node \"win-0\" does not have any PodCIDR allocated""#,
        r#"W1126 1 server.go:601] Failed to retrieve node info: nodes "win-0" is forbidden: User "system:kube-proxy" cannot get"#,
    ] {
        let fleet = Fleet { logs: vec![("kube-proxy", line.to_owned())], ..Fleet::default() };
        assert_eq!(found(&diagnosis(&fleet.evidence())), Vec::<&str>::new(), "{line}");
    }
}

#[test]
fn the_registry_shows_a_symptom_only_with_the_platforms_of_the_image() {
    let windows = |version: &str| json!({"read": [{"os": "windows", "architecture": "amd64", "osVersion": version}]});
    let linux = json!({"read": [{"os": "linux", "architecture": "amd64"}]});
    let image = "registry.example/app:1";
    let node = "the node runs only images for 10.0.20348 (ltsc2022)";
    let not_shown = |why: &str| Err(format!("the platforms do not show it ({image}: {why})"));
    let hyper_v = "it runs with Hyper-V isolation only, which the handler of RuntimeClass web may have";
    let table = [
        (windows("10.0.20348.1"), json!({}), Ok(None)),
        (windows("10.0.17763.1"), json!({}), Ok(Some(format!("{image} is for 10.0.17763.1 (ltsc2019), and {node}")))),
        (
            windows("10.0.17763.1"),
            json!({"hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true}}}),
            Ok(None),
        ),
        (windows("10.0.17763.1"), json!({"runtimeClassName": "web"}), not_shown(hyper_v)),
        (linux.clone(), json!({"runtimeClassName": "web"}), Ok(Some(format!("{image} is for linux/amd64 only")))),
        (json!({"unread": "registry.example: timeout"}), json!({}), not_shown("registry.example: timeout")),
    ];
    let running = json!({"running": {"startedAt": "2026-11-26T02:00:00Z"}});
    let mut runs = Fleet {
        pod_status: json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}),
        ..Fleet::default()
    };
    runs.pod_status["containerStatuses"] =
        json!([{"name": "app", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": running}]);
    let mut case = runs.evidence();
    case["images"]["read"]["items"] = json!([{ "image": image, "content": linux }]);
    assert!(diagnosis(&case).excluded.contains(&"image-platform"), "a container that runs has a variant");
    for (content, spec, expected) in table {
        let mut fleet = Fleet::default();
        fleet.pending("ErrImagePull", "");
        fleet.pod_spec = merged(fleet.pod_spec, &spec);
        let mut case = fleet.evidence();
        case["images"]["read"]["items"] = json!([{ "image": image, "content": content }]);
        let diagnosis = diagnosis(&case);
        let text =
            diagnosis.found.iter().find(|one| one.id == "image-platform").map(|one| one.evidence[0].text.clone());
        let actual = match text {
            None if !diagnosis.excluded.contains(&"image-platform") => Err(because(&diagnosis, "image-platform")),
            text => Ok(text),
        };
        assert_eq!(actual, expected, "{case:#}");
    }
}

#[test]
fn the_ends_of_logs_that_an_agent_has_read_show_symptoms_too() {
    let line = "E1126 02:00:00.1 1 hns.go:1] \"Unable to find HNS Network\" name=\"cbr0\"";
    let log = json!({"service": "kube-proxy", "place": r"C:\var\log\kube-proxy.log", "lines": [line]});
    let case = Fleet { answer: json!({ "logs": [log] }), ..Fleet::default() }.evidence();
    let not_requested = json!({"unavailable": "give --node-logs"});
    let found = json!(diagnosis(&without(&case, EvidencePart::NodeLogs, &not_requested)).found[0]);
    let place = r"log of kube-proxy, C:\var\log\kube-proxy.log, by the agent";
    let expected = json!([{"object": "Node win-0", "place": place, "text": line}]);
    assert_eq!((&found["id"], &found["evidence"]), (&json!("kube-proxy-network"), &expected));
}

#[test]
fn an_acknowledged_issue_is_no_symptom() {
    let mut case = Fleet::default().evidence();
    case["nodes"]["read"]["items"][0]["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.28.0");
    assert_eq!(found(&diagnosis(&case)), ["known-issue"]);
    let ids: Vec<_> = winpool_facts::known_issues::KNOWN_ISSUES.iter().map(|issue| issue.entry.code).collect();
    case["pools"]["read"]["items"][0]["metadata"]["annotations"] =
        json!({"winpool.dev/acknowledge-issues": ids.join(",")});
    assert!(diagnosis(&case).excluded.contains(&"known-issue"));
}

#[test]
fn the_diagnosis_of_a_pod_is_about_it_alone() {
    let mut fleet = Fleet { pods: 2, ..Fleet::default() };
    fleet.sandbox("failed to reserve sandbox name");
    fleet.subject = json!({"kind": "pod", "namespace": "shop", "name": "app-0-1"});
    let diagnosis = diagnosis(&fleet.evidence());
    assert_eq!(found(&diagnosis), ["sandbox-name-reserved"]);
    assert_eq!(diagnosis.found[0].evidence.len(), 1, "not the other pod of the node");
}

#[test]
fn without_a_part_nothing_that_it_could_show_is_excluded() {
    let cases = recorded().into_iter().map(|(_, case)| case).chain([Fleet::default().evidence()]);
    let missing = [json!({"unavailable": "forbidden"}), json!({"read": {"items": [], "omitted": true}})];
    for (case, missing) in cases.flat_map(|case| missing.clone().map(|missing| (case.clone(), missing))) {
        for part in EvidencePart::ALL {
            let diagnosis = diagnosis(&without(&case, part, &missing));
            for symptom in SYMPTOMS.iter().filter(|symptom| symptom.parts().contains(&part)) {
                let id = symptom.entry.code;
                assert!(!diagnosis.excluded.contains(&id), "{id} without {part:?}");
            }
        }
    }
}

#[test]
fn a_missing_permission_is_the_reason_and_hides_no_other_symptom() {
    let forbidden = json!({"unavailable": "the permission to list events is missing"});
    let diagnosis = diagnosis(&without(&Fleet::default().evidence(), EvidencePart::Events, &forbidden));
    let about_events: BTreeSet<_> = SYMPTOMS
        .iter()
        .filter(|symptom| symptom.parts().contains(&EvidencePart::Events))
        .map(|one| one.entry.code)
        .collect();
    let by_nodes = SYMPTOMS
        .iter()
        .filter(|symptom| is_logged(symptom) || symptom.parts().is_empty())
        .map(|symptom| symptom.entry.code);
    assert_eq!(undetermined(&diagnosis), about_events.iter().copied().chain(by_nodes).collect());
    let one = diagnosis.not_determinable.iter().find(|found| found.id == "flannel-subnet-env").unwrap();
    assert_eq!(one.because.to_string(), "events are not read: the permission to list events is missing");
}

#[test]
fn a_condition_of_another_program_is_not_judged() {
    let mut fleet = Fleet::default();
    fleet.condition("FrequentUnregisterNetDevice", "True", "", "");
    let diagnosis = diagnosis(&fleet.evidence());
    let one = diagnosis.not_determinable.iter().find(|found| found.id == "node-other-condition").unwrap();
    let text = one.because.to_string();
    assert!(text.ends_with("which status is a problem: FrequentUnregisterNetDevice=True"), "{text}");
}

#[test]
fn a_condition_of_the_lifecycle_says_what_is_done_with_the_node_while_it_is_true() {
    for (condition, status, expected) in [
        ("MaintenanceInProgress", "True", &["the node is under maintenance: new disks"][..]),
        ("Drained", "True", &["the node was drained, and is not back in service: new disks"]),
        (
            "DrainInProgress",
            "True",
            &["the node is being drained, but it is not cordoned: the condition may be old: new disks"],
        ),
        ("MaintenancePlanned", "True", &["a change of the node is planned: new disks"]),
        ("MaintenanceInProgress", "False", &[]),
        ("Drained", "Unknown", &[]),
    ] {
        let mut fleet = Fleet::default();
        fleet.condition(condition, status, "AdminRequested", "new disks");
        let diagnosis = diagnosis(&fleet.evidence());
        let texts: Vec<_> =
            diagnosis.also.iter().flat_map(|found| &found.evidence).map(|shown| shown.text.as_str()).collect();
        assert_eq!(texts, expected, "{condition}={status}");
        assert!(
            diagnosis.summary().is_none() && diagnosis.excluded.contains(&"node-other-condition"),
            "{condition}={status}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_found_in_a_healthy_fleet_of_any_shape(
        nodes in 0_usize..6,
        pods in 0_usize..6,
        components in vec(any::<bool>(), 3),
        old_events in any::<bool>(),
        completed in any::<bool>(),
        of_node in any::<bool>(),
        answered in any::<bool>(),
    ) {
        let mut fleet = Fleet { nodes, pods, components, answered, ..Fleet::default() };
        if old_events {
            // The pods have started since.
            fleet.events(&["FailedCreatePodSandBox", "Failed", "FailedMount", "FailedKillPod"], "subnet.env csi-proxy hcnDeleteNamespace connectex");
        }
        if completed {
            fleet.pod_status = json!({"phase": "Succeeded", "containerStatuses": [{"name": "app", "state": {"terminated": {"exitCode": 0}}}]});
        }
        if of_node {
            fleet.subject = json!({"kind": "node", "name": "win-0"});
        }
        let diagnosis = diagnosis(&fleet.evidence());
        prop_assert_eq!(found(&diagnosis), Vec::<&str>::new());
    }
}

/// Puts a text where a person, a program or a client may have put a credential.
fn planted(secret: &str) -> [(EvidencePart, Value); 5] {
    let container = json!({
        "name": "app", "image": "app:1", "command": [secret], "args": [secret],
        "env": [{"name": "PASSWORD", "value": secret}],
        "livenessProbe": {"exec": {"command": [secret]}, "httpGet": {"httpHeaders": [{"name": "a", "value": secret}]}},
        "lifecycle": {"postStart": {"exec": {"command": [secret]}}},
    });
    let spec = json!({
        "containers": [container], "initContainers": [container],
        "volumes": [
            {"name": "a", "csi": {"driver": "d", "volumeAttributes": {"k": secret}}},
            {"name": "b", "flexVolume": {"driver": "d", "options": {"k": secret}}},
            {"name": "c", "azureFile": {"shareName": secret, "secretName": "s"}},
        ],
    });
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": secret});
    let metadata = json!({"name": "a", "annotations": annotations, "managedFields": [{"manager": secret}]});
    let ended = json!({"terminated": {"exitCode": 1, "message": secret}});
    let text = format!("Get \"https://joe:{secret}@r.example/v2/\": token={secret}, Authorization: Bearer {secret}");
    [
        (
            EvidencePart::Pods,
            json!({"metadata": metadata, "spec": spec,
            "status": {"containerStatuses": [{"name": "app", "state": ended, "lastState": ended}],
                       "initContainerStatuses": [{"name": "app", "state": {"waiting": {"reason": "x", "message": text}}}]}}),
        ),
        (
            EvidencePart::DaemonSets,
            json!({"metadata": metadata, "spec": {"template": {"metadata": {"annotations": annotations}, "spec": spec}}}),
        ),
        (
            EvidencePart::Nodes,
            json!({"metadata": metadata, "status": {"conditions": [{"type": "Ready", "message": text}]}}),
        ),
        (EvidencePart::Events, json!({"metadata": metadata, "message": text, "related": {"name": secret}})),
        (EvidencePart::Machines, json!({"metadata": metadata, "spec": {"bootstrap": {"dataSecretName": secret}}})),
    ]
}

#[test]
fn what_is_read_has_no_planted_secret() {
    for (part, object) in planted("hunter2-planted") {
        let reduced = reduced(part, object).to_string();
        assert!(!reduced.contains("hunter2"), "{part:?}: {reduced}");
        assert!(reduced.contains("\"a\""), "{part:?}: {reduced}");
    }
}

/// Writes evidence as a bundle, and runs the command on it.
fn from_bundle(evidence: &Value, arguments: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    for (part, value) in evidence.as_object().unwrap() {
        fs::write(folder.path().join(format!("{part}.json")), value.to_string()).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_winpool"));
    let Output { status, stdout, stderr } = command
        .args(["doctor", "--from"])
        .arg(folder.path())
        .args(arguments)
        .env("KUBECONFIG", "none")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn a_bundle_gives_the_same_diagnosis_offline() {
    for (ids, case) in recorded().into_iter().chain([(vec![], Fleet::default().evidence())]) {
        let (status, stdout, stderr) = from_bundle(&case, &["-o", "json"]);
        let expected =
            match ids.iter().filter(|id| !["known-issue", "ended-setting", "node-maintenance"].contains(id)).count() {
                0 => (0, ""),
                1 => (1, "winpool: 1 symptom of pool web\n"),
                _ => (1, "winpool: 2 symptoms of pool web\n"),
            };
        assert_eq!((status, stderr.as_str()), expected, "{ids:?}");
        assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap(), json!(diagnosis(&case)), "{ids:?}");
    }
}

#[test]
fn the_text_has_evidence_cause_remedy_and_what_is_not_determinable() {
    let mut fleet = Fleet::default();
    fleet.sandbox("open /run/flannel/subnet.env: \u{1b}[31mThe system cannot find the path specified.");
    let case = without(&fleet.evidence(), EvidencePart::Leases, &json!({"unavailable": "forbidden"}));
    let (status, stdout, _) = from_bundle(&case, &[]);
    assert_eq!(status, 1);
    let expected = "\
flannel-subnet-env: Pods do not start: /run/flannel/subnet.env is missing
  Evidence: Pod shop/app-0-0, event FailedCreatePodSandBox: open /run/flannel/subnet.env: \\u{1b}[31mThe system cannot find the path specified.
  Cause: flannel did not start on the node, so that it has not written this file
  To do: restart flannel on the node: `Restart-Service flanneld`, or delete its pod. After a node has joined again, remove C:\\k\\SourceVip.json and C:\\k\\SourceVipRequest.json on it
  Source: https://kubernetes.io/docs/tasks/debug/debug-cluster/windows/

pool web: 1 symptom found, 0 errors not explained, ";
    assert!(stdout.starts_with(expected), "{stdout}");
    for line in ["Not determinable (--verbose lists them):", "  2 symptoms: leases are not read: forbidden"] {
        assert!(stdout.lines().any(|found| found == line), "{stdout}");
    }
    let (_, verbose, _) = from_bundle(&case, &["--verbose"]);
    for line in ["    node-silent", "    icmp: curl IP"] {
        assert!(verbose.lines().any(|found| found == line), "{verbose}");
    }
}

#[test]
fn a_bundle_that_is_none_is_a_usage_error() {
    let (status, _, stderr) = from_bundle(&json!({"at": "2026-11-26T03:00:00Z"}), &[]);
    assert_eq!(status, 2);
    assert!(stderr.starts_with("winpool: cannot read ") && stderr.contains("is required"), "{stderr}");
}

#[test]
fn the_page_has_every_symptom() {
    let cell = |text: &str| text.replace('|', "\\|");
    let row = |symptom: &Symptom| {
        let Entry { code, title, why, remedy, source } = symptom.entry;
        let source = match source.strip_prefix("docs/") {
            Some(page) => format!("[{page}]({page})"),
            None => format!("[source]({source})"),
        };
        let texts = [title, &symptom.shown_by(), why, remedy].map(cell);
        format!("| `{code}` | {} | {source} |\n", texts.join(" | "))
    };
    let (by_nodes, by_cluster): (Vec<_>, Vec<_>) = SYMPTOMS.iter().partition(|symptom| symptom.command().is_some());
    let head = "| rule | symptom | shown by | cause | remedy | source |\n|---|---|---|---|---|---|\n";
    let table = |rows: Vec<_>| format!("{head}{}", rows.into_iter().map(row).collect::<String>());
    assert_blocks("docs/doctor.md", [("cluster", table(by_cluster)), ("node", table(by_nodes))]);
}
