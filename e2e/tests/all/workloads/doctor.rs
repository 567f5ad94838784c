//! `winpool doctor` on a real API server: a sandbox that is not created, and users with fewer permissions.

mod identity;
mod logs;

use std::{fs, path::PathBuf};

use e2e::{
    cluster::Cluster,
    control_plane::{ControlPlane, User},
    install,
    kubelet::Refusal,
    operator::winpool,
    wait::until,
};
use k8s_openapi::api::{
    core::v1::{Event, Pod},
    rbac::v1::ClusterRole,
};
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{SOON, WorkloadFixture, by_class, pod};

const NAME: &str = "doctor";
const IMAGE: &str = "example.test/doctor:1";
/// As in kubernetes-sigs/sig-windows-tools#76.
const TEXT: &str = "Failed to create pod sandbox: networkPlugin cni failed to set up pod: open /run/flannel/subnet.env: The system cannot find \
                    the path specified. token=planted-secret";
const FOUND: &str = "flannel-subnet-env";

/// The exit status of the command, and what it printed as JSON.
fn doctor(control_plane: &ControlPlane, arguments: &[&str]) -> (i32, Value) {
    let all = [&["doctor"], arguments, &["-o", "json"]].concat();
    let output = winpool(control_plane, User::OtherA, &all).unwrap();
    let printed = serde_json::from_slice(&output.stdout);
    let printed = printed.unwrap_or_else(|_| panic!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), printed)
}

fn ids(list: &Value) -> Vec<&str> {
    let ids = list.as_array().unwrap().iter();
    ids.map(|one| one["id"].as_str().or(one.as_str()).unwrap()).collect()
}

/// A kubeconfig of a new ServiceAccount with this ClusterRole.
async fn user(cluster: &Cluster, name: &str, role: &str) -> PathBuf {
    let account = format!("--serviceaccount=default:{name}");
    let role = format!("--clusterrole={role}");
    cluster.kubectl(&["create", "serviceaccount", name]).unwrap();
    cluster.kubectl(&["create", "clusterrolebinding", name, &role, &account]).unwrap();
    let leases = ["-n", "kube-node-lease", "create", "rolebinding", name, "--role=winpool-doctor", &account];
    cluster.kubectl(&leases).unwrap();
    let token = cluster.token("default", name).await.unwrap();
    let admin = fs::read_to_string(cluster.control_plane.kubeconfig(User::OtherA)).unwrap();
    let mut config: Value = serde_saphyr::from_str(&admin).unwrap();
    config["users"][0]["user"] = json!({ "token": token });
    let file = cluster.control_plane.directory().join(format!("{name}.kubeconfig"));
    fs::write(&file, config.to_string()).unwrap();
    file
}

/// Creates a role with the permissions of config/doctor but those for events.
async fn create_role_without_events(fixture: &WorkloadFixture) {
    let mut role = json!(fixture.api::<ClusterRole>().get("winpool-doctor").await.unwrap());
    role["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
    role["kind"] = json!("ClusterRole");
    role["metadata"] = json!({ "name": "doctor-without-events" });
    for rule in role["rules"].as_array_mut().unwrap() {
        rule["resources"].as_array_mut().unwrap().retain(|resource| resource != "events");
    }
    fixture.kubectl_with_input(&["create", "-f", "-"], &role).unwrap();
}

#[tokio::test]
async fn a_sandbox_that_is_not_created_is_found_for_pod_node_and_pool_by_those_who_may_read_it() {
    let fixture = WorkloadFixture::with_one_node(NAME).await;
    let node = format!("node/{NAME}-1");
    let subjects: [&[&str]; 3] = [&["pod/stuck", "-n", NAME], &[&node], &["pool/doctor"]];
    for subject in subjects.iter().skip(1) {
        let (_, healthy) = doctor(&fixture.control_plane, subject);
        assert!(ids(&healthy["excluded"]).contains(&FOUND), "{healthy:#}");
    }

    fixture.kubelets.refuse(IMAGE, Refusal::Sandbox(TEXT.to_owned()));
    fixture.create::<Pod>("stuck", pod(IMAGE, by_class(NAME))).await;
    let events = || async { Ok(fixture.all::<Event>().list(&ListParams::default()).await?.items) };
    let is_told =
        |events: &Vec<Event>| events.iter().any(|event| event.reason.as_deref() == Some("FailedCreatePodSandBox"));
    until("the sandbox is refused", SOON, events, is_told).await.unwrap();
    for subject in subjects {
        let (status, diagnosis) = doctor(&fixture.control_plane, subject);
        assert_eq!(status, 1);
        let found = diagnosis["found"].as_array().unwrap().iter().find(|found| found["id"] == FOUND).unwrap();
        let expected = json!({ "object": "Pod doctor/stuck", "place": "event FailedCreatePodSandBox",
                               "text": TEXT.replace("planted-secret", "***") });
        assert_eq!(found["evidence"], json!([expected]), "{subject:?}");
    }

    install::apply(&fixture.control_plane, &["-k", &install::path("config/doctor")]).unwrap();
    create_role_without_events(&fixture).await;
    let whole = user(&fixture, "on-call", "winpool-doctor").await;
    let without = user(&fixture, "without-events", "doctor-without-events").await;
    let (status, diagnosis) =
        doctor(&fixture.control_plane, &["pod/stuck", "-n", NAME, "--kubeconfig", whole.to_str().unwrap()]);
    assert_eq!((status, ids(&diagnosis["found"]).contains(&FOUND)), (1, true));
    let unread = |found: &&Value| found["because"].as_str().unwrap().contains("permission");
    assert_eq!(diagnosis["notDeterminable"].as_array().unwrap().iter().find(unread), None, "the role is complete");

    let (_, diagnosis) =
        doctor(&fixture.control_plane, &["pod/stuck", "-n", NAME, "--kubeconfig", without.to_str().unwrap()]);
    assert!(!ids(&diagnosis["found"]).contains(&FOUND) && !ids(&diagnosis["excluded"]).contains(&FOUND));
    let found = diagnosis["notDeterminable"].as_array().unwrap().iter().find(|found| found["id"] == FOUND).unwrap();
    let because = "events are not read: the permission to list events is missing, which the role winpool-doctor in config/doctor has";
    assert_eq!(found["because"], because);
    bundles_have_the_same_diagnosis(&fixture);
    nothing_else_is_diagnosed(&fixture);
}

fn bundles_have_the_same_diagnosis(fixture: &WorkloadFixture) {
    let bundle = fixture.control_plane.directory().join("bundle");
    let (_, online) = doctor(&fixture.control_plane, &["pool/doctor", "--bundle", bundle.to_str().unwrap()]);
    let (status, offline) = doctor(&fixture.control_plane, &["--from", bundle.to_str().unwrap()]);
    assert_eq!((status, &offline), (1, &online));
    for file in fs::read_dir(&bundle).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains("planted-secret"), "{text}");
    }
}

fn nothing_else_is_diagnosed(fixture: &WorkloadFixture) {
    for (subject, expected) in [
        ("pod/none", "there is no pod none in namespace default. See kubectl -n default get pods, or set -n"),
        ("node/none", "there is no node none. See kubectl get nodes"),
        ("pool/doctro", "there is no WindowsNodePool doctro. Did you mean doctor? See kubectl get wnp"),
        ("doctor", "`doctor` is no subject. Write pool/NAME, node/NAME or pod/NAME"),
    ] {
        let output = winpool(&fixture.control_plane, User::OtherA, &["doctor", subject]).unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), printed.as_str()), (Some(2), format!("winpool: {expected}\n").as_str()));
    }
    let complete = winpool(&fixture.control_plane, User::OtherA, &["__complete", "--", "doctor", "pool/doc"]).unwrap();
    assert_eq!(String::from_utf8(complete.stdout).unwrap(), "pool/doctor\n");
}
