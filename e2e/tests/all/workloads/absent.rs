//! Workloads are not checked if the check is disabled or the role is missing.

use e2e::{
    audit::Request,
    cluster::{Cluster, OS_WINDOWS, create},
    fixture::windows,
    kubelet::Kubelets,
    operator::{Operator, workspace},
};
use k8s_openapi::api::{apps::v1::Deployment, rbac::v1::ClusterRoleBinding};
use kube::api::DeleteParams;
use serde_json::json;

use super::{COUNTED, of_template, pod, until_warned};

/// The resources that are read only to assess workloads.
const OF_WORKLOADS: [&str; 6] = ["pods", "deployments", "statefulsets", "daemonsets", "jobs", "services"];

fn of_workloads(cluster: &Cluster) -> Vec<Request> {
    let requests = cluster.requests().unwrap();
    requests.into_iter().filter(|request| OF_WORKLOADS.contains(&request.resource.as_str())).collect()
}

/// A cluster with a node of pool `web`, and a Deployment whose class is missing.
async fn cluster() -> (Cluster, Kubelets) {
    let cluster = Cluster::start().await.unwrap();
    let node = windows("web", 1, super::SERVER_2022);
    let kubelets = cluster.start_kubelets(vec![node]).await.unwrap();
    let spec = of_template(pod("example.test/app:1", json!({ "runtimeClassName": "windows-lost" })));
    let deployments = cluster.namespaced::<Deployment>("default");
    create(&deployments, json!({ "metadata": { "name": "lost" }, "spec": spec })).await.unwrap();
    cluster.apply_tainting_pool("web", "ltsc2022", OS_WINDOWS).await.unwrap();
    (cluster, kubelets)
}

#[tokio::test]
async fn workloads_that_are_not_checked_are_not_watched() {
    let (cluster, _kubelets) = cluster().await;
    let _operator = cluster.start_operator(&["--workloads=off"], &[]).await.unwrap();
    cluster.until_tainted("web", OS_WINDOWS, 1).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    assert!(cluster.condition("web", "WorkloadsPlaced").await.is_err(), "it does not apply");
    cluster.until_idle().await.unwrap();
    assert_eq!(of_workloads(&cluster), []);
    assert!(cluster.pool("web").await.unwrap()["status"].get("workloads").is_none());
    cluster.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn without_the_role_for_workloads_the_nodes_are_tainted_and_with_it_issues_are_reported() {
    let (cluster, _kubelets) = cluster().await;
    let bindings = cluster.api::<ClusterRoleBinding>();
    bindings.delete("winpool-workloads", &DeleteParams::default()).await.unwrap();
    cluster.until_operator_may(json!({ "resource": "pods", "verb": "list" }), false).await.unwrap();
    let operator = Operator::spawn(&cluster.control_plane, &["--registry=off"], &[]).unwrap();
    cluster.until_tainted("web", OS_WINDOWS, 1).await.unwrap();
    let found = cluster.until_condition("web", "WorkloadsPlaced", "Unknown", "NotChecked").await.unwrap();
    assert!(found.message.contains("config/default/workloads.yaml"), "{}", found.message);
    cluster.until_ready("web").await.unwrap();
    assert!(of_workloads(&cluster).iter().all(Request::is_forbidden));
    assert_eq!(operator.get("/livez").await.unwrap().0, 200);
    operator.wait_ready(COUNTED).await.unwrap();
    let (_, readyz) = operator.get("/readyz").await.unwrap();
    assert!(readyz.starts_with("ok\n") && readyz.contains("DaemonSet, Deployment, "), "{readyz}");
    let synced = async |kind| operator.metric("winpool_cache_synced", &[("kind", kind)]).await.unwrap() > 0.0;
    assert!(!synced("Pod").await && synced("Node").await);
    let log = operator.log().unwrap();
    let count =
        log.lines().filter(|line| line.contains("watch failed, retrying") && line.contains("kind=\"Pod\"")).count();
    assert_eq!(count, 1, "{log}");

    let role = workspace().join("config/default/workloads.yaml");
    cluster.kubectl(&["apply", "-f", &role.display().to_string()]).unwrap();
    let found = cluster.until_condition("web", "WorkloadsPlaced", "False", "Unschedulable").await.unwrap();
    assert!(
        found.message.contains("RuntimeClass windows-lost does not exist. Use one of windows-ltsc2022"),
        "{}",
        found.message
    );
    until_warned(&cluster, "default", "lost", "Unschedulable").await;
    assert_eq!(operator.get("/readyz").await.unwrap(), (200, "ok\n".to_owned()));
    assert!(synced("Pod").await);
}
