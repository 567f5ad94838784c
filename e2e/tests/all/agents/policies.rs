//! The policies of `config/agent`, on an API server that has them. `cargo test -p winpool --test all policies` evaluates them
//! without one.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    assets::{Assets, print_skipped},
    cluster::SOON,
    control_plane::User,
    install::install_agent_policies,
    wait::eventually,
};
use kube::{Client, client::Body};
use serde_json::json;

use super::Fleet;

const TEST: &str = "agents::policies";
/// The first minor with ValidatingAdmissionPolicy in its version v1.
const FIRST_MINOR: u32 = 30;

/// Writes the status of a WindowsNodeConfig as an agent whose token names a node, and returns the status code.
async fn write_status(client: &Client, config: &str, token_of: Option<&str>) -> u16 {
    let mut request = http::Request::patch(format!("/apis/winpool.dev/v1alpha1/windowsnodeconfigs/{config}/status"))
        .header("Content-Type", "application/merge-patch+json")
        .header("Impersonate-User", User::Agent.name());
    if let Some(node) = token_of {
        request = request.header("Impersonate-Extra-authentication.kubernetes.io%2fnode-name", node);
    }
    let body = json!({ "status": { "message": "" } }).to_string().into_bytes();
    client.send(request.body(Body::from(body)).unwrap()).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn an_api_server_with_the_policies_lets_an_agent_write_only_the_status_of_its_own_node() {
    let version = &Assets::locate().unwrap().version;
    if version.minor < FIRST_MINOR {
        return print_skipped(TEST, &format!("kube-apiserver 1.{FIRST_MINOR} or later"));
    }
    let fleet = Fleet::without_agents(2).await;
    install_agent_policies(&fleet.cluster.control_plane).unwrap();
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({})).await;
    fleet.until_assigned("win-01").await;
    let client = &fleet.cluster.client;
    let enforced = || async {
        ensure!(write_status(client, "win-01", Some("win-02")).await == 403, "it may write for another node");
        Ok(())
    };
    eventually("the policies are enforced", SOON + Duration::from_secs(30), enforced).await.unwrap();
    for (token_of, expected) in [(Some("win-01"), 200), (Some("win-02"), 403), (None, 403)] {
        assert_eq!(write_status(client, "win-01", token_of).await, expected, "{token_of:?}");
    }
    operator.stop().await.unwrap();
}
