//! The objects of a verification, and its verdicts for scripted pods.

use std::{collections::BTreeMap, fs};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use winpool_api::TaintEffect;
use winpool_facts::{ContainerRuntime, support::NEWEST, test_images::TEST_IMAGES};

use super::*;
use crate::{
    lint::{TargetCluster, check},
    manifests::{Budget, FileSelection, Manifests},
};

fn verification() -> Verification {
    let node = |name: &str, address: &str| VerifiedNode {
        name: name.to_owned(),
        hostname: name.to_owned(),
        address: address.to_owned(),
    };
    Verification {
        pool: "web.2022".to_owned(),
        namespace: "shop".to_owned(),
        nodes: vec![node("win-1", "10.0.0.1"), node("win-2", "fd00::2")],
        taints: vec![Taint { key: "os".into(), value: "windows".into(), effect: TaintEffect::NoSchedule }],
        runtime_class: Some("windows-ltsc2022".to_owned()),
        image: TEST_IMAGES[0].image.to_owned(),
        outbound: "registry.k8s.io:443".to_owned(),
        cluster_domain: "cluster.local".to_owned(),
        node_port: 30080,
        limit: 300,
    }
}

/// The arguments of each container of a Job.
fn args(objects: &[Value], job: &str) -> Vec<String> {
    let found = objects.iter().find(|object| object["kind"] == "Job" && object["metadata"]["name"] == job);
    let containers = found.unwrap()["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    containers.iter().map(|one| one["args"][1].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_check_is_a_job_with_a_limit_that_connects_to_its_targets() {
    let objects = verification().objects();
    let names: Vec<_> = objects
        .iter()
        .map(|one| format!("{} {}", one["kind"].as_str().unwrap(), one["metadata"]["name"].as_str().unwrap()))
        .collect();
    assert_eq!(
        names,
        [
            "Job verify-web-2022-pods",
            "Service verify-web-2022-pods",
            "Service verify-web-2022",
            "Job verify-web-2022-node-to-pod",
            "Job verify-web-2022-pod-to-pod",
            "Job verify-web-2022-node-to-service",
            "Job verify-web-2022-pod-to-service",
            "Job verify-web-2022-discovery",
            "Job verify-web-2022-node-port",
            "Job verify-web-2022-outbound",
            "Job verify-web-2022-logs-and-exec",
        ]
    );
    for object in &objects {
        assert_eq!(object["metadata"]["labels"]["winpool.dev/verify"], "verify-web-2022");
        assert!(object["kind"] == "Service" || object["spec"]["activeDeadlineSeconds"] == 300, "{object:#}");
    }
    assert_eq!(objects[0]["spec"]["completions"], 4, "two on each node");
    let server =
        |index: usize| format!("verify-web-2022-pods-{index}.verify-web-2022-pods.shop.svc.cluster.local:8080");
    assert_eq!(args(&objects, "verify-web-2022-pod-to-pod"), [0, 1, 2, 3].map(server));
    assert_eq!(args(&objects, "verify-web-2022-pod-to-service"), ["$(VERIFY_WEB_2022_SERVICE_HOST):8080"]);
    assert_eq!(args(&objects, "verify-web-2022-discovery"), ["verify-web-2022.shop.svc.cluster.local:8080"]);
    assert_eq!(args(&objects, "verify-web-2022-node-port"), ["10.0.0.1:30080", "[fd00::2]:30080"]);
    assert_eq!(args(&objects, "verify-web-2022-outbound"), ["registry.k8s.io:443"]);

    let known = [Some("10.244.1.5".to_owned()), None];
    let owned = verification().other_objects(&known, Some("uid-1"));
    assert_eq!(args(&owned, "verify-web-2022-node-to-pod")[..2], ["10.244.1.5:8080".to_owned(), server(1)]);
    assert!(owned.iter().all(|object| object["metadata"]["ownerReferences"][0]["uid"] == "uid-1"));
}

#[test]
#[allow(clippy::disallowed_methods)] // lint reads files
fn lint_finds_nothing_in_the_objects() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("verify.json");
    fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": verification().objects()}).to_string())
        .unwrap();
    let manifests = Manifests::read_selected(&[file], &mut Budget::bounded(), FileSelection::default()).unwrap();
    let target = TargetCluster { minor: NEWEST, is_default: true, runtime: ContainerRuntime::Containerd(()) };
    let report = check(manifests, target, &|_| None);
    let found: Vec<_> =
        report.findings.iter().map(|found| format!("{} {}", found.finding.code, found.finding.path)).collect();
    assert_eq!(found, [""; 0]);
}

fn pod(probe: &str, index: usize, node: Option<&str>, status: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": format!("verify-web-2022-{probe}-{index}-x"), "labels": {"winpool.dev/probe": probe}},
        "spec": {"nodeName": node, "hostname": format!("verify-web-2022-{probe}-{index}"), "containers": []},
        "status": status,
    }))
    .unwrap()
}

fn containers(states: &[(Value, i32)], ready: &str) -> Value {
    let status = |(index, (state, restarts)): (usize, &(Value, i32))| {
        json!({
            "name": format!("to-{index}"), "image": "a", "imageID": "a", "ready": true, "restartCount": restarts, "state": state,
        })
    };
    let all: Vec<_> = states.iter().enumerate().map(status).collect();
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}], "containerStatuses": all})
}

fn running(ready: &str) -> Value {
    containers(&[(json!({"running": {}}), 0)], ready)
}

fn ended(code: i32, message: &str) -> Value {
    json!({"terminated": {"exitCode": code, "message": message}})
}

/// The results of a check, as `from: outcome: message`.
fn results(check: Check, pods: &[Pod], logs: &[(&str, LogRead)]) -> Vec<String> {
    let logs: BTreeMap<_, _> = logs.iter().map(|(pod, log)| ((*pod).to_owned(), log.clone())).collect();
    let results = verdicts(&verification(), pods, &logs).into_iter().filter(|result| result.check == check.name());
    results.map(|one| format!("{}: {}: {}", one.from, one.outcome.text(), one.message)).collect()
}

#[test]
fn two_running_pods_on_each_node_pass_and_the_scheduler_says_why_there_are_none() {
    let unscheduled = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 1 Insufficient memory."},
    ]});
    let creating = json!({"phase": "Pending", "containerStatuses": [{
        "name": "server", "image": "a", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "no match for platform\nin manifest"}},
    }]});
    let both = [pod("pods", 0, Some("win-1"), running("True")), pod("pods", 1, Some("win-1"), running("False"))];
    let with = |more: &[Pod]| [&both[..], more].concat();
    let table = [
        (
            with(&[pod("pods", 2, None, unscheduled)]),
            "pod verify-web-2022-pods-2-x: 0/3 nodes are available: 1 Insufficient memory.",
        ),
        (
            with(&[pod("pods", 2, Some("win-2"), creating)]),
            "0 of 2 pods run: ErrImagePull: no match for platform in manifest",
        ),
        (with(&[]), "no pod was created for it. See the events of the Job"),
    ];
    for (pods, expected) in table {
        let second = format!("win-2: not determined: {expected}");
        assert_eq!(results(Check::PodsRun, &pods, &[]), ["win-1: passed: ", second.as_str()]);
    }
    let kubelet = "win-1: not determined: the kubelet does not reach pod verify-web-2022-pods-1-x";
    assert_eq!(results(Check::NodeToPod, &both, &[])[0], kubelet);
}

#[test]
fn a_connection_fails_after_three_attempts_with_the_worst_target_and_its_node() {
    let servers =
        (0..4).map(|index| pod("pods", index, Some(if index < 2 { "win-1" } else { "win-2" }), running("True")));
    let servers: Vec<Pod> = servers.collect();
    let passed = || (ended(0, ""), 0);
    let from_first = |last: (Value, i32)| {
        let client = pod("pod-to-pod", 0, Some("win-1"), containers(&[passed(), passed(), passed(), last], "False"));
        results(Check::PodToPod, &[&servers[..], &[client]].concat(), &[])[0].clone()
    };
    let to_last = |outcome: &str| format!("win-1: {outcome} to pod verify-web-2022-pods-3 on win-2: ");
    let table = [
        (passed(), "win-1: passed: ".to_owned()),
        ((ended(1, "TIMEOUT\n"), 2), to_last("failed:") + "TIMEOUT"),
        ((ended(1, "TIMEOUT\n"), 1), to_last("not determined:") + "TIMEOUT"),
        ((ended(3, ""), 9), to_last("failed:") + "exit code 3"),
        ((json!({"running": {}}), 0), to_last("not determined:") + "it has not ended"),
        ((json!({"waiting": {"reason": "ContainerCreating"}}), 0), to_last("not determined:") + "ContainerCreating"),
    ];
    for (last, expected) in table {
        assert_eq!(from_first(last), expected);
    }
    let outbound = pod("outbound", 1, Some("win-2"), containers(&[(ended(1, "DNS: no such host"), 2)], "False"));
    let expected = [
        "win-1: not determined: no pod was created for it. See the events of the Job",
        "win-2: failed: to registry.k8s.io:443: DNS: no such host",
        "pods, by ICMP: by design: Windows does not translate ICMP to other networks; TCP and UDP are",
    ];
    assert_eq!(results(Check::Outbound, &[outbound], &[]), expected);
}

#[test]
fn logs_and_exec_pass_with_a_log_that_was_read_and_a_container_in_which_a_command_ran() {
    let name = "verify-web-2022-logs-and-exec-0-x";
    let started = || LogRead::Text("Started HTTP server on port 8080".to_owned());
    let table = [
        (running("True"), Some(started()), "passed: "),
        (
            running("False"),
            Some(started()),
            "not determined: the kubelet cannot run a command in pod verify-web-2022-logs-and-exec-0-x",
        ),
        (running("True"), None, "not determined: the log was not read"),
        (
            running("True"),
            Some(LogRead::Failed(1, "502".into())),
            "not determined: the log of pod verify-web-2022-logs-and-exec-0-x cannot be read: 502",
        ),
        (
            running("True"),
            Some(LogRead::Failed(3, "502".into())),
            "failed: the log of pod verify-web-2022-logs-and-exec-0-x cannot be read: 502",
        ),
    ];
    for (status, log, expected) in table {
        let pods = [pod("logs-and-exec", 0, Some("win-1"), status)];
        let logs: Vec<_> = log.into_iter().map(|log| (name, log)).collect();
        assert_eq!(results(Check::LogsAndExec, &pods, &logs)[0], format!("win-1: {expected}"));
    }
}

#[test]
fn names_are_dns_labels_of_at_most_40_characters() {
    let long = "a".repeat(63);
    for (pool, expected) in
        [("web", "verify-web"), ("web.2022", "verify-web-2022"), (&long, &format!("verify-{}", "a".repeat(33)))]
    {
        assert_eq!(Verification::name_of(pool), expected);
    }
    let cut = format!("{}.b", "a".repeat(32));
    assert_eq!(Verification::name_of(&cut), format!("verify-{}", "a".repeat(32)));
}
