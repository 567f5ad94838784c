//! Writes of a kubelet to its own Node under NodeRestriction, which must not gain it protected labels or remove taints.

use anyhow::ensure;
use e2e::{
    cluster::{Cluster, OS_WINDOWS, SOON, pool_spec},
    control_plane::{OPERATOR_NAMESPACE, User},
    kubelet::SimulatedNode,
    objects::taints,
    operator::winpool,
    wait::eventually,
};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::nodes;

const POOL: &str = "web";
const TIER: &str = "node-restriction.kubernetes.io/tier";
/// What lets a pool set [`TIER`].
const ALLOWED: [&str; 1] = ["--allow-label-prefixes=node-restriction.kubernetes.io/"];
const SECRET: &str = "winpool-ownership";

fn spec(policy: &str) -> Value {
    pool_spec(POOL, json!({ "labels": { TIER: "gold" }, "deletionPolicy": policy }))
}

/// The Nodes, with the permissions of the kubelet of `node`.
async fn as_kubelet(cluster: &Cluster, node: &str) -> Api<Node> {
    let user = format!("system:node:{node}");
    Api::all(cluster.control_plane.client_as(&user, &["system:nodes"]).await.unwrap())
}

async fn patch(api: &Api<Node>, node: &str, metadata: Value) -> kube::Result<Node> {
    api.patch(node, &PatchParams::default(), &Patch::Merge(json!({ "metadata": metadata }))).await
}

#[tokio::test]
async fn a_label_and_a_record_of_its_own_give_a_kubelet_no_protected_label_and_remove_no_taint() {
    let cluster = Cluster::start().await.unwrap();
    let kubelets = cluster.start_kubelets(nodes(POOL, 1)).await.unwrap();
    let rogue = SimulatedNode::windows("rogue", "10.0.20348.2700").taint("team", "a", "NoSchedule");
    kubelets.add(vec![rogue]).await.unwrap();
    let _operator = cluster.start_operator(&ALLOWED, &[]).await.unwrap();
    cluster.apply_pool(POOL, spec("Retain")).await.unwrap();
    // A pool with the same taint that an administrator has set on node rogue.
    cluster.apply_tainting_pool("other", "ltsc2022", ("team", "a")).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();
    let found = cluster.condition(POOL, "SpecValid").await.unwrap();
    assert!(found.message.contains("a kubelet can set the labels of spec.nodeSelector"), "{}", found.message);

    let kubelet = as_kubelet(&cluster, "rogue").await;
    let denied = patch(&kubelet, "rogue", json!({ "labels": { TIER: "gold" } })).await.unwrap_err();
    assert!(denied.to_string().contains("is not allowed to modify labels"), "NodeRestriction is in force: {denied}");
    let forged = json!({ "pool": POOL, "taints": { "team:NoSchedule": "added" }, "labels": { "agentpool": "added" } });
    let of_member = cluster.node("web-000").await.unwrap().annotations()["winpool.dev/owned"].clone();
    for record in [forged.to_string(), forged.to_string().replace(POOL, "other"), of_member] {
        let annotations = json!({
            "winpool.dev/owned": record, "cluster.x-k8s.io/taints-from-machine": "os:NoSchedule",
        });
        let metadata = json!({ "labels": { "winpool.dev/pool": POOL }, "annotations": annotations });
        patch(&kubelet, "rogue", metadata).await.unwrap();
        let claimed = || async {
            let found = cluster.condition(POOL, "NodesAssigned").await?;
            let expected = "1 node has label winpool.dev/pool=web without a valid record of this operator";
            ensure!(found.message.contains(expected) && found.message.contains(": rogue. "), "{}", found.message);
            ensure!(found.status == "True", "a claim of a node is no verdict on the pool");
            Ok(())
        };
        eventually("the condition names the node", SOON, claimed).await.unwrap();
        cluster.until_idle().await.unwrap();
        let node = cluster.node("rogue").await.unwrap();
        assert_eq!(node.labels().get(TIER), None);
        let keys: Vec<&str> = taints(&node).iter().map(|taint| taint.key.as_str()).collect();
        assert_eq!(keys, ["team"]);
    }
    // The annotation of Cluster API does not prevent the taint on a node that the pool selects.
    patch(&kubelet, "rogue", json!({ "labels": { "agentpool": POOL } })).await.unwrap();
    cluster.until_tainted(POOL, OS_WINDOWS, 2).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_lost_key_removes_nothing_and_the_restored_key_verifies_the_records() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes(POOL, 2)).await.unwrap();
    let operator = cluster.start_operator(&ALLOWED, &[]).await.unwrap();
    cluster.apply_pool(POOL, spec("Cleanup")).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();
    let secrets: Api<Secret> = cluster.namespaced(OPERATOR_NAMESPACE);
    let mut backup = secrets.get(SECRET).await.unwrap();
    (backup.metadata.resource_version, backup.metadata.uid) = (None, None);
    operator.stop().await.unwrap();
    drop(operator);
    secrets.delete(SECRET, &DeleteParams::default()).await.unwrap();

    // winpool cleanup lists the recorded fields, and removes nothing without --trust-records.
    let run = |arguments: &[&str]| {
        let output = winpool(&cluster.control_plane, User::Admin, arguments).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = run(&["cleanup", "--yes"]);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("not verified: Node web-000 (pool web): taint os:NoSchedule"), "{out}");
    assert!(err.contains("--trust-records"), "{err}");
    assert_eq!(cluster.tainted_nodes(POOL, OS_WINDOWS).await.unwrap().len(), 2);

    let before = cluster.node("web-000").await.unwrap();
    let operator = cluster.start_operator(&ALLOWED, &[]).await.unwrap();
    let lost = || async {
        let found = cluster.condition(POOL, "NodesTainted").await?;
        ensure!(
            found
                .message
                .contains("The records on 2 nodes cannot be verified with the key in Secret winpool-ownership"),
            "{}",
            found.message
        );
        Ok(())
    };
    eventually("the condition reports that the records are not verified", SOON, lost).await.unwrap();
    cluster.until_idle().await.unwrap();
    assert_eq!(cluster.node("web-000").await.unwrap().metadata.resource_version, before.metadata.resource_version);

    // With the former key restored, the operator verifies the records again.
    secrets.delete(SECRET, &DeleteParams::default()).await.unwrap();
    operator.stop().await.unwrap();
    drop(operator);
    secrets.create(&PostParams::default(), &backup).await.unwrap();
    let _operator = cluster.start_operator(&ALLOWED, &[]).await.unwrap();
    let found = || async {
        let found = cluster.condition(POOL, "NodesTainted").await?;
        ensure!(found.message == "2 nodes have their labels and taints", "{}", found.message);
        Ok(())
    };
    eventually("the records are verified again", SOON, found).await.unwrap();
    cluster.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    cluster.until_pool_gone(POOL).await.unwrap();
    let node = cluster.node("web-000").await.unwrap();
    assert_eq!((taints(&node), node.labels().get(TIER)), (&[][..], None));
    cluster.nothing_was_forbidden().unwrap();
}
