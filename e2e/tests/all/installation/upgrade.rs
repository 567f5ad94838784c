//! Two operators at once, as while a Deployment replaces its pod, and an upgrade of what an earlier chart has installed.
//!
//! `recorded/chart-before-cel.tgz` is the chart whose definitions only servers without rules in CEL take.

use std::{collections::BTreeSet, sync::Arc};

use e2e::{
    cluster::{Cluster, DEFAULT_TAINT, pool_spec},
    control_plane::{ControlPlane, Options},
    install::{apply, path, wait_for_operator_permissions},
    kubelet::SimulatedNode,
    requests::Requests,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::helm_in;
use crate::crd_server::{collection, path_of, upgrades::candidates};

const NODE_CONFIGS: &str = "/apis/winpool.dev/v1alpha1/windowsnodeconfigs";
const EARLIER_CHART: &str = "e2e/tests/all/installation/recorded/chart-before-cel.tgz";
/// The reasons of conditions that CHANGELOG.md names as removed.
const REMOVED_REASONS: [&str; 5] = ["NotUsed", "Matched", "WithinPolicy", "Supported", "Placed"];

/// The nodes `w1` to `w5`, all labelled for pool `web`.
fn nodes() -> Vec<SimulatedNode> {
    (1..=5).map(|i| SimulatedNode::windows(&format!("w{i}"), "10.0.20348.2700").label("agentpool", "web")).collect()
}

#[tokio::test]
async fn an_older_and_a_newer_operator_write_every_change_once() {
    let cluster = Cluster::start().await.unwrap();
    let kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    let older = cluster.start_operator(&[], &[]).await.unwrap();
    let fields = json!({ "profileRef": { "name": "standard" } });
    cluster.apply_profile("standard", json!({})).await.unwrap();
    cluster.apply_pool_and_wait("web", pool_spec("web", fields)).await.unwrap();
    cluster.until_idle().await.unwrap();
    let changes = cluster.node_changes().unwrap();

    let newer = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_idle().await.unwrap();
    assert_eq!(cluster.node_changes().unwrap(), changes, "the second operator changes nothing that the first wrote");

    let label = json!({ "spec": { "labels": { "team": "web" } } });
    cluster.edit_pool("web", label).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    cluster.until_idle().await.unwrap();
    for (node, before) in changes {
        assert_eq!(cluster.label(&node, "team").await.unwrap().as_deref(), Some("web"));
        assert_eq!(cluster.node_changes().unwrap()[&node], before + 1, "{node}");
    }

    assert!(older.stop().await.unwrap().success());
    kubelets.add(vec![SimulatedNode::windows("w6", "10.0.20348.2700").label("agentpool", "web")]).await.unwrap();
    cluster.until_taints("w6", &[DEFAULT_TAINT]).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    cluster.until_idle().await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
    drop(newer);
}

/// Stores an object, with a status if it has one, and returns it as it is stored; `None` if the definitions refuse it, or the name
/// is taken.
async fn store(requests: &Requests, object: &Value) -> Option<Value> {
    let (code, body) = requests.create(&collection(object), object).await.unwrap();
    if [409, 422].contains(&code) {
        return None;
    }
    assert_eq!(code, 201, "{object}: {body}");
    let Some(status) = object.get("status") else { return Some(body) };
    let path = format!("{}/status", path_of(object));
    let (code, body) = requests.merge(&path, &json!({"status": status})).await.unwrap();
    assert_eq!(code, 200, "{object}: {body}");
    Some(body)
}

/// A pool with conditions that the present version does not report, and the configuration of one of its nodes.
fn objects_in_use() -> [Value; 3] {
    let condition = |types: &str, status: &str, reason: &str| {
        json!({
            "type": types, "status": status, "reason": reason, "message": "As it was.", "observedGeneration": 1,
            "lastTransitionTime": "2026-06-01T12:00:00Z",
        })
    };
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "winpool.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let fields = json!({"profileRef": {"name": "standard"}, "deletionPolicy": "Cleanup", "labels": {"team": "web"}});
    let mut pool = object("WindowsNodePool", "web", pool_spec("web", fields));
    pool["status"] = json!({
        "observedGeneration": 1,
        "conditions": [
            condition("Ready", "True", "AsSpecified"),
            condition("MachinesTemplated", "True", "NotUsed"),
            condition("OSMismatch", "False", "Matched"),
            condition("VersionSkew", "False", "WithinPolicy"),
            condition("OSSupported", "True", "Supported"),
            condition("WorkloadsPlaced", "True", "Placed"),
        ],
    });
    let applied = json!({"config": "web-1", "digest": "1".repeat(64)});
    let spec = json!({
        "pool": "web", "nodeUID": "uid-1", "config": "web-1", "digest": "1".repeat(64), "confirmTimeout": "10m",
        "assignedAt": "2026-06-01T12:00:00Z",
    });
    let mut config = object("WindowsNodeConfig", "gone-1", spec);
    config["status"] = json!({
        "phase": "Applied", "applied": applied, "lastGood": applied,
        "conditions": [condition("Applied", "True", "Applied")],
    });
    [object("WindowsRuntimeProfile", "standard", json!({"kubelet": {"maxPods": 90}})), pool, config]
}

/// The object as the present version has it: without the fields that it removes.
fn without_removed(mut object: Value) -> Value {
    if let Some(status) = object["status"].as_object_mut().filter(|status| status.contains_key("lastGood")) {
        status.remove("lastGood");
        status.remove("conditions");
    }
    object.as_object_mut().unwrap().retain(|field, _| ["kind", "spec", "status"].contains(&field.as_str()));
    object
}

#[tokio::test]
async fn what_an_earlier_chart_has_installed_and_stored_is_upgraded_used_and_removed() {
    let control_plane = Arc::new(ControlPlane::start(Options::api_server_only()).await.unwrap());
    let cluster = Cluster::connect(control_plane.clone()).await.unwrap();
    let release = ["winpool", "--namespace", "winpool-system"];
    let helm = |verb: &str, chart: &[&str], more: &[&str]| {
        helm_in(&control_plane, &[&[verb, release[0]], chart, &release[1..], more].concat())
    };
    let installed = helm("install", &[&path(EARLIER_CHART)], &["--create-namespace"]);
    if control_plane.version().minor >= 25 {
        let refused = installed.unwrap_err();
        assert!(refused.contains("found no matching overload for '_==_'"), "{refused}");
        return;
    }
    installed.unwrap();
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=180s", "crd", "--all"]).unwrap();
    let requests = Requests::to(&control_plane).await.unwrap();
    let mut stored = Vec::new();
    for object in objects_in_use().iter().chain(&candidates()) {
        stored.extend(store(&requests, object).await);
    }
    assert!(stored.len() > 50, "{}", stored.len());

    // A field of the present version is stored when the handler of its schema answers.
    helm("upgrade", &["charts/winpool"], &[]).unwrap();
    let config = stored.iter().find(|object| object["metadata"]["name"] == "gone-1").unwrap();
    let status = format!("{}/status", path_of(config));
    let upgraded = || async {
        let patch = json!({"status": {"systemUUID": "uuid-1"}});
        let (_, body) = requests.merge(&status, &patch).await?;
        anyhow::ensure!(body["status"]["systemUUID"] == "uuid-1", "{body}");
        Ok(())
    };
    e2e::wait::eventually("the new schema is in use", e2e::cluster::SOON, upgraded).await.unwrap();
    requests.merge(&status, &json!({"status": {"systemUUID": null}})).await.unwrap();
    for object in stored {
        let (code, now) = requests.get(&path_of(&object)).await.unwrap();
        assert_eq!((code, without_removed(now.clone())), (200, without_removed(object)));
        assert!(now["status"].get("lastGood").is_none(), "{now}");
        if !["web", "standard", "gone-1"].contains(&now["metadata"]["name"].as_str().unwrap()) {
            requests.delete(&path_of(&now)).await.unwrap();
        }
    }

    // The present operator takes over, with the permissions for agents.
    let permissions = path("config/agent/operator_role.yaml");
    apply(&control_plane, &["-f", &permissions]).unwrap();
    wait_for_operator_permissions(&control_plane).unwrap();
    let _kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_taints("w1", &[DEFAULT_TAINT]).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    cluster.until_idle().await.unwrap();
    let conditions = cluster.status("web").await.unwrap().conditions;
    let reasons: BTreeSet<&str> = conditions.iter().map(|condition| condition.reason.as_str()).collect();
    assert!(reasons.is_disjoint(&REMOVED_REASONS.into()), "{conditions:?}");
    let (_, left) = requests.get(NODE_CONFIGS).await.unwrap();
    assert_eq!(left["items"], json!([]), "what belongs to no node is deleted");
    cluster.nothing_was_forbidden().unwrap();

    // As docs/install.md says: with Cleanup, first the definitions while the operator runs.
    cluster.kubectl(&["delete", "--timeout=60s", "-k", &path("crds")]).unwrap();
    let node = cluster.node("w1").await.unwrap();
    let keys = node.labels().keys().chain(node.annotations().keys()).filter(|key| key.contains("winpool.dev/"));
    assert_eq!((keys.collect::<Vec<_>>(), cluster.taints("w1").await.unwrap()), (vec![], vec![]));
    assert!(operator.stop().await.unwrap().success());
    cluster.kubectl(&["delete", "-f", &permissions]).unwrap();
    helm("uninstall", &[], &[]).unwrap();
    let kinds = "deployments,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,crds";
    let rest = cluster.kubectl(&["get", kinds, "-A", "-o", "name"]).unwrap();
    assert!(!rest.contains("winpool"), "{rest}");
}
