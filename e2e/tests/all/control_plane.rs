//! The control planes of these tests: used again without what a test has left, and removed with all that they started.

use e2e::{
    cluster::{Cluster, OS_WINDOWS},
    control_plane::{OPERATOR_NAMESPACE, Options, User},
    kubectl::kubectl,
    kubelet::SimulatedNode,
    network::accepts_connections,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::DeleteParams;

#[tokio::test]
async fn servers_are_used_again_with_the_objects_of_their_start_and_end_if_more_was_changed() {
    // No other test uses servers with this argument.
    let options = Options { api_server_arguments: vec!["--v=0".to_owned()], ..Options::api_server_only() };
    let with_controllers = Options { controller_manager: true, ..options.clone() };
    let start = || async { Cluster::start_with(options.clone()).await.unwrap() };
    let accounts = |cluster: &Cluster| cluster.namespaced::<ServiceAccount>(OPERATOR_NAMESPACE);

    let first = Cluster::start_with(with_controllers).await.unwrap();
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
    let left = "nodes,windowsnodepools,runtimeclasses,deployments";
    assert_eq!(second.kubectl(&["get", left, "-o", "name"]).unwrap(), "");
    assert!(second.kubectl(&["get", "namespaces", "-l", "changed", "-o", "name"]).unwrap().is_empty());
    accounts(&second).get("winpool").await.unwrap();
    assert_eq!(second.requests().unwrap(), []);
    kubectl(&second.control_plane, User::Operator, &["get", "nodes"]).unwrap();
    second.kubectl(&["create", "priorityclass", "more", "--value=1"]).unwrap();
    let (directory, port) = (second.control_plane.directory().to_owned(), url.rsplit(':').next().unwrap());
    drop(second);

    assert_ne!(start().await.control_plane.url(), url);
    assert!(accepts_connections(port.parse().unwrap()).await.is_err(), "something still listens on port {port}");
    // The failure of any test keeps the files of all.
    assert!(!directory.exists() || directory.join("keep").exists(), "{}", directory.display());
}
