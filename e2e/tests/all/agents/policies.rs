//! The policies of `config/agent` and the operator. `policy_tables` has what they do to every request.

use anyhow::ensure;
use e2e::{cluster::SOON, control_plane::User, install::install_agent_policies, wait::eventually};
use kube::{Client, client::Body};
use serde_json::json;
use winpool_api::WindowsNodeConfigStatus;

use super::Fleet;

/// Writes the status of a WindowsNodeConfig as an agent whose token has the name and the UID of a node, and returns the status
/// code.
async fn write_status(client: &Client, config: &str, token_of: Option<(&str, &str)>) -> u16 {
    let mut request = http::Request::patch(format!("/apis/winpool.dev/v1alpha1/windowsnodeconfigs/{config}/status"))
        .header("Content-Type", "application/merge-patch+json")
        .header("Impersonate-User", User::Agent.name());
    if let Some((name, uid)) = token_of {
        request = request
            .header("Impersonate-Extra-authentication.kubernetes.io%2fnode-name", name)
            .header("Impersonate-Extra-authentication.kubernetes.io%2fnode-uid", uid);
    }
    let body = json!({ "status": WindowsNodeConfigStatus::default() }).to_string().into_bytes();
    client.send(request.body(Body::from(body)).unwrap()).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn an_agent_writes_only_the_status_of_its_own_node() {
    let fleet = Fleet::without_agents(2).await;
    install_agent_policies(&fleet.cluster.control_plane).unwrap();
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({})).await;
    fleet.until_assigned("win-01").await;
    let client = &fleet.cluster.client;
    let uid = fleet.cluster.node("win-01").await.unwrap().metadata.uid.unwrap();
    let enforced = || async {
        let status = write_status(client, "win-01", Some(("win-02", &uid))).await;
        ensure!(status == 403, "{status} for another node");
        Ok(())
    };
    eventually("the policies are enforced", SOON, enforced).await.unwrap();
    let (own, other, former) = (("win-01", uid.as_str()), ("win-02", uid.as_str()), ("win-01", "former"));
    for (token_of, expected) in [(Some(own), 200), (Some(other), 403), (Some(former), 403), (None, 403)] {
        assert_eq!(write_status(client, "win-01", token_of).await, expected, "{token_of:?}");
    }
    operator.stop().await.unwrap();
}
