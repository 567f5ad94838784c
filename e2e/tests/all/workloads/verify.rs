//! `winpool verify`: its Jobs on a real control plane, and what their containers report.

use std::{fs, process::Command, time::Duration};

use e2e::{
    cluster::SOON,
    control_plane::{ControlPlane, User},
    kubelet::SimulatedNode,
    operator::{binary, winpool},
    process::Process,
    wait::until,
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Pod, Service},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{SERVER_2022, WorkloadFixture, tainted};

const NAME: &str = "checks";

/// Ends the containers that connect as soon as they run: with success, but those of `outbound` on the first node.
async fn script(pods: Api<Pod>) {
    let listed =
        ListParams::default().labels("winpool.dev/verify=verify-checks,winpool.dev/probe notin (pods,logs-and-exec)");
    loop {
        for pod in pods.list(&listed).await.map(|list| list.items).unwrap_or_default() {
            let status = pod.status.clone().unwrap_or_default();
            let running = status.container_statuses.clone().unwrap_or_default();
            if status.phase.as_deref() != Some("Running") || running.iter().any(|one| one.restart_count > 0) {
                continue;
            }
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let fails = pod.labels()["winpool.dev/probe"] == "outbound" && node.as_deref() == Some("checks-1");
            let (code, message, phase) = if fails { (1, "TIMEOUT\n", "Running") } else { (0, "", "Succeeded") };
            let ended = running.iter().map(|one| {
                json!({
                    "name": one.name, "image": one.image, "imageID": one.image_id, "ready": false,
                    "restartCount": if fails { 2 } else { 0 },
                    "state": { "terminated": { "exitCode": code, "message": message } },
                })
            });
            let status = json!({ "status": { "phase": phase, "containerStatuses": ended.collect::<Vec<_>>() } });
            let _ = pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(status)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The exit status and the report of a verification, which is run beside the script.
async fn verified(control_plane: &ControlPlane, arguments: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["verify", NAME, "-n", NAME, "-o", "json"], arguments].concat();
    let output = tokio::task::block_in_place(|| winpool(control_plane, User::Admin, &arguments)).unwrap();
    let report = serde_json::from_slice(&output.stdout);
    (
        output.status.code(),
        report.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr))),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checks_of_a_deployment_are_judged_by_their_pods_and_leave_nothing() {
    let linux = SimulatedNode::linux("checks-linux").taint("checks", "linux", "NoSchedule");
    let nodes = vec![tainted(NAME, 1, SERVER_2022), tainted(NAME, 2, SERVER_2022), linux];
    let fixture = WorkloadFixture::new(NAME, nodes, json!({})).await;
    let script = tokio::spawn(script(fixture.all::<Pod>()));
    let (status, report) = verified(&fixture.control_plane, &["--timeout", "40s", "--node-port", "30085"]).await;
    script.abort();
    assert_eq!(status, Some(1));
    let checks = report["checks"].as_array().unwrap().iter();
    let results: Vec<_> = checks
        .filter(|one| one["outcome"] != "ByDesign" && one["check"] != "logs-and-exec")
        .map(|one| ["check", "from", "outcome", "message"].map(|field| one[field].as_str().unwrap()).join(" "))
        .collect();
    assert_eq!(
        results,
        [
            "pods-run checks-1 Passed ",
            "pods-run checks-2 Passed ",
            "node-to-pod checks-1 Passed ",
            "node-to-pod checks-2 Passed ",
            "node-to-pod checks-linux Passed ",
            "pod-to-pod checks-1 Passed ",
            "pod-to-pod checks-2 Passed ",
            "service checks-linux Passed ",
            "service checks-1 Passed ",
            "service checks-2 Passed ",
            "service-discovery checks-1 Passed ",
            "service-discovery checks-2 Passed ",
            "node-port checks-linux Passed ",
            "outbound checks-1 Failed to registry.k8s.io:443: TIMEOUT",
            "outbound checks-2 Passed ",
        ]
    );
    // The simulated kubelets have no logs.
    let logs = report["checks"].as_array().unwrap().iter().find(|one| one["check"] == "logs-and-exec").unwrap();
    assert!(logs["message"].as_str().unwrap().contains("cannot be read: "), "{logs}");

    assert_eq!(left(&fixture).await, 0);
    a_verification_that_is_ended_leaves_nothing(&fixture).await;
    fixture.check().await;
}

/// The number of Jobs and Services of verifications.
async fn left(fixture: &WorkloadFixture) -> usize {
    let labelled = ListParams::default().labels("winpool.dev/verify");
    let jobs = fixture.all::<Job>().list(&labelled).await.unwrap().items.len();
    jobs + fixture.all::<Service>().list(&labelled).await.unwrap().items.len()
}

/// By Ctrl-C, or by SIGTERM as here.
async fn a_verification_that_is_ended_leaves_nothing(fixture: &WorkloadFixture) {
    let mut command = Command::new(binary().unwrap());
    command.args(["verify", NAME, "-n", NAME, "--node-port", "30085"]);
    command.env("KUBECONFIG", fixture.control_plane.kubeconfig(User::Admin));
    let log = fixture.control_plane.directory().join("logs/verify.log");
    let verify = Process::spawn("winpool verify", command, &log).unwrap();
    until("its checks are created", SOON, || async { Ok(left(fixture).await) }, |left| *left > 2).await.unwrap();
    let status = verify.stop(SOON).await.unwrap();
    let printed = fs::read_to_string(&log).unwrap();
    assert_eq!(status.code(), Some(1), "{printed}");
    assert!(printed.contains("winpool: received SIGTERM, so not all checks have ended"), "{printed}");
    assert_eq!(left(fixture).await, 0, "{printed}");
}
