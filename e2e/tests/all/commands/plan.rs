//! `winpool plan`: what would change.

use std::{collections::BTreeSet, fs};

use e2e::{
    audit::Request,
    cluster::{Cluster, pool_object, pool_spec},
    kubelet::SimulatedNode,
};
use serde_json::{Value, json};

use super::{CommandOutput, node, pool, run, writes};

/// The changes of a pool in `-o json`: kind, name and description.
fn changes(plan: &Value, pool: &str) -> Vec<(String, String, String)> {
    let pools = plan["pools"].as_array().unwrap();
    let pool = pools.iter().find(|one| one["name"] == pool).unwrap();
    let part = |change: &Value, name: &str| change[name].as_str().unwrap().to_owned();
    let changes = pool["changes"].as_array().unwrap().iter();
    changes.map(|change| (part(change, "kind"), part(change, "name"), part(change, "change"))).collect()
}

/// The nodes, classes and configurations that were written, as kind and name.
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

fn assert_exits(output: &CommandOutput, status: i32, stderr: &str) {
    assert_eq!((output.status, output.stderr.trim_end()), (status, stderr), "{}", output.stdout);
}

#[tokio::test]
async fn plan_lists_what_the_operator_does_and_nothing_afterwards() {
    let cluster = Cluster::start().await.unwrap();
    let alone = SimulatedNode::windows("alone-1", super::SERVER_2022);
    let nodes = vec![node("web-1", "web"), node("web-2", "web"), alone, SimulatedNode::linux("linux-1")];
    let _kubelets = cluster.start_kubelets(nodes).await.unwrap();

    let output = run(&cluster, &["plan"]);
    assert_exits(&output, 0, "");
    let one = "Nodes in no pool, without taints of winpool: alone-1";
    let all = "Nodes in no pool, without taints of winpool: alone-1, web-1, web-2";
    assert_eq!(output.lines(), ["There is no WindowsNodePool.", "", all]);

    cluster.apply_profile("standard", json!({})).await.unwrap();
    pool(&cluster, "web", json!({ "labels": { "team": "web" }, "profileRef": { "name": "standard" } })).await;
    pool(&cluster, "looking", json!({ "mode": "Observe" })).await;

    // Without an operator.
    let output = run(&cluster, &["plan", "-o", "json"]);
    assert_exits(&output, 1, "winpool: 1 pool would change");
    let plan = output.json();
    let planned = changes(&plan, "web");
    let config = planned[1].1.clone();
    assert!(config.starts_with("web-"), "{planned:?}");
    let description = format!(
        "label team=web, label winpool.dev/pool=web, label runs.winpool.dev/ltsc2022=true, config {config}, \
         taint os=windows:NoSchedule"
    );
    let sorted = |description: &str| {
        let mut parts: Vec<String> = description.split(", ").map(str::to_owned).collect();
        parts.sort();
        parts
    };
    let expected = [
        ("RuntimeClass", "windows-ltsc2022", "create"),
        ("ConfigMap", &config, "create"),
        ("Node", "web-1", &description),
        ("Node", "web-2", &description),
    ];
    assert_eq!(planned.len(), expected.len(), "{planned:?}");
    for ((kind, name, change), expected) in planned.iter().zip(expected) {
        assert_eq!((kind.as_str(), name.as_str(), sorted(change)), (expected.0, expected.1, sorted(expected.2)));
    }
    assert_eq!(plan["nodesInNoPool"], json!(["alone-1"]));
    let pools = plan["pools"].as_array().unwrap();
    assert_eq!(pools.iter().map(|pool| &pool["writes"]).collect::<Vec<_>>(), ["Observe", "Enforce"]);
    let withheld = pools[0]["withheld"].as_array().unwrap();
    assert_eq!(withheld.len(), 1, "its class, which belongs to pool web too: {withheld:?}");

    // As text: nodes with the same change are on one line.
    let output = run(&cluster, &["plan"]);
    assert_exits(&output, 1, "winpool: 1 pool would change");
    let lines = output.lines();
    assert!(lines.contains(&"Pool web: 4 changes"), "{}", output.stdout);
    assert!(lines.iter().any(|line| line.starts_with("  Node web-1, web-2  ")), "{}", output.stdout);
    assert_eq!(lines[lines.len() - 3..], [one, "", "Run winpool explain CODE for the meaning of a code."]);

    // The operator does the same.
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    cluster.until_idle().await.unwrap();
    let named = planned.into_iter().map(|(kind, name, _)| (kind, name)).collect();
    assert_eq!(written(&cluster.writes().unwrap()), named);

    // While it runs, and after it stopped.
    for stops in [true, false] {
        let output = run(&cluster, &["plan"]);
        assert_exits(&output, 0, "");
        assert!(output.lines().contains(&"Pool web: no changes"), "{}", output.stdout);
        assert!(output.lines().contains(&one), "{}", output.stdout);
        if stops {
            operator.stop().await.unwrap();
        }
    }
    assert_eq!(writes(&cluster), [], "a plan writes nothing");
    cluster.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn plan_with_files_lists_what_applying_them_would_change() {
    let cluster = Cluster::start().await.unwrap();
    let nodes = vec![node("web-1", "web"), node("web-2", "web"), node("batch-1", "batch")];
    let _kubelets = cluster.start_kubelets(nodes).await.unwrap();
    pool(&cluster, "web", json!({})).await;
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    cluster.until_idle().await.unwrap();

    let file = cluster.control_plane.directory().join("pools.yaml");
    let path = file.to_str().unwrap().to_owned();
    let plan = |name: &str, more: Value| {
        let spec = pool_spec(name, more);
        fs::write(&file, pool_object(name, spec).to_string()).unwrap();
        run(&cluster, &["plan", "-f", &path])
    };

    assert_exits(&plan("web", json!({})), 0, "");

    let output = plan("web", json!({ "labels": { "team": "web" } }));
    assert_exits(&output, 1, "winpool: 1 pool would change");
    let change = "  Node web-1, web-2  label team=web";
    assert!(output.stdout.starts_with(&format!("Pool web: 2 changes\n{change}\n")), "{}", output.stdout);

    let output = plan("batch", json!({}));
    assert_exits(&output, 1, "winpool: 1 pool would change");
    assert!(!output.stdout.contains("Pool web"), "what the file does not change: {}", output.stdout);
    assert!(output.stdout.contains("  Node batch-1  "), "{}", output.stdout);

    let mistyped = json!({ "nodeSelector": { "matchLabels": { "agentpool": "wbe" } } });
    let output = plan("web", mistyped);
    assert_exits(&output, 1, "winpool: 1 pool would not be as specified");
    assert!(output.stdout.contains("  held: NodesAssigned/ReleaseHeld"), "{}", output.stdout);

    let output = plan("web", json!({ "windowsVersion": "ltsc2o19" }));
    assert_eq!((output.status, output.stdout.as_str()), (1, ""), "{}", output.stderr);
    assert!(output.stderr.contains("spec.windowsVersion"), "{}", output.stderr);

    assert_eq!(writes(&cluster), [], "a plan writes nothing");
    cluster.until_ready("web").await.unwrap();
    assert_eq!(cluster.pool("web").await.unwrap()["metadata"]["generation"], 1, "the pool is unchanged");
    operator.stop().await.unwrap();
}
