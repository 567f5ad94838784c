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
        let absolute = |word: &&str| if word.starts_with('-') { (*word).to_owned() } else { path(word) };
        let what: Vec<_> = what.iter().map(absolute).collect();
        let arguments = ["delete", "--timeout=60s"].into_iter().chain(what.iter().map(String::as_str));
        self.cluster.kubectl(&arguments.collect::<Vec<_>>()).unwrap();
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

    /// Ends the operator, and deletes what it has left, so that another one is installed as the first.
    fn forget(self) {
        drop(self.operator);
        self.cluster.kubectl(&["delete", "node/w1", "runtimeclass/windows-ltsc2022"]).unwrap();
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
        installed.forget();
    }
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
    let clean_up = ["cleanup", "--yes", "--trust-records"];
    let output = winpool(&control_plane, User::Admin, &clean_up).unwrap();
    assert!(output.status.success(), "{output:?}");
    let gone = || async { Ok(installed.is_gone()) };
    until("CRDs and namespace are gone", SOON, gone, |gone| *gone).await.unwrap();
    assert_eq!(installed.added().await, [""; 0]);
}
