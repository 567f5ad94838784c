//! Pods, their controllers, and images.

use e2e::{
    cluster::SOON,
    images::{ManifestFormat, Repository, linux, on, windows},
    wait::eventually,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The Windows versions of images.
pub const IMAGE_2019: &str = "10.0.17763.6414";
pub const IMAGE_2022: &str = "10.0.20348.2655";

/// Pushes an index for Linux and these versions of Windows.
pub async fn push_index(repository: &Repository, tag: &str, versions: &[&str]) {
    let (format, mut entries) = (ManifestFormat::Docker, Vec::new());
    for platform in versions.iter().map(|version| windows(version)).chain([linux("amd64")]) {
        entries.push(on(repository.image(None, format, &platform).await.unwrap(), &platform));
    }
    repository.index(Some(tag), format, &entries).await.unwrap();
}

/// Pushes an image for this platform, which only its configuration states.
pub async fn push(repository: &Repository, tag: &str, platform: &Value) {
    repository.image(Some(tag), ManifestFormat::Oci, platform).await.unwrap();
}

/// A pod with a RuntimeClass.
pub fn pod(name: &str, class: &str, image: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "runtimeClassName": class, "containers": [{ "name": "app", "image": image }] },
    })
}

/// A pod of the ReplicaSet of a Deployment.
pub fn of_deployment(mut pod: Value, deployment: &str) -> Value {
    pod["metadata"]["labels"] = json!({ "pod-template-hash": "5d8" });
    owned(pod, "ReplicaSet", &format!("{deployment}-5d8"))
}

/// A pod with a controller.
pub fn owned(mut pod: Value, kind: &str, name: &str) -> Value {
    pod["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true }]);
    pod
}

/// A controller with this pod spec as template.
pub fn controller(kind: &str, name: &str, spec: &Value) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name },
        "spec": { "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels }, "spec": spec } },
    })
}

pub fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "default")
}

/// Creates a pod, as soon as the admission plugin knows its class.
pub async fn create(client: &Client, pod: Value) {
    let pod = serde_json::from_value(pod).unwrap();
    let create = || async { Ok(pods(client).create(&PostParams::default(), &pod).await?) };
    eventually("the class is known", SOON, create).await.unwrap();
}

/// Changes the image of a pod.
pub async fn change_image(client: &Client, pod: &str, image: &str) {
    let patch = json!({ "spec": { "containers": [{ "name": "app", "image": image }] } });
    pods(client).patch(pod, &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
}
