//! `winpool doctor` asks the agent of a node by an annotation that it prints.

use e2e::{cluster::SOON, control_plane::User, operator::winpool, wait::until};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{Fleet, POOL};

/// What the scripts of the agent print: HNS has only the network of containerd.
const MACHINE: [&str; 4] = [
    "network|nat|nat",
    "network|read",
    r"place|C:\var\log\kubelet\kubelet.log",
    "line|E1127 03:00:00.1 1 a.go:1] PLEG is not healthy, token=planted-secret",
];

/// The diagnosis of a node, while the agents go on.
async fn doctor(fleet: &Fleet, node: &'static str) -> Value {
    let control_plane = fleet.cluster.control_plane.clone();
    let run = move || winpool(&control_plane, User::OtherA, &["doctor", &format!("node/{node}"), "-o", "json"]);
    serde_json::from_slice(&spawn_blocking(run).await.unwrap().unwrap().stdout).unwrap()
}

fn verdicts(diagnosis: &Value, list: &str) -> Vec<String> {
    let ids = diagnosis[list].as_array().unwrap().iter();
    ids.map(|one| one["id"].as_str().or(one.as_str()).unwrap().to_owned()).collect()
}

async fn until_answered(fleet: &Fleet, node: &str, is_answered: bool) {
    let answered = async || {
        let status = fleet.configs().await.remove(node).and_then(|config| config.status);
        Ok(status.is_some_and(|status| status.diagnosis.is_some()))
    };
    until(&format!("{node} has an answer: {is_answered}"), SOON, answered, |found| *found == is_answered)
        .await
        .unwrap();
}

#[tokio::test]
async fn the_agent_of_a_node_answers_a_request_that_changes_nothing_else_and_the_answer_ends_with_it() {
    let (fleet, operator) = Fleet::configured(&MACHINE).await;
    let spec = async || json!(fleet.configs().await.remove("win-01").unwrap().spec);
    let before = spec().await;

    let diagnosis = doctor(&fleet, "win-01").await;
    assert!(verdicts(&diagnosis, "notDeterminable").contains(&"hns-network".to_owned()), "{diagnosis:#}");
    let request = diagnosis["request"].as_str().unwrap();
    fleet.cluster.run_remedy(request).unwrap();
    until_answered(&fleet, "win-01", true).await;
    let mut asked = spec().await;
    assert!(asked.as_object_mut().unwrap().remove("diagnose").is_some());
    assert_eq!(asked, before);

    let diagnosis = doctor(&fleet, "win-01").await;
    let found = verdicts(&diagnosis, "found");
    assert!(
        ["hns-network", "node-pleg-logged"].iter().all(|id| found.iter().any(|found| found == id)),
        "{diagnosis:#}"
    );
    assert!(verdicts(&diagnosis, "excluded").contains(&"service-stopped".to_owned()), "{diagnosis:#}");
    assert_eq!(diagnosis["request"], Value::Null);
    let stored = fleet.cluster.kubectl(&["get", "wnc", "win-01", "-o", "yaml"]).unwrap();
    assert!(stored.contains("token=***") && !stored.contains("planted-secret"), "{stored}");

    // The other node was not asked, and an old request is none.
    let old = Timestamp::now() - std::time::Duration::from_secs(1200);
    fleet.cluster.annotate_pool(POOL, "winpool.dev/diagnose", &format!("win-01@{old}")).await.unwrap();
    until_answered(&fleet, "win-01", false).await;
    assert_eq!(spec().await, before);
    until_answered(&fleet, "win-02", false).await;
    operator.stop().await.unwrap();
    fleet.stop().await;
}
