//! Known issues of kube-proxy that depend on Services are not determinable without the permission for Services.

use e2e::{
    cluster::{COUNTED, Cluster, NODE_LABEL, OS_WINDOWS, create, edit},
    control_plane::Options,
    kubelet::SimulatedNode,
    operator::{Operator, workspace},
    wait::until,
};
use k8s_openapi::api::{
    core::v1::{Pod, Service},
    rbac::v1::ClusterRole,
};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use winpool_api::names::annotation::ACKNOWLEDGE_ISSUES;
use winpool_facts::known_issues::KNOWN_ISSUES;

const ISSUE: &str = "kubernetes-136241";

/// Servers with Services of two IP families.
fn dual_stack() -> Options {
    let ranges = "--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112".to_owned();
    Options { api_server_arguments: vec![ranges], ..Options::api_server_only() }
}

/// A pod on the node with this image.
fn pod(name: &str, image: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "nodeName": "web-1",
            "nodeSelector": { "kubernetes.io/os": "windows" },
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "main", "image": image }],
        },
    })
}

#[tokio::test]
async fn issues_that_depend_on_services_are_not_determinable_without_their_permission_and_reported_with_it() {
    let cluster = Cluster::start_with(dual_stack()).await.unwrap();
    let node = SimulatedNode::windows("web-1", "10.0.20348.5870").label(NODE_LABEL, "web");
    let _kubelets = cluster.start_kubelets(vec![node.kubelet("v1.37.0").runtime("containerd://2.4.0")]).await.unwrap();
    let role = cluster.api::<ClusterRole>();
    let mut rules = json!(role.get("winpool-workloads").await.unwrap().rules);
    rules[0]["resources"] = json!(["limitranges", "pods"]);
    edit(&role, "winpool-workloads", json!({ "rules": rules })).await.unwrap();
    cluster.until_operator_may(json!({ "resource": "services", "verb": "list" }), false).await.unwrap();
    for (name, image) in
        [("kube-proxy", "registry.example/kube-proxy:v1.33.7"), ("web", "registry.example/web:ltsc2022")]
    {
        create(&cluster.namespaced::<Pod>("default"), pod(name, image)).await.unwrap();
    }
    let services = cluster.namespaced::<Service>("default");
    let spec = json!({ "selector": { "app": "web" }, "ipFamilyPolicy": "RequireDualStack", "ports": [{ "port": 80 }] });
    create(&services, json!({ "metadata": { "name": "front" }, "spec": spec })).await.unwrap();

    let operator = Operator::spawn(&cluster.control_plane, &["--registry=off"], &[]).unwrap();
    cluster.apply_tainting_pool("web", "ltsc2022", OS_WINDOWS).await.unwrap();
    let others: Vec<_> = KNOWN_ISSUES.iter().map(|issue| issue.entry.code).filter(|code| *code != ISSUE).collect();
    cluster.annotate_pool("web", ACKNOWLEDGE_ISSUES, &others.join(",")).await.unwrap();
    let nodes =
        async |state: &str| operator.metric("winpool_known_issues", &[("issue", ISSUE), ("state", state)]).await;
    until("the issue is not determinable", COUNTED, || nodes("undetermined"), |nodes| *nodes > 0.0).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    operator.wait_ready(COUNTED).await.unwrap();
    let (_, readyz) = operator.get("/readyz").await.unwrap();
    assert!(readyz.starts_with("ok\n") && readyz.contains("Service"), "{readyz}");
    assert!(cluster.condition("web", "KnownIssues").await.is_err(), "it is not reported");

    let role = workspace().join("config/default/workloads.yaml");
    cluster.kubectl(&["apply", "-f", &role.display().to_string()]).unwrap();
    let found = cluster.until_condition("web", "KnownIssues", "True", "KnownIssues").await.unwrap();
    let begin = "kubernetes-136241 (medium): IPv4 and IPv6 share a load balancer, so that dual-stack Services fail. 1 node runs \
                 kube-proxy v1.33.7, with `ipFamilyPolicy: RequireDualStack` in Service default/front. Upgrade kube-proxy to \
                 v1.33.8 or later";
    assert!(found.message.starts_with(begin), "{}", found.message);
    assert_eq!(nodes("undetermined").await.unwrap(), 0.0);

    services.delete("front", &DeleteParams::default()).await.unwrap();
    let reported = || async { Ok(cluster.condition("web", "KnownIssues").await.is_ok()) };
    until("no Service uses it", COUNTED, reported, |reported| !reported).await.unwrap();
}
