//! The operator's pods meet the Pod Security Standard `restricted`, which their namespace enforces.

use e2e::{
    control_plane::{ControlPlane, Options},
    requests::Requests,
};
use serde_json::{Value, json};

use super::{Objects, kustomized, objects::rendered};

const NAMESPACES: &str = "/api/v1/namespaces";

/// The pod of the operator among these objects.
fn pod(objects: &Objects) -> Value {
    let spec = objects["Deployment/winpool-system/winpool"]["spec"]["template"]["spec"].clone();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "winpool"}, "spec": spec})
}

#[tokio::test]
async fn the_pods_of_every_way_of_installation_are_admitted_by_a_namespace_that_enforces_the_restricted_standard() {
    let control_plane = ControlPlane::start_installed(Options::api_server_only()).await.unwrap();
    let requests = Requests::to(&control_plane).await.unwrap();
    let enforces = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let namespace = json!({"metadata": {"name": "restricted", "labels": enforces}});
    assert_eq!(requests.create(NAMESPACES, &namespace).await.unwrap().0, 201);
    let create = async |pod: Value| {
        let path = format!("{NAMESPACES}/restricted/pods?dryRun=All");
        let (status, body) = requests.create(&path, &pod).await.unwrap();
        (status, body["message"].as_str().unwrap_or_default().to_owned())
    };
    let values = r#"metrics={"tlsSecret":"tls"}"#;
    let ways = [kustomized("config/default"), rendered(&[]), rendered(&["--set-json", values])];
    for objects in &ways {
        assert_eq!(create(pod(objects)).await, (201, String::new()));
    }
    let mut privileged = pod(&ways[0]);
    privileged["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    let (status, message) = create(privileged).await;
    assert!(status == 403 && message.contains("allowPrivilegeEscalation"), "{status} {message}");
}
