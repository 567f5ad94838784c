//! `winpool plan`: what would change.

use std::{collections::BTreeSet, fs};

use e2e::{audit::Request, kubelet::Kubelets, kubelet::SimulatedNode, operator::Operator, world::World};
use serde_json::{Value, json};

use crate::{Ended, node, pool, run, run_without_server, spec, writes};

/// The changes of a pool in `-o json`: kind, name and words.
fn changes(plan: &Value, pool: &str) -> Vec<(String, String, String)> {
    let pools = plan["pools"].as_array().unwrap();
    let pool = pools.iter().find(|one| one["name"] == pool).unwrap();
    let part = |change: &Value, name: &str| change[name].as_str().unwrap().to_owned();
    let changes = pool["changes"].as_array().unwrap().iter();
    changes.map(|change| (part(change, "kind"), part(change, "name"), part(change, "words"))).collect()
}

/// What the operator wrote about nodes, classes and configurations, as kind and name.
fn written(writes: &[Request]) -> BTreeSet<(String, String)> {
    let kind = |resource: &str| match resource {
        "nodes" => Some("Node"),
        "runtimeclasses" => Some("RuntimeClass"),
        "configmaps" => Some("ConfigMap"),
        _ => None,
    };
    let done = writes.iter().filter(|write| write.code < 300);
    done.filter_map(|write| Some((kind(&write.resource)?.to_owned(), write.name.clone()))).collect()
}

fn assert_ends(ended: &Ended, status: i32, stderr: &str) {
    assert_eq!((ended.status, ended.stderr.trim_end()), (status, stderr), "{}", ended.stdout);
}

#[tokio::test]
async fn plan_lists_what_the_operator_then_does_and_nothing_once_it_is_done() {
    let world = World::start().await.unwrap();
    let alone = SimulatedNode::windows("alone-1", crate::SERVER_2019);
    let nodes = vec![node("web-1", "web"), node("web-2", "web"), alone, SimulatedNode::linux("linux-1")];
    let _kubelets = Kubelets::start(world.client.clone(), nodes).await.unwrap();

    let ended = run(&world, &["plan"]);
    assert_ends(&ended, 0, "");
    let alone = "In no pool, so no pool keeps Linux pods off: alone-1";
    let nobodys = "In no pool, so no pool keeps Linux pods off: alone-1, web-1, web-2";
    assert_eq!(ended.lines(), ["There is no WindowsNodePool.", "", nobodys]);

    world.apply("WindowsRuntimeProfile", "standard", &json!({})).await.unwrap();
    pool(&world, "web", json!({ "labels": { "team": "web" }, "profileRef": { "name": "standard" } })).await;
    pool(&world, "looking", json!({ "mode": "Observe" })).await;

    // Without an operator.
    let ended = run(&world, &["plan", "-o", "json"]);
    assert_ends(&ended, 1, "winpool: 1 pool would change");
    let plan = ended.json();
    let planned = changes(&plan, "web");
    let config = planned[1].1.clone();
    assert!(config.starts_with("web-"), "{planned:?}");
    let guard = format!("label team=web, label winpool.dev/pool=web, config {config}, taint os=windows:NoSchedule");
    let sorted = |words: &str| {
        let mut parts: Vec<String> = words.split(", ").map(str::to_owned).collect();
        parts.sort();
        parts
    };
    let expected = [
        ("RuntimeClass", "windows-ltsc2019", "create"),
        ("ConfigMap", &config, "create"),
        ("Node", "web-1", &guard),
        ("Node", "web-2", &guard),
    ];
    assert_eq!(planned.len(), expected.len(), "{planned:?}");
    for ((kind, name, words), expected) in planned.iter().zip(expected) {
        assert_eq!((kind.as_str(), name.as_str(), sorted(words)), (expected.0, expected.1, sorted(expected.2)));
    }
    assert_eq!(plan["nodesInNoPool"], json!(["alone-1"]));
    let pools = plan["pools"].as_array().unwrap();
    assert_eq!(pools.iter().map(|pool| &pool["writes"]).collect::<Vec<_>>(), ["Observe", "Enforce"]);
    let withheld = pools[0]["withheld"].as_array().unwrap();
    assert_eq!(withheld.len(), 1, "its class, which is pool web's too: {withheld:?}");

    // What people read: nodes of which the same is said are on one line.
    let ended = run(&world, &["plan"]);
    assert_ends(&ended, 1, "winpool: 1 pool would change");
    let lines = ended.lines();
    assert!(lines.contains(&"Pool web: 4 changes"), "{}", ended.stdout);
    assert!(lines.iter().any(|line| line.starts_with("  Node web-1, web-2  ")), "{}", ended.stdout);
    assert_eq!(lines.last(), Some(&alone));

    // The operator does just that.
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    world.until_as_specified("web").await.unwrap();
    world.until_quiet().await.unwrap();
    let named = planned.into_iter().map(|(kind, name, _)| (kind, name)).collect();
    assert_eq!(written(&world.writes().unwrap()), named);

    // Beside it, and after it.
    for stops in [true, false] {
        let ended = run(&world, &["plan"]);
        assert_ends(&ended, 0, "");
        assert!(ended.lines().contains(&"Pool web: nothing changes"), "{}", ended.stdout);
        assert_eq!(ended.lines().last(), Some(&alone));
        if stops {
            operator.stop().await.unwrap();
        }
    }
    let none: Vec<Request> = Vec::new();
    assert_eq!(writes(&world), none, "a plan writes nothing");

    let ended = run_without_server(&world.control_plane, &["plan"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (3, ""), "{}", ended.stderr);
    world.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn plan_with_files_says_what_applying_them_would_change() {
    let world = World::start().await.unwrap();
    let nodes = vec![node("web-1", "web"), node("web-2", "web"), node("batch-1", "batch")];
    let _kubelets = Kubelets::start(world.client.clone(), nodes).await.unwrap();
    pool(&world, "web", json!({})).await;
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    world.until_as_specified("web").await.unwrap();
    world.until_quiet().await.unwrap();

    let file = world.control_plane.directory().join("pools.yaml");
    let path = file.to_str().unwrap().to_owned();
    let plan = |name: &str, more: Value| {
        let spec = spec(name, more);
        let object = json!({
            "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": { "name": name }, "spec": spec,
        });
        fs::write(&file, object.to_string()).unwrap();
        run(&world, &["plan", "-f", &path])
    };

    assert_ends(&plan("web", json!({})), 0, "");

    let ended = plan("web", json!({ "labels": { "team": "web" } }));
    assert_ends(&ended, 1, "winpool: 1 pool would change");
    let change = "  Node web-1, web-2  label team=web";
    assert!(ended.stdout.starts_with(&format!("Pool web: 2 changes\n{change}\n")), "{}", ended.stdout);

    let ended = plan("batch", json!({}));
    assert_ends(&ended, 1, "winpool: 1 pool would change");
    assert!(ended.stdout.contains("Pool web: nothing changes"), "{}", ended.stdout);
    assert!(ended.stdout.contains("  Node batch-1  "), "{}", ended.stdout);

    let mistyped = json!({ "nodeSelector": { "matchLabels": { "agentpool": "wbe" } } });
    let ended = plan("web", mistyped);
    assert_ends(&ended, 1, "winpool: 1 pool would not get what is asked for");
    assert!(ended.stdout.contains("  held back: NodesAssigned/ReleaseHeld"), "{}", ended.stdout);

    let ended = plan("web", json!({ "windowsVersion": "ltsc2o19" }));
    assert_eq!((ended.status, ended.stdout.as_str()), (1, ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("spec.windowsVersion"), "{}", ended.stderr);

    let none: Vec<Request> = Vec::new();
    assert_eq!(writes(&world), none, "a plan writes nothing");
    world.until_as_specified("web").await.unwrap();
    assert_eq!(world.pool("web").await.unwrap()["metadata"]["generation"], 1, "the pool is as it was");
    operator.stop().await.unwrap();
}
