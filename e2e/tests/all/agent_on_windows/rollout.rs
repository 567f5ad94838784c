//! A rollout over several nodes.

use e2e::{
    wait::until,
    windows_node::{KUBELET_CONFIG, Setup, WindowsNode},
};
use kube::api::ListParams;
use serde_json::json;
use winpool_api::{NodeConfigPhase, WindowsNodeConfig};

use super::{CHANGE, Fixture, POOL, failures::ENDED};
use crate::agent_programs::stripped_programs;

#[tokio::test]
async fn a_rollout_changes_one_node_after_the_other_and_stops_at_one_that_fails() {
    let fixture = Fixture::start().await;
    let mut others = Vec::new();
    for name in ["win-2", "win-3"] {
        let setup = Setup::new(stripped_programs(), name, POOL);
        let mut node = WindowsNode::start(&fixture.cluster.control_plane, &setup).unwrap();
        node.start_agent(&[]).unwrap();
        others.push(node);
    }
    let configured =
        async || Ok(fixture.cluster.pools().get(POOL).await?.data["status"]["columns"]["configured"].clone());
    until("all nodes are configured", CHANGE, configured, |count| count == "3/3").await.unwrap();

    let api = fixture.cluster.api::<WindowsNodeConfig>();
    let configs = async || Ok(api.list(&ListParams::default()).await?.items);
    let former = configs().await.unwrap()[0].spec.digest.clone();
    fixture.apply_profile(json!({ "kubelet": { "maxPods": 41 } })).await;
    until("all nodes have the new configuration", CHANGE, configs, |configs| {
        // The agent of a node whose configuration is confirmed restarts nothing any more.
        let is_changing = |config: &&WindowsNodeConfig| config.spec.digest != former && !config.spec.is_confirmed();
        assert!(configs.iter().filter(is_changing).count() <= 1, "more than one node is changed: {configs:#?}");
        configs.iter().all(|config| {
            let applied = config.status.as_ref().and_then(|status| status.applied.as_ref());
            config.spec.digest != former && applied.is_some_and(|applied| applied.digest == config.spec.digest)
        })
    })
    .await
    .unwrap();
    fixture.until_in_effect().await;

    a_configuration_that_only_a_whole_kubelet_refuses_is_rolled_back_with_the_end_of_its_log(&fixture).await;
    for other in &others {
        assert!(other.read(KUBELET_CONFIG).unwrap().contains("maxPods: 41"));
    }
    fixture.stop().await;
}

/// Not by the check before the change, for which the kubelet has no container runtime.
async fn a_configuration_that_only_a_whole_kubelet_refuses_is_rolled_back_with_the_end_of_its_log(fixture: &Fixture) {
    let kubelet = json!({
        "maxPods": 42,
        "featureGates": {"WindowsCPUAndMemoryAffinity": true},
        "extra": {"topologyManagerPolicy": "best-effort", "topologyManagerPolicyOptions": {"unknown": "true"}},
    });
    // That of 1.34 does not read the option under Wine, which lacks a function that the feature calls before.
    let case = ("an unknown option", NodeConfigPhase::RolledBack, ENDED, "Its log ends with: E");
    fixture.expect(json!({ "kubelet": kubelet }), case, "41").await;
}
