//! Volumes on a real API server, as docs/storage.md shows them: without the permission, without the driver, and with it.

use std::fs;

use e2e::{
    cluster::{Cluster, NODE_LABEL, OS_WINDOWS, create},
    control_plane::{Options, User},
    install,
    kubelet::SimulatedNode,
    operator::{winpool, workspace},
};
use k8s_openapi::api::storage::v1::CSINode;
use serde_json::{Value, json};

use super::SERVER_2022;

/// The lines of the example in docs/storage.md: the reason, and the issue.
fn example() -> [String; 2] {
    let page = fs::read_to_string(workspace().join("docs/storage.md")).unwrap();
    let block = page.split_once("```text\n").unwrap().1.split_once("\n```").unwrap().0;
    block.lines().map(str::to_owned).collect::<Vec<_>>().try_into().unwrap()
}

fn printed(cluster: &Cluster, arguments: &[&str]) -> String {
    String::from_utf8(winpool(&cluster.control_plane, User::Admin, arguments).unwrap().stdout).unwrap()
}

/// The ids of the symptoms in a part of the diagnosis of pool `web-2022`.
fn diagnosed(cluster: &Cluster, part: &str) -> Vec<String> {
    let diagnosis: Value = serde_json::from_str(&printed(cluster, &["doctor", "pool/web-2022", "-o", "json"])).unwrap();
    let ids = diagnosis[part].as_array().unwrap().iter();
    ids.map(|one| one["id"].as_str().or(one.as_str()).unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_volume_without_its_driver_is_reported_until_the_node_has_it_and_not_checked_without_the_permission() {
    // The pod and the binding of its claim are those of the controllers and of the scheduler.
    let cluster = Cluster::start_with(Options::default()).await.unwrap();
    let node = SimulatedNode::windows("web-1", SERVER_2022).label(NODE_LABEL, "web-2022");
    let _kubelets = cluster.start_kubelets(vec![node]).await.unwrap();
    cluster.apply_tainting_pool("web-2022", "ltsc2022", OS_WINDOWS).await.unwrap();
    let _operator = cluster.start_operator(&["--registry=off", "--storage"], &[]).await.unwrap();
    let placed = async |status, reason| cluster.until_condition("web-2022", "WorkloadsPlaced", status, reason).await;
    let unread = placed("Unknown", "NotChecked").await.unwrap();
    assert!(unread.message.contains("config/storage"), "{}", unread.message);
    install::apply(&cluster.control_plane, &["-k", &install::path("config/storage")]).unwrap();
    cluster.until_absent("web-2022", "WorkloadsPlaced").await.unwrap();

    install::apply(&cluster.control_plane, &["-f", &install::path("docs/storage/orders.yaml")]).unwrap();
    let [reason, issue] = example();
    placed("False", "DriverNotRegistered").await.unwrap();
    let status = printed(&cluster, &["status", "web-2022"]);
    assert!(status.contains(&reason) && status.contains(&issue), "{status}");
    assert!(diagnosed(&cluster, "found").contains(&"volume-not-mounted".to_owned()));

    let drivers = cluster.api::<CSINode>();
    let spec =
        json!({ "drivers": [{ "name": "disk.csi.azure.com", "nodeID": "web-1", "allocatable": { "count": 4 } }] });
    create(&drivers, json!({ "metadata": { "name": "web-1" }, "spec": spec })).await.unwrap();
    cluster.until_absent("web-2022", "WorkloadsPlaced").await.unwrap();
    assert!(diagnosed(&cluster, "excluded").contains(&"volume-not-mounted".to_owned()));
}
