//! Taints that admission rejects.

use std::time::Duration;

use anyhow::{Result, anyhow};
use e2e::{
    cluster::{Cluster, OS_WINDOWS, SOON, pool_spec},
    control_plane::User,
    objects::taints,
    wait::{eventually, stays, until},
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{node, nodes};

const POOL: &str = "web";
const COUNT: usize = 5;
const REFUSAL: &str = "taints are set by the platform team alone";

/// Rejects the writes of the operator after which a node has taints, as soon as the API server knows the policy.
async fn reject_taints(cluster: &Cluster) -> Result<()> {
    let object = |kind: &str, spec: Value| {
        let version = "admissionregistration.k8s.io/v1";
        json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "taints" }, "spec": spec })
    };
    let nodes = json!({ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"], "operations": ["UPDATE"] });
    let operator = format!("request.userInfo.username == '{}'", User::Operator.name());
    let untainted = "!has(object.spec.taints) || object.spec.taints.size() == 0";
    let spec = json!({
        "matchConstraints": { "resourceRules": [nodes] },
        "matchConditions": [{ "name": "operator", "expression": operator }],
        "validations": [{ "expression": untainted, "message": REFUSAL }],
    });
    let binding = json!({ "policyName": "taints", "validationActions": ["Deny"] });
    for object in [object("ValidatingAdmissionPolicy", spec), object("ValidatingAdmissionPolicyBinding", binding)] {
        cluster.kubectl_with_input(&["create", "-f", "-"], &object)?;
    }
    let operator: Api<Node> = Api::all(cluster.control_plane.client_as(&User::Operator.name(), &[]).await?);
    let rejected = || async {
        let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
        let taints = json!({ "spec": { "taints": [{ "key": "probe", "effect": "NoSchedule" }] } });
        match operator.patch("web-000", &dry_run, &Patch::Merge(taints)).await {
            Err(kube::Error::Api(status)) if status.message.contains(REFUSAL) => Ok(()),
            other => Err(anyhow!("{other:?}")),
        }
    };
    eventually("the policy is in effect", SOON, rejected).await
}

#[tokio::test]
async fn when_admission_rejects_the_taints_the_labels_are_written_and_the_message_is_quoted() {
    let cluster = Cluster::start().await.unwrap();
    let kubelets = cluster.start_kubelets(nodes(POOL, COUNT)).await.unwrap();
    reject_taints(&cluster).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_pool(POOL, pool_spec(POOL, json!({ "labels": { "example.com/team": "web" } }))).await.unwrap();

    let found = cluster.until_condition(POOL, "NodesTainted", "False", "Refused").await.unwrap();
    assert!(found.message.contains(REFUSAL) && found.message.contains("web-000"), "{}", found.message);
    for node in nodes(POOL, COUNT) {
        let node = cluster.node(&node.name).await.unwrap();
        let label = |key: &str| node.labels().get(key).map(String::as_str);
        assert_eq!((label("example.com/team"), label("winpool.dev/pool")), (Some("web"), Some(POOL)));
        assert_eq!(taints(&node), []);
        let owned = &node.annotations()["winpool.dev/owned"];
        assert!(owned.contains("example.com/team") && !owned.contains("NoSchedule"), "no taint is recorded: {owned}");
    }

    // For each node one attempt with the taints and one without, and no other for some seconds.
    let attempts = || async {
        let of_nodes = cluster.writes()?.into_iter().filter(|write| write.resource == "nodes");
        Ok(of_nodes.map(|write| (write.name, write.code)).collect::<Vec<_>>())
    };
    let made = attempts().await.unwrap();
    assert_eq!(made.len(), 2 * COUNT, "{made:?}");
    stays("the operator waits", Duration::from_secs(3), attempts, |now| now.len() == made.len()).await.unwrap();
    let warnings = || async {
        let log = operator.log()?;
        Ok(log.lines().filter(|line| line.contains(" WARN ") && line.contains(REFUSAL)).count())
    };
    let warnings = until("the warning is logged", SOON, warnings, |count| *count > 0).await.unwrap();
    assert_eq!(warnings, 1, "the warning is logged once:\n{}", operator.log().unwrap());

    // Soon after the cause is removed every node is tainted, although no watch event reports the removal.
    cluster.kubectl(&["delete", "validatingadmissionpolicybinding", "taints"]).unwrap();
    cluster.until_tainted(POOL, OS_WINDOWS, COUNT).await.unwrap();
    kubelets.add(vec![node(POOL, "web-late")]).await.unwrap();
    cluster.until_tainted(POOL, OS_WINDOWS, COUNT + 1).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}
