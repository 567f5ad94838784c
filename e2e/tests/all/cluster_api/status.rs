//! `winpool status` shows what MachineDeployments and MachineSets report.

use e2e::{
    cluster::Cluster,
    cluster_api::{NAMESPACE, uninstall_cluster_api},
    control_plane::User,
    operator::winpool,
};
use serde_json::json;

use super::{DEPLOYMENT, Fixture, POOL};

const SET: &str = "web-md-1";
const BLOCKED: &str = "Scaling up from 0 to 2 replicas is blocked because: KubeadmVersionSkew preflight check failed";

fn status(cluster: &Cluster) -> (Option<i32>, String) {
    let output = winpool(&cluster.control_plane, User::OtherA, &["status", POOL]).unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn a_machine_set_that_is_blocked_is_a_problem_of_its_pool() {
    let fixture = Fixture::start().await;
    fixture.apply_pool(json!({})).await;
    fixture.until("True", "RotationPending").await;
    let group = fixture.group().await;
    fixture.machines.refer(DEPLOYMENT, &group.template).await.unwrap();
    fixture.until("True", "UpToDate").await;

    let mut spec = fixture.machines.api("MachineDeployment").get(DEPLOYMENT).await.unwrap().data["spec"].clone();
    spec.as_object_mut()
        .unwrap()
        .retain(|key, _| ["clusterName", "replicas", "selector", "template"].contains(&key.as_str()));
    let labels = json!({ "labels": { "cluster.x-k8s.io/deployment-name": DEPLOYMENT } });
    fixture.machines.create("MachineSet", SET, labels, spec).await.unwrap();
    let blocked = json!({
        "type": "ScalingUp", "status": "True", "reason": "ScalingUp", "message": BLOCKED,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    fixture.machines.set_status("MachineSet", SET, json!({ "replicas": 0, "conditions": [blocked] })).await.unwrap();

    let (code, stdout) = status(&fixture.cluster);
    assert_eq!(code, Some(1), "{stdout}");
    for expected in [
        format!("  ScalingUp/ScalingUp of MachineSet {NAMESPACE}/{SET}\n    {BLOCKED}\n"),
        format!("    Run: kubectl -n {NAMESPACE} describe machinesets.cluster.x-k8s.io {SET}\n"),
    ] {
        assert!(stdout.contains(&expected), "{expected}: {stdout}");
    }

    // Without Cluster API the rest of the status remains. The operator would change it.
    let Fixture { cluster, operator, .. } = fixture;
    cluster.until_idle().await.unwrap();
    operator.kill().unwrap();
    uninstall_cluster_api(&cluster.control_plane).unwrap();
    let (_, stdout) = status(&cluster);
    assert!(stdout.starts_with("web  0 nodes, "), "{stdout}");
    assert!(stdout.contains("\nNote: what MachineDeployments and MachineSets in namespace "), "{stdout}");
}
