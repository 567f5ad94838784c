//! Our CustomResourceDefinitions on upstream's server of today, by requests: it takes them, its rules accept and refuse what
//! they should, and it stores the objects that we write, show and print. `KUBEBUILDER_ASSETS` does not change this server.
//!
//! It has no built-in kinds. What needs them is tested on the control plane.

mod definitions;
mod objects;
mod requests;
mod rules;
pub mod upgrades;

#[path = "../../../tests/all/cel/accepted.rs"]
mod accepted;
#[path = "../../../tests/all/cel/rejected.rs"]
pub mod rejected;

use std::{fs, ops::Deref, path::Path, sync::Arc};

use e2e::{crd_server::CrdServer, install::path, requests::Requests, shared::Shared};
use serde_json::{Value, json};

const POOL: &str = "WindowsNodePool";
const PROFILE: &str = "WindowsRuntimeProfile";
const NODE_CONFIG: &str = "WindowsNodeConfig";

/// Requests to a server, which runs as long as they exist.
struct Server {
    requests: Requests,
    _running: Arc<dyn Send + Sync>,
}

impl Deref for Server {
    type Target = Requests;

    fn deref(&self) -> &Requests {
        &self.requests
    }
}

/// A server with the definitions of `crds` and of Cluster API.
async fn shared() -> Server {
    static SHARED: Shared<CrdServer> = Shared::new();
    let start = async || {
        let server = CrdServer::start().await?;
        let requests = server.requests().await?;
        for definition in definitions(&path("crds")).iter().chain(&definitions(&path("e2e/cluster-api"))) {
            requests.install(definition).await?;
        }
        Ok(server)
    };
    let server = SHARED.get(start).await.unwrap();
    Server { requests: server.requests().await.unwrap(), _running: server }
}

/// The CustomResourceDefinitions in a folder.
fn definitions(folder: &str) -> Vec<Value> {
    let mut definitions = documents_below(Path::new(folder));
    definitions.retain(|object| object["kind"] == "CustomResourceDefinition");
    assert!(definitions.len() > 2, "{folder}");
    definitions
}

/// The objects in the files of a folder and its folders, in their order.
fn documents_below(folder: &Path) -> Vec<Value> {
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
fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// An object of ours.
fn object(kind: &str, name: &str, spec: &str) -> Value {
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
async fn refusal(requests: &Requests, object: &Value) -> String {
    let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(object));
    let (status, body) = requests.create(&path, object).await.unwrap();
    if status == 201 { String::new() } else { format!("{status} {}", body["message"]) }
}
