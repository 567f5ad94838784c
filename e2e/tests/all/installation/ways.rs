//! Each way of installation, and the removal of the operator alone.

use std::{collections::BTreeMap, sync::Arc};

use e2e::{
    cluster::{Cluster, DEFAULT_TAINT, pool_spec},
    control_plane::{ControlPlane, Options, User},
    install::{apply, path, wait_for_operator_permissions},
    kubectl::kubectl,
    kubelet::SimulatedNode,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};

use super::{helm_in, install_yaml};

/// A way of installation.
#[derive(Clone, Copy, Debug)]
enum Way {
    File,
    Kustomize,
    Helm,
}

impl Way {
    fn install(self, control_plane: &ControlPlane) {
        match self {
            Self::File => apply(control_plane, &["-f", &install_yaml()]).unwrap(),
            Self::Kustomize => {
                apply(control_plane, &["-k", &path("crds")]).unwrap();
                apply(control_plane, &["-f", &path("config/namespace.yaml")]).unwrap();
                apply(control_plane, &["-k", &path("config/default")]).unwrap();
            }
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
            Self::File | Self::Kustomize => self.install(control_plane),
            Self::Helm => {
                let upgrade = ["upgrade", "winpool", "charts/winpool", "--namespace", "winpool-system"];
                helm_in(control_plane, &upgrade).map(drop).unwrap();
            }
        }
    }

    /// Removes the operator alone.
    fn uninstall(self, control_plane: &ControlPlane) {
        let delete = |arguments: &[&str]| {
            kubectl(control_plane, User::Admin, &[&["delete"], arguments].concat()).map(drop).unwrap();
        };
        match self {
            Self::File => delete(&["-f", &install_yaml(), "-l", "app.kubernetes.io/name=winpool"]),
            Self::Kustomize => delete(&["-k", &path("config/default")]),
            Self::Helm => {
                helm_in(control_plane, &["uninstall", "winpool", "--namespace", "winpool-system"]).map(drop).unwrap();
            }
        }
    }
}

/// The names and versions of what the operator leaves.
async fn left_behind(cluster: &Cluster) -> BTreeMap<String, Value> {
    let node = cluster.node("w1").await.unwrap();
    let pool = cluster.pool("web").await.unwrap();
    let all = ListParams::default();
    let maps = cluster.config_maps().list(&all).await.unwrap().items;
    let maps: Vec<_> =
        maps.iter().filter(|map| map.name_any().starts_with("web-")).map(|map| &map.metadata.uid).collect();
    assert_eq!(maps.len(), 1);
    let secrets: Api<Secret> = cluster.namespaced("winpool-system");
    let key = secrets.get("winpool-ownership").await.unwrap();
    BTreeMap::from([
        ("node".to_owned(), json!([node.metadata.labels, node.metadata.annotations, node.spec])),
        ("pool".to_owned(), pool["metadata"]["uid"].clone()),
        ("configurations".to_owned(), json!(maps)),
        ("key".to_owned(), json!(key.metadata.uid)),
        ("class".to_owned(), json!(cluster.class("windows-ltsc2022").await.unwrap().metadata.uid)),
    ])
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
    cluster
        .apply_pool_and_wait("web", pool_spec("web", json!({ "profileRef": { "name": "standard" } })))
        .await
        .unwrap();
    cluster.until_taints("w1", &[DEFAULT_TAINT]).await.unwrap();
    cluster.until_idle().await.unwrap();
    let before = left_behind(&cluster).await;
    way.upgrade(&control_plane);
    cluster.until_idle().await.unwrap();
    cluster.nothing_was_forbidden().unwrap();

    assert!(operator.stop().await.unwrap().success());
    way.uninstall(&control_plane);
    let rest = cluster.kubectl(&["get", "deployments,serviceaccounts,roles,rolebindings", "-A", "-o", "name"]).unwrap();
    let rest =
        format!("{rest}{}", cluster.kubectl(&["get", "clusterroles,clusterrolebindings", "-o", "name"]).unwrap());
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
async fn installed_by_kustomize_the_operator_works_and_its_removal_leaves_what_nodes_use() {
    life(Way::Kustomize).await;
}

#[tokio::test]
async fn installed_by_helm_the_operator_works_and_its_removal_leaves_what_nodes_use() {
    life(Way::Helm).await;
}
