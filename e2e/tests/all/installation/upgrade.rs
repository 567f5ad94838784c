//! Two operators at once, as while a Deployment replaces its pod, and an upgrade from the last release.

use std::{path::Path, process::Command, sync::Arc};

use e2e::{
    cluster::{Cluster, DEFAULT_TAINT, pool_spec},
    control_plane::{ControlPlane, Options},
    install::wait_for_operator_permissions,
    kubelet::SimulatedNode,
    operator::workspace,
    requests::Requests,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use winpool_api::{WindowsNodeConfig, WindowsNodePool, WindowsRuntimeProfile};

use super::install_yaml;
use crate::definitions::{
    collection, documents_below, object, path_of, refusal,
    specs::{self, POOL, PROFILE},
};

/// The nodes `w1` to `w5`, all labelled for pool `web`.
fn nodes() -> Vec<SimulatedNode> {
    (1..=5).map(|i| SimulatedNode::windows(&format!("w{i}"), "10.0.20348.2700").label("agentpool", "web")).collect()
}

#[tokio::test]
async fn an_older_and_a_newer_operator_write_every_change_once() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    let _older = cluster.start_operator(&[], &[]).await.unwrap();
    let fields = json!({ "profileRef": { "name": "standard" } });
    cluster.apply_profile("standard", json!({})).await.unwrap();
    cluster.apply_pool_and_wait("web", pool_spec("web", fields)).await.unwrap();
    cluster.until_idle().await.unwrap();
    let changes = cluster.node_changes().unwrap();

    let _newer = cluster.start_operator(&[], &[]).await.unwrap();
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

    cluster.nothing_was_forbidden().unwrap();
}

/// The files of a release that are installed or compared.
const FILES: &str = "install.yaml config/samples charts/winpool";

/// The files of the last release before this commit; those of the working tree before the first one.
pub fn last_release() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "set -o pipefail
        tag=$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null) && pack=\"git archive $tag\" || pack='tar -c'
        $pack {FILES} | tar -xC '{}'",
        folder.path().display()
    );
    let status = Command::new("bash").current_dir(workspace()).args(["-c", &script]).status().unwrap();
    assert!(status.success(), "{script}");
    folder
}

/// What users may have stored: the samples, everything that is accepted today, and what is refused today but may not have been.
fn candidates(samples: &Path) -> Vec<Value> {
    let rejected = specs::rejected().into_iter().chain(specs::by_schema()).map(|(kind, spec, _)| (kind, spec));
    let specs: Vec<_> = specs::accepted().into_iter().chain(rejected).collect();
    let numbered =
        specs.iter().enumerate().map(|(number, (kind, spec))| object(kind, &format!("stored-{number}"), spec));
    numbered.chain(documents_below(samples)).filter(|object| object["apiVersion"] == "winpool.dev/v1alpha1").collect()
}

/// Stores each object that the server accepts, and returns them as they are stored.
async fn store(requests: &Requests, objects: Vec<Value>) -> Vec<Value> {
    let mut stored = Vec::new();
    for object in objects {
        let (status, body) = requests.create(&collection(&object), &object).await.unwrap();
        match status {
            201 => stored.push(body),
            422 => {}
            _ => panic!("{status} {body}"),
        }
    }
    assert!(stored.len() > 30, "{}", stored.len());
    stored
}

/// Whether the type of the operator reads the object.
fn read<K: DeserializeOwned>(object: &Value) {
    serde_json::from_value::<K>(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
}

/// Each object is read by the operator, can be written, and is valid as a new one.
async fn assert_valid(requests: &Requests, stored: &[Value]) {
    for object in stored {
        let (status, now) = requests.get(&path_of(object)).await.unwrap();
        assert_eq!((status, &now["metadata"]["uid"]), (200, &object["metadata"]["uid"]), "{object}");
        match now["kind"].as_str().unwrap() {
            POOL => read::<WindowsNodePool>(&now),
            PROFILE => read::<WindowsRuntimeProfile>(&now),
            _ => read::<WindowsNodeConfig>(&now),
        }
        let patch = json!({"metadata": {"labels": {"written": "again"}}});
        let (status, body) = requests.merge(&format!("{}?dryRun=All", path_of(object)), &patch).await.unwrap();
        assert_eq!(status, 200, "{object}: {body}");
        let copy = json!({
            "apiVersion": now["apiVersion"], "kind": now["kind"], "metadata": {"name": "copy"}, "spec": now["spec"],
        });
        assert_eq!(refusal(requests, &copy).await, "", "{object}");
    }
}

#[tokio::test]
async fn what_the_last_release_has_installed_and_stored_stays_valid_and_is_taken_over_without_a_write_to_a_node() {
    let release = last_release();
    let control_plane = Arc::new(ControlPlane::start(Options::api_server_only()).await.unwrap());
    let cluster = Cluster::connect(control_plane.clone()).await.unwrap();
    let released = release.path().join("install.yaml").display().to_string();
    cluster.kubectl(&["apply", "-f", &released]).unwrap();
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=180s", "crd", "--all"]).unwrap();
    wait_for_operator_permissions(&control_plane).unwrap();
    let _kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_profile("used", json!({})).await.unwrap();
    let fields = json!({"profileRef": {"name": "used"}, "labels": {"team": "web"}});
    cluster.apply_pool_and_wait("web", pool_spec("web", fields)).await.unwrap();
    cluster.until_taints("w5", &[DEFAULT_TAINT]).await.unwrap();
    cluster.until_idle().await.unwrap();
    assert!(operator.stop().await.unwrap().success());
    let changes = cluster.node_changes().unwrap();
    let requests = Requests::to(&control_plane).await.unwrap();
    let stored = store(&requests, candidates(&release.path().join("config/samples"))).await;

    let apply_today = || cluster.kubectl(&["apply", "-f", &install_yaml()]).unwrap();
    apply_today();
    let again = apply_today();
    assert!(again.lines().count() > 10 && again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    wait_for_operator_permissions(&control_plane).unwrap();
    // The handlers of the new definitions are in use at once.
    control_plane.restart_api_server().await.unwrap();
    assert_valid(&requests, &stored).await;
    for object in &stored {
        requests.delete(&path_of(object)).await.unwrap();
    }

    let _operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    cluster.until_idle().await.unwrap();
    assert_eq!(cluster.node_changes().unwrap(), changes);
    cluster.nothing_was_forbidden().unwrap();
}
