//! What the API server refuses: taints by admission, and a verb by RBAC.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::{
    control_plane::User,
    kubectl::kubectl,
    kubelet::Kubelets,
    operator::Operator,
    wait::{eventually, stays, until},
    world::{SOON, World, taints},
};
use k8s_openapi::api::{node::v1::RuntimeClass, rbac::v1::ClusterRole};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::{
    OS_WINDOWS, node, nodes,
    webhook::{REFUSAL, Refuses, Webhook},
};

const POOL: &str = "web";
const COUNT: usize = 5;
/// How soon after a cause is gone everything is as it should be.
const RECOVERY: Duration = Duration::from_secs(15);

/// Waits until a warning with this text is in the log, which must be the only one.
async fn said_once(operator: &Operator, text: &str) {
    let count = || async {
        let log = operator.log()?;
        Ok(log.lines().filter(|line| line.contains(" WARN ") && line.contains(text)).count())
    };
    let said = until("the log says it", SOON, count, |count| *count > 0).await.unwrap();
    assert_eq!(said, 1, "it is said once:\n{}", operator.log().unwrap());
}

#[tokio::test]
async fn where_admission_refuses_the_taints_the_rest_is_written_and_the_refusal_is_quoted() {
    let world = World::start().await.unwrap();
    let kubelets = Kubelets::start(world.client.clone(), nodes(POOL, COUNT)).await.unwrap();
    let webhook = Webhook::start(&world, "web-000", Refuses::Tainted).await.unwrap();
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    let spec = json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": { "matchLabels": { "agentpool": POOL } },
        "labels": { "example.com/team": "web" },
    });
    world.apply("WindowsNodePool", POOL, &spec).await.unwrap();

    let told = world.until_condition(POOL, "NodesConfigured", "False", "Refused").await.unwrap();
    assert!(told.message.contains(REFUSAL) && told.message.contains("web-000"), "{}", told.message);
    for node in nodes(POOL, COUNT) {
        let node = world.nodes().get(&node.name).await.unwrap();
        let label = |key: &str| node.labels().get(key).map(String::as_str);
        assert_eq!((label("example.com/team"), label("winpool.dev/pool")), (Some("web"), Some(POOL)));
        assert_eq!(taints(&node), []);
        let owned = &node.annotations()["winpool.dev/owned"];
        assert!(owned.contains("example.com/team") && !owned.contains("NoSchedule"), "nothing is claimed: {owned}");
    }

    // One attempt with the taints and one without for each node, and no other for some seconds.
    let attempts = || async {
        let of_nodes = world.writes()?.into_iter().filter(|write| write.resource == "nodes");
        Ok(of_nodes.map(|write| (write.name, write.code)).collect::<Vec<_>>())
    };
    let made = attempts().await.unwrap();
    assert_eq!(made.len(), 2 * COUNT, "{made:?}");
    stays("the operator waits", Duration::from_secs(3), attempts, |now| now.len() == made.len()).await.unwrap();
    said_once(&operator, REFUSAL).await;

    // Soon after the cause is gone every node is tainted, without an event that would tell of it.
    let begin = Instant::now();
    webhook.remove().await.unwrap();
    world.until_guarded(POOL, OS_WINDOWS, COUNT).await.unwrap();
    assert!(begin.elapsed() < RECOVERY, "recovery took {:?}", begin.elapsed());
    kubelets.add(vec![node(POOL, "web-late")]).await.unwrap();
    world.until_guarded(POOL, OS_WINDOWS, COUNT + 1).await.unwrap();
    world.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn where_admission_refuses_to_remove_the_taints_a_clean_up_leaves_record_label_and_finalizer() {
    let world = World::start().await.unwrap();
    let _kubelets = Kubelets::start(world.client.clone(), nodes(POOL, 2)).await.unwrap();
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    let spec = json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": { "matchLabels": { "agentpool": POOL } },
        "deletionPolicy": "Cleanup",
    });
    world.apply("WindowsNodePool", POOL, &spec).await.unwrap();
    world.until_as_specified(POOL).await.unwrap();
    let webhook = Webhook::start(&world, "web-000", Refuses::Untainted).await.unwrap();
    let before = world.nodes().get("web-000").await.unwrap();
    world.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    let quoted = || async {
        let told = world.condition(POOL, "Ready").await?;
        ensure!(told.status == "False" && told.message.contains(REFUSAL), "{told:?}");
        Ok(())
    };
    eventually("the condition quotes the refusal", SOON, quoted).await.unwrap();
    let after = world.nodes().get("web-000").await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version, "nothing was written");
    Api::<RuntimeClass>::all(world.client.clone()).get("windows-ltsc2022").await.unwrap();
    assert!(
        !operator.log().unwrap().contains("remove taint"),
        "the log has what was done:\n{}",
        operator.log().unwrap()
    );

    let begin = Instant::now();
    webhook.remove().await.unwrap();
    let gone = || async {
        ensure!(world.pools().get_opt(POOL).await?.is_none(), "the pool is still there");
        Ok(())
    };
    eventually("the pool is gone", SOON, gone).await.unwrap();
    assert!(begin.elapsed() < RECOVERY, "recovery took {:?}", begin.elapsed());
    assert_eq!(taints(&world.nodes().get("web-000").await.unwrap()), []);
    world.nothing_was_forbidden().unwrap();
}

/// Whether the operator may patch RuntimeClasses, as the API server sees it now.
fn may_patch_classes(world: &World) -> bool {
    let operator = User::Operator.name();
    let question = ["auth", "can-i", "patch", "runtimeclasses.node.k8s.io", "--as", &operator];
    kubectl(&world.control_plane, User::Admin, &question).is_ok()
}

/// Gives the operator's ClusterRole the rules of `role`, and waits until they count.
async fn set_rules(world: &World, role: &ClusterRole) -> Result<()> {
    let roles = Api::<ClusterRole>::all(world.client.clone());
    let mut now = roles.get(&role.name_any()).await?;
    now.rules = role.rules.clone();
    roles.replace(&role.name_any(), &PostParams::default(), &now).await?;
    let wanted = verbs_of_classes(role).any(|verb| verb == "patch");
    let counts = || async {
        ensure!(may_patch_classes(world) == wanted, "the former rules still count");
        Ok(())
    };
    eventually("the rules of the role count", SOON, counts).await
}

fn verbs_of_classes(role: &ClusterRole) -> impl Iterator<Item = &String> {
    let rules = role.rules.iter().flatten();
    let of_classes = rules.filter(|rule| rule.resources.iter().flatten().any(|name| name == "runtimeclasses"));
    of_classes.flat_map(|rule| &rule.verbs)
}

#[tokio::test]
async fn without_a_verb_the_operator_says_so_does_what_it_can_and_recovers_when_it_is_given_back() {
    let world = World::start().await.unwrap();
    let kubelets = Kubelets::start(world.client.clone(), nodes(POOL, COUNT)).await.unwrap();
    kubelets.add(nodes("batch", COUNT)).await.unwrap();
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    world.apply_pool(POOL, "ltsc2022", OS_WINDOWS).await.unwrap();
    world.until_as_specified(POOL).await.unwrap();
    world.nothing_was_forbidden().unwrap();

    let shipped = Api::<ClusterRole>::all(world.client.clone()).get("winpool").await.unwrap();
    assert!(verbs_of_classes(&shipped).any(|verb| verb == "patch"));
    let mut narrow = shipped.clone();
    for rule in narrow.rules.iter_mut().flatten() {
        if rule.resources.iter().flatten().any(|name| name == "runtimeclasses") {
            rule.verbs.retain(|verb| verb != "patch");
        }
    }
    set_rules(&world, &narrow).await.unwrap();

    // A pool that needs a new class cannot have it, and says why.
    world.apply_pool("batch", "ltsc2019", OS_WINDOWS).await.unwrap();
    let told = world.until_condition("batch", "RuntimeClassReady", "False", "WriteFailed").await.unwrap();
    for part in ["windows-ltsc2019", "cannot patch resource \"runtimeclasses\""] {
        assert!(told.message.contains(part), "{part}: {}", told.message);
    }
    world.until_guarded("batch", OS_WINDOWS, COUNT).await.unwrap();
    said_once(&operator, "cannot patch resource").await;

    // A pool that needs none goes on.
    kubelets.add(vec![node(POOL, "web-late")]).await.unwrap();
    world.until_guarded(POOL, OS_WINDOWS, COUNT + 1).await.unwrap();
    world.until_as_specified(POOL).await.unwrap();

    set_rules(&world, &shipped).await.unwrap();
    world.until_condition("batch", "RuntimeClassReady", "True", "Applied").await.unwrap();
    Api::<RuntimeClass>::all(world.client.clone()).get("windows-ltsc2019").await.unwrap();
    let requests = world.control_plane.requests_of(User::Operator).unwrap();
    let forbidden = requests.iter().filter(|request| request.is_forbidden());
    let others: Vec<_> =
        forbidden.filter(|r| (r.verb.as_str(), r.resource.as_str()) != ("patch", "runtimeclasses")).collect();
    assert!(others.is_empty(), "{others:#?}");
}
