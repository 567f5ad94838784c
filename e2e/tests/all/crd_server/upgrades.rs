//! Objects that older definitions have stored: after an upgrade each can be read, and its status written, also on a server
//! that checks unchanged values again (Kubernetes 1.25 to 1.29).
//!
//! `recorded` has definitions as they were released: before `replacesTaints`, and the first ones that a server with CEL takes.

use std::{collections::BTreeSet, fs};

use e2e::{crd_server::CrdServer, install::path, requests::Requests};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use winpool_api::{
    WindowsNodeConfig, WindowsNodeConfigStatus, WindowsNodePool, WindowsNodePoolStatus, WindowsRuntimeProfile,
    WindowsRuntimeProfileStatus,
};

use super::{
    NODE_CONFIG, POOL, PROFILE, accepted, collection, definitions, documents_below, object, path_of, refusal, rejected,
};

const RECORDED: [&str; 2] = ["before-replaces-taints", "first-with-replaces-taints"];

/// The fields that were removed since the first definitions.
const REMOVED: [(&str, &str); 2] = [(NODE_CONFIG, "status.conditions"), (NODE_CONFIG, "status.lastGood")];

/// The paths of the fields in a schema.
fn fields(schema: &Value, path: &str) -> BTreeSet<String> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let named = properties.map(|(name, schema)| (format!("{path}.{name}").trim_start_matches('.').to_owned(), schema));
    let parts = ["items", "additionalProperties"].into_iter().filter_map(|part| schema.get(part));
    let parts = parts.flat_map(|schema| fields(schema, path));
    named.flat_map(|(path, schema)| fields(schema, &path).into_iter().chain([path])).chain(parts).collect()
}

/// The fields of the kinds in the definitions of a folder.
fn fields_below(folder: &str) -> BTreeSet<(String, String)> {
    let of = |definition: Value| {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        fields(schema, "").into_iter().map(move |field| (kind.clone(), field)).collect::<Vec<_>>()
    };
    definitions(&path(folder)).into_iter().flat_map(of).collect()
}

#[test]
fn the_changelog_names_every_field_that_an_upgrade_removes() {
    let changelog = fs::read_to_string(path("CHANGELOG.md")).unwrap();
    let now = fields_below("crds");
    for recorded in RECORDED {
        let before = fields_below(&format!("e2e/tests/all/crd_server/recorded/{recorded}"));
        assert!(before.len() > 200, "{}", before.len());
        let mut removed: Vec<_> = before.difference(&now).collect();
        removed.retain(|(_, field)| {
            let parents = field.match_indices('.').map(|(at, _)| &field[..at]);
            !parents.into_iter().any(|parent| REMOVED.iter().any(|(_, removed)| *removed == parent))
        });
        let expected = REMOVED.map(|(kind, field)| (kind.to_owned(), field.to_owned()));
        assert_eq!(removed, expected.iter().collect::<Vec<_>>(), "{recorded}");
    }
    for (_, field) in REMOVED {
        assert!(changelog.contains(&format!("`{field}`")), "CHANGELOG.md does not name {field}");
    }
}

/// What users may have stored: everything that is accepted today, the samples, and what is refused today but may not have been.
pub fn candidates() -> Vec<Value> {
    let mut specs: Vec<(&str, String)> = Vec::new();
    specs.extend(accepted::POOLS.iter().map(|spec| (POOL, (*spec).to_owned())));
    specs.extend(accepted::PARTS_OF_POOLS.iter().map(|part| (POOL, rejected::pool(part))));
    specs.extend(accepted::PROFILES.iter().map(|spec| (PROFILE, (*spec).to_owned())));
    specs.extend(rejected::pools().into_iter().map(|(spec, _)| (POOL, spec)));
    specs.extend(rejected::profiles().into_iter().map(|(spec, _)| (PROFILE, spec.to_owned())));
    specs.extend(rejected::node_configs().into_iter().map(|(spec, _)| (NODE_CONFIG, spec)));
    specs.extend(rejected::by_schema().into_iter().map(|(kind, spec, _)| (kind, spec)));
    let numbered =
        specs.iter().enumerate().map(|(number, (kind, spec))| object(kind, &format!("stored-{number}"), spec));
    numbered.chain(documents_below(path("config/samples").as_ref())).collect()
}

/// Whether the type of the operator reads the object.
fn read<K: DeserializeOwned>(object: &Value) {
    serde_json::from_value::<K>(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
}

async fn upgrade(recorded: &str) {
    let server = CrdServer::start().await.unwrap();
    let requests = server.requests().await.unwrap();
    for definition in definitions(&path(format!("e2e/tests/all/crd_server/recorded/{recorded}"))) {
        requests.install(&definition).await.unwrap();
    }
    let mut stored = Vec::new();
    for candidate in candidates() {
        let (status, body) = requests.create(&collection(&candidate), &candidate).await.unwrap();
        match status {
            201 => stored.push(body),
            422 => {}
            _ => panic!("{status} {body}"),
        }
    }
    assert!(stored.len() > 30, "{}", stored.len());
    for definition in definitions(&path("crds")) {
        requests.upgrade(&definition).await.unwrap();
    }
    until_upgraded(&requests).await;
    for object in stored {
        let (status, now) = requests.get(&path_of(&object)).await.unwrap();
        assert_eq!(status, 200, "{object}");
        let status = match now["kind"].as_str().unwrap() {
            POOL => {
                read::<WindowsNodePool>(&now);
                json!(WindowsNodePoolStatus { observed_generation: Some(1), ..Default::default() })
            }
            PROFILE => {
                read::<WindowsRuntimeProfile>(&now);
                json!(WindowsRuntimeProfileStatus { observed_generation: Some(1), ..Default::default() })
            }
            _ => {
                read::<WindowsNodeConfig>(&now);
                json!(WindowsNodeConfigStatus::default())
            }
        };
        let mut written = now.clone();
        written["status"] = status;
        let (code, body) = requests.replace(&format!("{}/status", path_of(&object)), &written).await.unwrap();
        assert_eq!(code, 200, "{recorded}: {object}: {body}");
        // A new object is checked as a whole, as every write is before Kubernetes 1.30.
        let copy = json!({
            "apiVersion": now["apiVersion"], "kind": now["kind"], "metadata": {"name": "copy"}, "spec": now["spec"],
        });
        assert_eq!(refusal(&requests, &copy).await, "", "{recorded}: {object}");
    }
}

/// Waits until the handler with the new schema answers: strict validation knows the newest field of pools.
async fn until_upgraded(requests: &Requests) {
    let newest = object(POOL, "newest", &rejected::pool("minRevision: 1"));
    let known = || async {
        let answer = refusal(requests, &newest).await;
        anyhow::ensure!(answer.is_empty(), "{answer}");
        Ok(())
    };
    e2e::wait::eventually("the new schema is in use", e2e::cluster::SOON, known).await.unwrap();
}

#[tokio::test]
async fn objects_stored_before_replaces_taints_stay_readable_and_their_status_writable() {
    upgrade(RECORDED[0]).await;
}

#[tokio::test]
async fn objects_stored_by_the_first_definitions_with_replaces_taints_stay_readable_and_their_status_writable() {
    upgrade(RECORDED[1]).await;
}
