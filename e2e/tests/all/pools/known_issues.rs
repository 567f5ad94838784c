//! Known issues of the versions of nodes, and of what pods use.

use e2e::{cluster::NODE_LABEL, fixture::spec, kubelet::SimulatedNode};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use serde_json::json;
use winpool_api::names::annotation::ACKNOWLEDGE_ISSUES;

use super::with_nodes;

#[tokio::test]
async fn nodes_with_known_issues_are_reported_until_they_are_acknowledged_and_stay_ready() {
    let node = SimulatedNode::windows("issues-1", "10.0.20348.4529").label(NODE_LABEL, "issues");
    let fixture = with_nodes("issues", vec![node.kubelet("v1.27.4").runtime("containerd://1.6.12")]).await;
    fixture.apply_pool("issues", spec("issues", json!({}))).await.unwrap();
    fixture.until_condition("issues", "Ready", "True", "AsSpecified").await.unwrap();
    fixture.until_absent("issues", "KnownIssues").await.unwrap();

    fixture.annotate_pool("issues", ACKNOWLEDGE_ISSUES, "CVE-2023-3676").await.unwrap();
    let found = fixture.until_condition("issues", "KnownIssues", "True", "SevereIssues").await.unwrap();
    let begin = "CVE-2023-3955 (high): who can create pods can become administrator of the node. 1 node runs kubelet v1.27.4. \
                 Upgrade kubelet to v1.27.5 or later. ";
    assert!(found.message.starts_with(begin), "{}", found.message);
    assert!(!found.message.contains("hcsshim-1574"), "no pod has an exec probe: {}", found.message);
    fixture.until_condition("issues", "Ready", "True", "AsSpecified").await.unwrap();

    let others = "CVE-2023-3676,CVE-2023-3955,CVE-2022-23471,CVE-2024-5321,CVE-2024-9042,CVE-2025-64329,unknown";
    fixture.annotate_pool("issues", ACKNOWLEDGE_ISSUES, others).await.unwrap();
    let found = fixture.until_condition("issues", "KnownIssues", "True", "UnknownIssueAcknowledged").await.unwrap();
    assert!(
        found.message.starts_with("unknown in annotation winpool.dev/acknowledge-issues is no"),
        "{}",
        found.message
    );

    let pod = json!({
        "metadata": {"name": "issues"},
        "spec": {
            "nodeName": "issues-1",
            "nodeSelector": {"kubernetes.io/os": "windows"},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{
                "name": "web", "image": "registry.example/web:ltsc2022",
                "livenessProbe": {"exec": {"command": ["cmd", "/c", "exit 0"]}},
            }],
        },
    });
    let pods: Api<Pod> = Api::namespaced(fixture.client.clone(), "default");
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let found = fixture.until_condition("issues", "KnownIssues", "True", "KnownIssues").await.unwrap();
    let begin = "hcsshim-1574 (medium): each exec probe leaks memory of its containerd-shim-runhcs-v1.exe. 1 node runs hcsshim \
                 0.9.5, with exec probes in Pod default/issues. Upgrade containerd to 1.6.13 or later";
    assert!(found.message.starts_with(begin), "{}", found.message);
    fixture.nothing_was_forbidden().unwrap();
}
