//! Installation by one file and by helm, and the removal of the operator alone. The other tests install by kustomize.

use std::sync::Arc;

use e2e::{
    cluster::{Cluster, DEFAULT_TAINT, pool_spec},
    control_plane::{ControlPlane, Options, User},
    install::{apply, wait_for_operator_permissions},
    kubectl::kubectl,
    kubelet::SimulatedNode,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};

use super::{helm_in, install_yaml};

/// A way of installation.
#[derive(Clone, Copy, Debug)]
enum Way {
    File,
    Helm,
}

impl Way {
    fn install(self, control_plane: &ControlPlane) {
        match self {
            Self::File => apply(control_plane, &["-f", &install_yaml()]).unwrap(),
            Self::Helm => {
                let namespace = ["--namespace", "winpool-system", "--create-namespace"];
                let install = [&["install", "winpool", "charts/winpool"], &namespace[..]].concat();
                let notes = helm_in(control_plane, &install).unwrap();
                // Helm cannot label a namespace that it creates.
                for command in notes.lines().filter(|line| line.contains("kubectl label ")) {
                    let words: Vec<_> = command.split_whitespace().skip(1).collect();
                    kubectl(control_plane, User::Admin, &words).unwrap();
                }
            }
        }
        let label = r"jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}";
        let standard = kubectl(control_plane, User::Admin, &["get", "namespace", "winpool-system", "-o", label]);
        assert_eq!(standard.unwrap(), "restricted", "{self:?}");
        wait_for_operator_permissions(control_plane).unwrap();
    }

    fn upgrade(self, control_plane: &ControlPlane) {
        match self {
            Self::File => self.install(control_plane),
            Self::Helm => {
                let upgrade = ["upgrade", "winpool", "charts/winpool", "--namespace", "winpool-system"];
                helm_in(control_plane, &upgrade).unwrap();
            }
        }
    }

    /// Removes the operator alone.
    fn uninstall(self, control_plane: &ControlPlane) {
        match self {
            Self::File => {
                let delete = ["delete", "-f", &install_yaml(), "-l", "app.kubernetes.io/name=winpool"];
                kubectl(control_plane, User::Admin, &delete).unwrap();
            }
            Self::Helm => {
                helm_in(control_plane, &["uninstall", "winpool", "--namespace", "winpool-system"]).unwrap();
            }
        }
    }
}

/// What the operator leaves: on the node, and the identities of the other objects.
async fn left_behind(cluster: &Cluster) -> Value {
    let node = cluster.node("w1").await.unwrap();
    let pool = cluster.pool("web").await.unwrap();
    let mut maps = cluster.config_maps().list(&ListParams::default()).await.unwrap().items;
    maps.retain(|map| map.name_any().starts_with("web-"));
    let [map] = &maps[..] else { panic!("{maps:?}") };
    json!({
        "node": [node.metadata.labels, node.metadata.annotations, node.spec],
        "pool": pool["metadata"]["uid"],
        "configuration": map.metadata.uid,
        "key": cluster.namespaced::<Secret>("winpool-system").get("winpool-ownership").await.unwrap().metadata.uid,
        "class": cluster.class("windows-ltsc2022").await.unwrap().metadata.uid,
    })
}

/// Installs, uses, upgrades, removes and reinstalls the operator.
async fn life(way: Way) {
    let control_plane = Arc::new(ControlPlane::start(Options::api_server_only()).await.unwrap());
    way.install(&control_plane);
    let cluster = Cluster::connect(control_plane.clone()).await.unwrap();
    let node = SimulatedNode::windows("w1", "10.0.20348.2700").label("agentpool", "web");
    let _kubelets = cluster.start_kubelets(vec![node]).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_profile("standard", json!({})).await.unwrap();
    let fields = json!({ "profileRef": { "name": "standard" } });
    cluster.apply_pool_and_wait("web", pool_spec("web", fields)).await.unwrap();
    cluster.until_taints("w1", &[DEFAULT_TAINT]).await.unwrap();
    cluster.until_idle().await.unwrap();
    let before = left_behind(&cluster).await;
    way.upgrade(&control_plane);
    cluster.until_idle().await.unwrap();
    cluster.nothing_was_forbidden().unwrap();

    assert!(operator.stop().await.unwrap().success());
    way.uninstall(&control_plane);
    let kinds = "deployments,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings";
    let rest = cluster.kubectl(&["get", kinds, "-A", "-o", "name"]).unwrap();
    assert!(!rest.contains("winpool"), "{way:?}: {rest}");
    assert_eq!(left_behind(&cluster).await, before, "{way:?}: upgrade and removal change nothing that nodes use");

    way.install(&control_plane);
    let writes = cluster.writes().unwrap().len();
    let _operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    cluster.until_idle().await.unwrap();
    assert_eq!(left_behind(&cluster).await, before, "{way:?}: the operator continues with what is there");
    let written: Vec<_> = cluster.writes().unwrap().split_off(writes).into_iter().map(|write| write.resource).collect();
    assert!(!written.contains(&"nodes".to_owned()), "{way:?}: {written:?}");
}

#[tokio::test]
async fn installed_by_one_file_the_operator_works_and_its_removal_leaves_what_nodes_use() {
    life(Way::File).await;
}

#[tokio::test]
async fn installed_by_helm_the_operator_works_and_its_removal_leaves_what_nodes_use() {
    life(Way::Helm).await;
}
