//! The removal of CRDs, namespace and operator, in any order and at once.

use std::sync::Arc;

use e2e::{
    cluster::{Cluster, DEFAULT_TAINT, SOON, pool_spec},
    control_plane::{ControlPlane, Options, User},
    install::{apply, path, wait_for_operator_permissions},
    kubelet::{Kubelets, SimulatedNode},
    operator::{Operator, winpool},
    wait::{size, until},
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::install_yaml;

const CRDS: [&str; 2] = ["-k", "crds"];
const NAMESPACE: [&str; 2] = ["-f", "config/namespace.yaml"];
const OPERATOR: [&str; 2] = ["-k", "config/default"];
/// In the first half, each part is the first, the second and the last one once.
const ORDERS: [[[&str; 2]; 3]; 6] = [
    [CRDS, NAMESPACE, OPERATOR],
    [NAMESPACE, OPERATOR, CRDS],
    [OPERATOR, CRDS, NAMESPACE],
    [CRDS, OPERATOR, NAMESPACE],
    [NAMESPACE, CRDS, OPERATOR],
    [OPERATOR, NAMESPACE, CRDS],
];

/// A control plane with the controllers for namespaces, in which `install.yaml` is applied.
async fn control_plane() -> Arc<ControlPlane> {
    let options = Options { scheduler: false, ..Options::default() };
    Arc::new(ControlPlane::start(options).await.unwrap())
}

/// An operator with a pool `web` of one node, with a configuration.
struct Installed {
    cluster: Cluster,
    operator: Operator,
    _kubelets: Kubelets,
}

async fn installed(control_plane: &Arc<ControlPlane>, policy: &str) -> Installed {
    apply(control_plane, &["-f", &install_yaml()]).unwrap();
    wait_for_operator_permissions(control_plane).unwrap();
    let cluster = Cluster::connect(control_plane.clone()).await.unwrap();
    let node = SimulatedNode::windows("w1", "10.0.20348.2700").label("agentpool", "web");
    let kubelets = cluster.start_kubelets(vec![node]).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_profile("standard", json!({})).await.unwrap();
    let fields = json!({ "profileRef": { "name": "standard" }, "deletionPolicy": policy });
    cluster.apply_pool_and_wait("web", pool_spec("web", fields)).await.unwrap();
    cluster.until_taints("w1", &[DEFAULT_TAINT]).await.unwrap();
    cluster.until_idle().await.unwrap();
    Installed { cluster, operator, _kubelets: kubelets }
}

impl Installed {
    /// Deletes objects and waits until they are gone, at most a minute.
    fn delete(&self, what: &[&str]) {
        let what: Vec<_> =
            what.iter().map(|word| if word.starts_with('-') { (*word).to_owned() } else { path(word) }).collect();
        let arguments: Vec<_> =
            ["delete", "--timeout=60s"].into_iter().chain(what.iter().map(String::as_str)).collect();
        self.cluster.kubectl(&arguments).unwrap();
    }

    /// What is on the node, and what its pods use.
    async fn in_use(&self) -> Value {
        let node = self.cluster.node("w1").await.unwrap();
        let class = self.cluster.class("windows-ltsc2022").await.unwrap();
        json!([node.metadata.labels, node.metadata.annotations, node.spec, class.metadata.uid])
    }

    /// The labels, annotations and taints that winpool added to the node.
    async fn added(&self) -> Vec<String> {
        let node = self.cluster.node("w1").await.unwrap();
        let keys = node.labels().keys().chain(node.annotations().keys()).filter(|key| key.contains("winpool.dev/"));
        keys.cloned().chain(self.cluster.taints("w1").await.unwrap()).collect()
    }

    /// Whether CRDs and namespace are gone.
    fn is_gone(&self) -> bool {
        let found = ["crds", "namespaces"].map(|kind| self.cluster.kubectl(&["get", kind, "-o", "name"]).unwrap());
        !found.concat().contains("winpool")
    }

    /// `winpool cleanup` without a question: its success and its output.
    fn clean_up(&self, options: &[&str]) -> (bool, String) {
        let output =
            winpool(&self.cluster.control_plane, User::Admin, &[&["cleanup", "--yes"], options].concat()).unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.success(), text)
    }
}

#[tokio::test]
async fn with_retain_the_parts_are_removed_in_any_order_and_nodes_stay_as_they_are() {
    let control_plane = control_plane().await;
    for order in size(&ORDERS[..3], &ORDERS[..]) {
        let installed = installed(&control_plane, "Retain").await;
        let before = installed.in_use().await;
        for part in *order {
            // What a namespace contained is deleted with it.
            installed.delete(&[&part[..], &["--ignore-not-found"]].concat());
        }
        assert!(installed.is_gone(), "{order:?}");
        assert_eq!(installed.in_use().await, before, "{order:?}");
        drop(installed.operator);
        installed.cluster.kubectl(&["delete", "node/w1", "runtimeclass/windows-ltsc2022"]).unwrap();
    }
}

#[tokio::test]
async fn with_retain_everything_is_removed_at_once_and_nodes_stay_as_they_are() {
    let control_plane = control_plane().await;
    let installed = installed(&control_plane, "Retain").await;
    let before = installed.in_use().await;
    installed.delete(&["-f", &install_yaml(), "--ignore-not-found"]);
    assert!(installed.is_gone());
    assert_eq!(installed.in_use().await, before);
}

#[tokio::test]
async fn with_cleanup_nodes_are_restored_before_the_pools_are_gone() {
    let control_plane = control_plane().await;
    let installed = installed(&control_plane, "Cleanup").await;
    // With the CRDs, the API server deletes the pools.
    installed.delete(&CRDS);
    assert_eq!(installed.added().await, [""; 0]);
    installed.delete(&["-f", &install_yaml(), "--ignore-not-found"]);
    assert!(installed.is_gone());
}

#[tokio::test]
async fn a_removal_that_the_operator_cannot_finish_is_finished_by_winpool_cleanup() {
    let control_plane = control_plane().await;
    let installed = installed(&control_plane, "Cleanup").await;
    installed.operator.kill().unwrap();
    let file = install_yaml();
    installed.cluster.kubectl(&["delete", "--wait=false", "-f", &file]).unwrap();
    let deleted = || async { Ok(installed.cluster.pool("web").await?["metadata"]["deletionTimestamp"].is_string()) };
    until("the API server deletes the pool with its CRD", SOON, deleted, |deleted| *deleted).await.unwrap();
    assert!(!installed.added().await.is_empty(), "nothing is removed from the node without an operator");
    // The key was in the namespace.
    let (success, text) = installed.clean_up(&["--trust-records"]);
    assert!(success, "{text}");
    let gone = || async { Ok(installed.is_gone()) };
    until("CRDs and namespace are gone", SOON, gone, |gone| *gone).await.unwrap();
    assert_eq!(installed.added().await, [""; 0]);
}
