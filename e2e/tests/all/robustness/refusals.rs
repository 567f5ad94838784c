//! Requests that the API server rejects: taints by admission, and a verb by RBAC.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{
    cluster::{Cluster, OS_WINDOWS, SOON, pool_spec},
    install::operator_may,
    objects::taints,
    operator::Operator,
    wait::{eventually, stays, until},
};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use super::{
    node, nodes,
    webhook::{REFUSAL, Refuses, Webhook},
};

const POOL: &str = "web";
const COUNT: usize = 5;

/// Waits until a warning with this text is in the log, and checks that there is only one.
async fn assert_warned_once(operator: &Operator, text: &str) {
    let count = || async {
        let log = operator.log()?;
        Ok(log.lines().filter(|line| line.contains(" WARN ") && line.contains(text)).count())
    };
    let count = until("the warning is logged", SOON, count, |count| *count > 0).await.unwrap();
    assert_eq!(count, 1, "the warning is logged once:\n{}", operator.log().unwrap());
}

#[tokio::test]
async fn when_admission_rejects_the_taints_the_labels_are_written_and_the_message_is_quoted() {
    let cluster = Cluster::start().await.unwrap();
    let kubelets = cluster.start_kubelets(nodes(POOL, COUNT)).await.unwrap();
    let webhook = Webhook::start(&cluster, "web-000", Refuses::Tainted).await.unwrap();
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
    assert_warned_once(&operator, REFUSAL).await;

    // Soon after the cause is removed every node is tainted, although no watch event reports the removal.
    webhook.remove().await.unwrap();
    cluster.until_tainted(POOL, OS_WINDOWS, COUNT).await.unwrap();
    kubelets.add(vec![node(POOL, "web-late")]).await.unwrap();
    cluster.until_tainted(POOL, OS_WINDOWS, COUNT + 1).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn when_admission_rejects_the_removal_of_taints_a_cleanup_keeps_record_label_and_finalizer() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes(POOL, 2)).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_pool(POOL, pool_spec(POOL, json!({ "deletionPolicy": "Cleanup" }))).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();
    let webhook = Webhook::start(&cluster, "web-000", Refuses::Untainted).await.unwrap();
    let before = cluster.node("web-000").await.unwrap();
    cluster.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    let quoted = || async {
        let found = cluster.condition(POOL, "Ready").await?;
        ensure!(found.status == "False" && found.message.contains(REFUSAL), "{found:?}");
        Ok(())
    };
    eventually("the condition quotes the refusal", SOON, quoted).await.unwrap();
    let after = cluster.node("web-000").await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version, "nothing was written");
    cluster.classes().get("windows-ltsc2022").await.unwrap();
    assert!(
        !operator.log().unwrap().contains("remove taint"),
        "the log contains only completed operations:\n{}",
        operator.log().unwrap()
    );

    webhook.remove().await.unwrap();
    cluster.until_pool_gone(POOL).await.unwrap();
    assert_eq!(taints(&cluster.node("web-000").await.unwrap()), []);
    cluster.nothing_was_forbidden().unwrap();
}

/// Sets the rules of the operator's ClusterRole to those of `role`, and waits until they are in effect.
async fn set_rules(cluster: &Cluster, role: &ClusterRole) -> Result<()> {
    let roles = cluster.api::<ClusterRole>();
    let mut now = roles.get(&role.name_any()).await?;
    now.rules = role.rules.clone();
    roles.replace(&role.name_any(), &PostParams::default(), &now).await?;
    let wanted = verbs_of_classes(role).any(|verb| verb == "create");
    let in_effect = || async {
        let may = operator_may(&cluster.control_plane, &["create", "runtimeclasses.node.k8s.io"]);
        ensure!(may == wanted, "the former rules are still in effect");
        Ok(())
    };
    eventually("the rules of the role are in effect", SOON, in_effect).await
}

fn verbs_of_classes(role: &ClusterRole) -> impl Iterator<Item = &String> {
    let rules = role.rules.iter().flatten();
    let of_classes = rules.filter(|rule| rule.resources.iter().flatten().any(|name| name == "runtimeclasses"));
    of_classes.flat_map(|rule| &rule.verbs)
}

#[tokio::test]
async fn without_a_verb_the_operator_reports_it_and_recovers_when_it_is_granted() {
    let cluster = Cluster::start().await.unwrap();
    let kubelets = cluster.start_kubelets(nodes(POOL, COUNT)).await.unwrap();
    kubelets.add(nodes("batch", COUNT)).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", OS_WINDOWS).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();

    let shipped = cluster.api::<ClusterRole>().get("winpool").await.unwrap();
    assert!(verbs_of_classes(&shipped).any(|verb| verb == "create"));
    let mut narrow = shipped.clone();
    for rule in narrow.rules.iter_mut().flatten() {
        if rule.resources.iter().flatten().any(|name| name == "runtimeclasses") {
            rule.verbs.retain(|verb| verb != "create");
        }
    }
    set_rules(&cluster, &narrow).await.unwrap();

    // The class of a pool that needs a new one is not created, and the pool reports the reason.
    cluster.apply_tainting_pool("batch", "ltsc2019", OS_WINDOWS).await.unwrap();
    let found = cluster.until_condition("batch", "RuntimeClassReady", "False", "WriteFailed").await.unwrap();
    for part in ["windows-ltsc2019", "cannot create resource \"runtimeclasses\""] {
        assert!(found.message.contains(part), "{part}: {}", found.message);
    }
    cluster.until_tainted("batch", OS_WINDOWS, COUNT).await.unwrap();
    assert_warned_once(&operator, "cannot create resource").await;

    // A pool that needs none is reconciled.
    kubelets.add(vec![node(POOL, "web-late")]).await.unwrap();
    cluster.until_tainted(POOL, OS_WINDOWS, COUNT + 1).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();

    set_rules(&cluster, &shipped).await.unwrap();
    // The class exists, and selects none of the nodes, which are of another build.
    cluster.until_condition("batch", "RuntimeClassReady", "False", "WouldStrand").await.unwrap();
    cluster.classes().get("windows-ltsc2019").await.unwrap();
    let requests = cluster.requests().unwrap();
    let forbidden = requests.iter().filter(|request| request.is_forbidden());
    let others: Vec<_> =
        forbidden.filter(|r| (r.verb.as_str(), r.resource.as_str()) != ("create", "runtimeclasses")).collect();
    assert!(others.is_empty(), "{others:#?}");
}
