//! The policies of `config/agent` on the API server. `cargo test --workspace --test all policy_tables` evaluates them by upstream's
//! plugins.

use anyhow::ensure;
use e2e::{cluster::SOON, control_plane::User, install::install_agent_policies, wait::eventually};
use kube::{Client, client::Body};
use serde_json::json;
use winpool::policies::FIRST_WITH_VALIDATING;
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

/// An API server before Kubernetes 1.30 has no such policies, as docs/delivery/agent.md says: there, RBAC alone limits agents.
#[tokio::test]
async fn an_agent_writes_only_the_status_of_its_own_node_where_the_api_server_has_policies() {
    let fleet = Fleet::without_agents(2).await;
    let installed = install_agent_policies(&fleet.cluster.control_plane);
    let has_policies = fleet.cluster.control_plane.version().minor >= FIRST_WITH_VALIDATING.0;
    if let Err(error) = &installed {
        assert!(!has_policies && error.to_string().contains("no matches for kind"), "{error:#}");
    }
    assert_eq!(installed.is_ok(), has_policies);
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({})).await;
    fleet.until_assigned("win-01").await;
    let client = &fleet.cluster.client;
    let uid = fleet.cluster.node("win-01").await.unwrap().metadata.uid.unwrap();
    let refused = if has_policies { 403 } else { 200 };
    let enforced = || async {
        let status = write_status(client, "win-01", Some(("win-02", &uid))).await;
        ensure!(status == refused, "{status} for another node");
        Ok(())
    };
    eventually("the policies are enforced", SOON, enforced).await.unwrap();
    let (own, other, former) = (("win-01", uid.as_str()), ("win-02", uid.as_str()), ("win-01", "former"));
    for (token_of, expected) in [(Some(own), 200), (Some(other), refused), (Some(former), refused), (None, refused)] {
        assert_eq!(write_status(client, "win-01", token_of).await, expected, "{token_of:?}");
    }
    operator.stop().await.unwrap();
}
