//! `winpool plan --kubernetes`: what an upgrade would break.

use e2e::cluster::Cluster;
use serde_json::json;

use super::{node, pool, run, writes};

/// How many minors a kubelet may be older than the API server.
const SKEW: u32 = 3;

#[tokio::test]
async fn plan_for_an_upgrade_lists_what_breaks() {
    let cluster = Cluster::start().await.unwrap();
    let minor = cluster.control_plane.version().minor;
    let kubelets = cluster.start_kubelets(vec![node("web-1", "web").runtime("containerd://2.3.4")]).await.unwrap();
    cluster.apply_profile("standard", json!({})).await.unwrap();
    // In mode Observe, so that the plan has no changes.
    pool(&cluster, "web", json!({ "mode": "Observe", "profileRef": { "name": "standard" } })).await;
    let upgrade = |target: u32, more: &[&str]| {
        let target = format!("1.{target}");
        run(&cluster, &[&["plan", "--kubernetes", &target], more].concat())
    };

    // Upgrade to the present minor.
    let output = upgrade(minor, &[]);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{}", output.stdout);
    let heading = format!("Upgrade from Kubernetes 1.{minor} to 1.{minor}:");
    let lines = output.lines();
    assert_eq!(lines[lines.len() - 2..], [heading.as_str(), "  No known issues"]);

    // Upgrade to the next minor, which a kubelet does not support.
    let old = format!("v1.{}.2", minor - SKEW);
    kubelets.add(vec![node("old-1", "web").kubelet(&old)]).await.unwrap();
    let target = minor + 1;
    let output = upgrade(target, &["-o", "json"]);
    let report = output.json();
    let findings = report["upgrade"]["findings"].as_array().unwrap();
    let is_expected = |one: &&serde_json::Value| one["concern"] == "VersionSkew" && one["breaks"] == true;
    assert_eq!(findings.iter().find(is_expected).unwrap()["nodes"], json!(["old-1"]), "{}", output.stdout);
    let breaks: Vec<bool> = findings.iter().map(|one| one["breaks"].as_bool().unwrap()).collect();
    assert!(breaks.is_sorted_by(|a, b| a >= b), "breaking findings come first: {findings:?}");
    // On the oldest servers, winpool does not configure the old kubelet, which is a problem of its pool too.
    assert_eq!(output.status, 1, "{}", output.stderr);
    assert!(output.stderr.contains("the upgrade has "), "{}", output.stderr);

    let output = upgrade(target, &[]);
    assert_eq!(output.status, 1);
    assert!(
        output.stdout.contains(&format!("\nUpgrade from Kubernetes 1.{minor} to 1.{target}:\n")),
        "{}",
        output.stdout
    );
    let line = output.lines().into_iter().find(|line| line.contains("old-1") && line.contains("breaks VersionSkew"));
    let expected = format!("kubelet 1.{} is too old for API server 1.{target}", minor - SKEW);
    assert!(line.is_some_and(|line| line.contains("(pool web)") && line.contains(&expected)), "{}", output.stdout);

    assert_eq!(writes(&cluster), [], "a plan writes nothing");
}
