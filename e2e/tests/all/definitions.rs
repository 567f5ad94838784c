//! Our CustomResourceDefinitions on the API server, by requests: it takes them, its rules accept and refuse what they should, it
//! keeps what an earlier schema has stored, and it stores the objects that we write, show and print.

mod objects;
mod requests;
mod rules;

#[path = "../../../tests/all/cel/specs.rs"]
pub mod specs;

use std::{fs, path::Path, sync::Arc};

use e2e::{
    control_plane::{ControlPlane, Options},
    install::path,
    requests::Requests,
    shared::Shared,
};
use serde_json::{Value, json};

/// The path of all CustomResourceDefinitions.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Requests to a control plane with the definitions of `crds` and of Cluster API, which runs as long as a test has it. Tests leave
/// no object.
async fn shared() -> (Requests, Arc<ControlPlane>) {
    static SHARED: Shared<ControlPlane> = Shared::new();
    let options = Options { cluster_api: true, ..Options::api_server_only() };
    let start = async || ControlPlane::start_installed(options).await;
    let running = SHARED.get(start).await.unwrap();
    (Requests::to(&running).await.unwrap(), running)
}

/// Our CustomResourceDefinitions.
fn definitions() -> Vec<Value> {
    let mut definitions = documents_below(path("crds").as_ref());
    definitions.retain(|object| object["kind"] == "CustomResourceDefinition");
    assert_eq!(definitions.len(), 3);
    definitions
}

/// The objects in the files of a folder and its folders, in their order.
pub fn documents_below(folder: &Path) -> Vec<Value> {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: std::path::PathBuf| match path.extension() {
        _ if path.is_dir() => documents_below(&path),
        Some(end) if end == "yaml" => documents(&fs::read_to_string(&path).unwrap()),
        _ => Vec::new(),
    };
    paths.into_iter().flat_map(read).collect()
}

/// The objects in a text.
pub fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The definition for another kind, so that it is created beside the installed one.
fn renamed(mut definition: Value, kind: &str) -> Value {
    let singular = kind.to_lowercase();
    definition["metadata"]["name"] = json!(format!("{singular}s.winpool.dev"));
    definition["spec"]["names"] = json!({"kind": kind, "singular": singular, "plural": format!("{singular}s")});
    definition
}

/// An object of ours.
pub fn object(kind: &str, name: &str, spec: &str) -> Value {
    let spec: Value = serde_saphyr::from_str(spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
    json!({"apiVersion": "winpool.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// The path of the objects of a kind.
pub fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    match version.split_once('/').unwrap().0 {
        "winpool.dev" => format!("/apis/{version}/{plural}"),
        _ => format!("/apis/{version}/namespaces/default/{plural}"),
    }
}

/// The path of an object.
pub fn path_of(object: &Value) -> String {
    format!("{}/{}", collection(object), object["metadata"]["name"].as_str().unwrap())
}

/// The message with which the server refuses to create an object, with strict validation of its fields; empty if it would.
pub async fn refusal(requests: &Requests, object: &Value) -> String {
    let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(object));
    let (status, body) = requests.create(&path, object).await.unwrap();
    if status == 201 { String::new() } else { format!("{status} {}", body["message"]) }
}

#[tokio::test]
async fn every_definition_is_created_with_strict_fields_and_served() {
    let (server, _running) = shared().await;
    for definition in definitions() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let (status, list) = server.get(&collection(&object(&kind, "", "{}"))).await.unwrap();
        assert_eq!((status, &list["kind"]), (200, &json!(format!("{kind}List"))));
        let path = format!("{DEFINITIONS}?dryRun=All&fieldValidation=Strict");
        let (status, body) = server.create(&path, &renamed(definition, "CreatedAgain")).await.unwrap();
        assert_eq!(status, 201, "{kind}: {}", body["message"]);
    }
}
