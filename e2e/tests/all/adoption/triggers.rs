//! What lets a held taint go on.

use e2e::{
    cluster::{Cluster, NODE_LABEL, edit, pool_spec},
    kubelet::SimulatedNode,
};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::PostParams;
use serde_json::json;

use super::SERVER_2022;

#[tokio::test]
async fn a_held_taint_is_added_when_a_template_is_corrected_although_no_pod_changes() {
    // Without controllers, nothing creates pods.
    let cluster = Cluster::start().await.unwrap();
    let node = SimulatedNode::windows("web-1", SERVER_2022).label(NODE_LABEL, "web");
    let _kubelets = cluster.start_kubelets(vec![node]).await.unwrap();
    let daemon_sets = cluster.namespaced::<DaemonSet>("default");
    let logs = json!({
        "metadata": { "name": "logs" },
        "spec": {
            "selector": { "matchLabels": { "app": "logs" } },
            "template": {
                "metadata": { "labels": { "app": "logs" } },
                "spec": {
                    "nodeSelector": { "kubernetes.io/os": "windows" },
                    "containers": [{ "name": "main", "image": "registry.example/logs:1" }],
                },
            },
        },
    });
    daemon_sets.create(&PostParams::default(), &serde_json::from_value(logs).unwrap()).await.unwrap();
    let operator = cluster.start_operator(&["--registry=off"], &[]).await.unwrap();
    cluster.apply_pool("web", pool_spec("web", json!({}))).await.unwrap();
    cluster.until_condition("web", "NodesTainted", "False", "WouldStrandPods").await.unwrap();

    let tolerations = json!([{ "key": "os", "value": "windows", "effect": "NoSchedule" }]);
    let corrected = json!({ "spec": { "template": { "spec": { "tolerations": tolerations } } } });
    edit(&daemon_sets, "logs", corrected).await.unwrap();
    cluster.until_taints("web-1", &["os=windows:NoSchedule"]).await.unwrap();
    cluster.until_condition("web", "NodesTainted", "True", "Applied").await.unwrap();
    operator.stop().await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}
