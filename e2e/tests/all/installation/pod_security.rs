//! The operator's pods meet the Pod Security Standard `restricted`, which the namespace enforces.
//!
//! The rules restate <https://kubernetes.io/docs/concepts/security/pod-security-standards/> (read 2026-11-26) in the stricter form
//! that these pods keep. An API server of Kubernetes 1.25 or later enforces them itself in the tests that start the pods.

use serde_json::{Value, json};

use super::{kustomized, objects::rendered};

/// The checks by name, and whether the specification of a pod passes.
const CHECKS: [(&str, fn(&Value) -> bool); 8] = [
    ("hostNamespaces", |pod| ["hostNetwork", "hostPID", "hostIPC"].iter().all(|field| pod[field].is_null())),
    ("hostPorts", |pod| containers(pod).all(|one| items(&one["ports"]).all(|port| port["hostPort"].is_null()))),
    ("privileged", |pod| contexts(pod).all(|context| context["privileged"].is_null())),
    ("allowPrivilegeEscalation", |pod| contexts(pod).all(|context| context["allowPrivilegeEscalation"] == false)),
    ("capabilities_restricted", |pod| contexts(pod).all(|one| one["capabilities"] == json!({"drop": ["ALL"]}))),
    ("restrictedVolumes", |pod| {
        items(&pod["volumes"]).all(|volume| ALLOWED.iter().any(|kind| volume[kind].is_object()))
    }),
    ("runAsNonRoot", |pod| {
        let user = &pod["securityContext"];
        user["runAsNonRoot"] == true && user["runAsUser"] != 0 && contexts(pod).all(|one| one["runAsNonRoot"] == true)
    }),
    ("seccompProfile_restricted", |pod| pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"),
];
/// The types of volumes.
const ALLOWED: [&str; 8] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"];

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers"].into_iter().flat_map(|field| items(&pod[field]))
}

fn contexts(pod: &Value) -> impl Iterator<Item = &Value> {
    containers(pod).map(|container| &container["securityContext"])
}

/// The checks that a pod does not pass.
fn violations(pod: &Value) -> Vec<&'static str> {
    CHECKS.iter().filter(|(_, passes)| !passes(pod)).map(|(name, _)| *name).collect()
}

#[test]
fn the_pods_of_every_way_of_installation_meet_the_restricted_standard() {
    let values = r#"metrics={"tlsSecret":"tls"}"#;
    for objects in [kustomized("config/default"), rendered(&[]), rendered(&["--set-json", values])] {
        let pod = &objects["Deployment/winpool-system/winpool"]["spec"]["template"]["spec"];
        assert_eq!(violations(pod), [""; 0], "{pod}");
    }
}

#[test]
fn each_check_finds_a_pod_that_violates_it() {
    let pod = &kustomized("config/default")["Deployment/winpool-system/winpool"]["spec"]["template"]["spec"];
    for (field, value, check) in [
        ("/hostNetwork", json!(true), "hostNamespaces"),
        ("/containers/0/ports/0/hostPort", json!(8080), "hostPorts"),
        ("/containers/0/securityContext/privileged", json!(true), "privileged"),
        ("/containers/0/securityContext/allowPrivilegeEscalation", json!(true), "allowPrivilegeEscalation"),
        ("/containers/0/securityContext/capabilities/add", json!(["NET_ADMIN"]), "capabilities_restricted"),
        ("/volumes", json!([{"name": "host", "hostPath": {"path": "/"}}]), "restrictedVolumes"),
        ("/securityContext/runAsUser", json!(0), "runAsNonRoot"),
        ("/securityContext/seccompProfile/type", json!("Unconfined"), "seccompProfile_restricted"),
    ] {
        let mut pod = pod.clone();
        let (parent, name) = field.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[name] = value;
        assert_eq!(violations(&pod), [check], "{field}");
    }
}
