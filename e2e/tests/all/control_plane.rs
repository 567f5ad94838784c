//! The control planes of these tests: used again without what a test has left, and removed with all that they started.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    cluster::{Cluster, OS_WINDOWS},
    control_plane::{ControlPlane, OPERATOR_NAMESPACE, Options, User},
    kubectl::kubectl,
    kubelet::SimulatedNode,
    network::accepts_connections,
    wait::eventually,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::DeleteParams;

const SOON: Duration = Duration::from_secs(180);

#[tokio::test]
async fn servers_are_used_again_with_the_objects_of_their_start_unless_more_was_changed() {
    // No other test uses servers with this argument.
    let options = Options { api_server_arguments: vec!["--v=0".to_owned()], ..Options::default() };
    let start = || async { Cluster::start_with(options.clone()).await.unwrap() };
    let accounts = |cluster: &Cluster| cluster.namespaced::<ServiceAccount>(OPERATOR_NAMESPACE);

    let first = start().await;
    let url = first.control_plane.url();
    let kubelets = first.start_kubelets(vec![SimulatedNode::linux("left")]).await.unwrap();
    let operator = first.start_operator(&[], &[]).await.unwrap();
    first.apply_tainting_pool("left", "ltsc2022", OS_WINDOWS).await.unwrap();
    first.until_idle().await.unwrap();
    assert!(!first.writes().unwrap().is_empty());
    first.kubectl(&["label", "namespace", OPERATOR_NAMESPACE, "changed=yes"]).unwrap();
    accounts(&first).delete("winpool", &DeleteParams::default()).await.unwrap();
    first.kubectl(&["delete", "clusterrolebinding", "winpool"]).unwrap();
    first.kubectl(&["create", "service", "clusterip", "left", "--tcp=80"]).unwrap();
    first.kubectl(&["create", "deployment", "left", "--image=left"]).unwrap();
    drop((kubelets, operator, first));

    let second = start().await;
    assert_eq!(second.control_plane.url(), url);
    assert_eq!(
        second.kubectl(&["get", "nodes,windowsnodepools,runtimeclasses,deployments", "-o", "name"]).unwrap(),
        ""
    );
    assert!(second.kubectl(&["get", "namespaces", "-l", "changed", "-o", "name"]).unwrap().is_empty());
    accounts(&second).get("winpool").await.unwrap();
    assert_eq!(second.requests().unwrap(), []);
    kubectl(&second.control_plane, User::Operator, &["get", "nodes"]).unwrap();
    second.kubectl(&["create", "priorityclass", "more", "--value=1"]).unwrap();
    drop(second);

    assert_ne!(start().await.control_plane.url(), url);
}

#[tokio::test]
async fn a_dropped_control_plane_leaves_no_process_and_no_files() {
    let control_plane = ControlPlane::start(Options::api_server_only()).await.unwrap();
    let (directory, url) = (control_plane.directory().to_owned(), control_plane.url());
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    accepts_connections(port).await.unwrap();
    drop(control_plane);
    let removed = || async {
        ensure!(accepts_connections(port).await.is_err(), "something still listens on port {port}");
        // The failure of any test keeps the files of all.
        let is_kept = directory.join("keep").exists();
        ensure!(!directory.exists() || is_kept, "{} is still there", directory.display());
        Ok(())
    };
    eventually("its processes and files are removed", SOON, removed).await.unwrap();
}
