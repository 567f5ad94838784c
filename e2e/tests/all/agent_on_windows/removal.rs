//! The removal of the agent.

use e2e::{
    cluster::{SOON, edit},
    wait::until,
    windows_node::RESTORE_SERVICE,
};
use kube::api::ListParams;
use serde_json::json;
use winpool_api::WindowsNodeConfig;

use super::{Fixture, POOL};

#[tokio::test]
async fn an_agent_that_is_uninstalled_leaves_the_node_as_it_was() {
    let mut fixture = Fixture::start().await;
    edit(&fixture.cluster.pools(), POOL, json!({ "spec": { "delivery": { "method": "None" } } })).await.unwrap();
    let api = fixture.cluster.api::<WindowsNodeConfig>();
    let assigned = async || Ok(api.list(&ListParams::default()).await?.items.len());
    until("nothing is assigned", SOON, assigned, |count| *count == 0).await.unwrap();
    fixture.node.kill_agent().unwrap();
    assert_eq!(fixture.max_pods().as_deref(), Some("40"), "the node keeps its configuration");

    fixture.node.uninstall_agent().unwrap();
    for (path, text) in fixture.node.original_files() {
        assert_eq!(fixture.node.read(path).unwrap(), *text, "{path}");
    }
    assert!(!fixture.node.exists(r"C:\Program Files\winpool"));
    let states = ["containerd", "kubelet", RESTORE_SERVICE].map(|name| fixture.node.service_state(name).unwrap());
    assert_eq!(states, ["Running", "Running", "Absent"]);
    assert_eq!(fixture.node.health().await.unwrap(), 200);
    fixture.stop().await;
}
