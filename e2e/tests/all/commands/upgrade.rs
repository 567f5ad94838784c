//! `winpool plan --kubernetes`: what an upgrade would break.

use e2e::{audit::Request, cluster::Cluster, kubelet::SimulatedNode};
use serde_json::{Value, json};
use winpool_facts::{
    Build, Minor,
    support::{NEWEST, builds_supported_by},
};

use super::{CommandOutput, node, pool, run, writes};

/// How many minors a kubelet may be older than the API server.
const SKEW: u32 = 3;

/// The findings in `-o json`: concern, whether the upgrade breaks something, and the nodes.
fn findings(output: &CommandOutput) -> Vec<(String, bool, Value)> {
    let report = output.json();
    let findings = report["upgrade"]["findings"].as_array().unwrap().iter();
    findings
        .map(|one| {
            (one["concern"].as_str().unwrap().to_owned(), one["breaks"].as_bool().unwrap(), one["nodes"].clone())
        })
        .collect()
}

#[tokio::test]
async fn plan_for_an_upgrade_lists_what_breaks_and_what_changes() {
    let cluster = Cluster::start().await.unwrap();
    let minor = cluster.control_plane.version().minor;
    let [now, next] = [minor, minor + 1].map(|minor| builds_supported_by(Minor(minor)).unwrap());
    let lasting = now.iter().find(|build| next.contains(build)).expect("a Windows for this minor and the next");
    let lasting = lasting.to_string();
    let fits = SimulatedNode::windows("web-1", &format!("{lasting}.1")).label("agentpool", "web");
    let kubelets = cluster.start_kubelets(vec![fits.runtime("containerd://2.3.4")]).await.unwrap();
    cluster.apply_profile("standard", json!({})).await.unwrap();
    // The pools are in mode Observe, so that the plan has no changes.
    for name in ["web", "batch"] {
        let more = json!({ "windowsVersion": lasting, "mode": "Observe", "profileRef": { "name": "standard" } });
        pool(&cluster, name, more).await;
    }
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

    // Upgrade to the next minor, which supports the kubelet: at most the pause image changes, which breaks nothing.
    let output = upgrade(minor + 1, &["-o", "json"]);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{}", output.stdout);
    let found = findings(&output);
    let only_changes = |(concern, breaks, _): &(String, bool, Value)| {
        ["PauseImage", "KnownIssues", "NotChecked"].contains(&concern.as_str()) && !breaks
    };
    assert!(found.iter().all(only_changes), "{}", output.stdout);
    let not_checked = found.iter().any(|(concern, ..)| concern == "NotChecked");
    assert_eq!(not_checked, minor >= NEWEST.0, "{}", output.stdout);

    // Some of the nodes do not support it.
    let target = minor + 1;
    let dropped = now.iter().find(|build: &&Build| !next.contains(build));
    let old = format!("v1.{}.2", minor - SKEW);
    let mut unsupported = vec![node("old-1", "batch").kubelet(&old)];
    unsupported.extend(
        dropped.map(|build| SimulatedNode::windows("dropped-1", &format!("{build}.1")).label("agentpool", "batch")),
    );
    kubelets.add(unsupported).await.unwrap();

    let output = upgrade(target, &["-o", "json"]);
    let found = findings(&output);
    let breaking = |concern: &str, node: &str| {
        found.iter().any(|(about, breaks, nodes)| {
            about == concern && *breaks && nodes.as_array().unwrap().contains(&json!(node))
        })
    };
    assert!(breaking("VersionSkew", "old-1"), "{found:?}");
    assert_eq!(breaking("OSSupport", "dropped-1"), dropped.is_some(), "{found:?}");
    let breaks: Vec<bool> = found.iter().map(|(_, breaks, _)| *breaks).collect();
    assert!(breaks.is_sorted_by(|a, b| a >= b), "breaking findings come first: {found:?}");
    let count = breaks.iter().filter(|breaks| **breaks).count();
    let issues = if count == 1 { "1 breaking issue".to_owned() } else { format!("{count} breaking issues") };
    // On the oldest servers, the old kubelet is one that winpool does not configure, which is a problem of its pool too.
    let ends = output.stderr.ends_with(&format!("the upgrade has {issues}\n"));
    assert_eq!((output.status, ends), (1, true), "{}", output.stderr);

    let output = upgrade(target, &[]);
    assert_eq!(output.status, 1);
    assert!(
        output.stdout.contains(&format!("\nUpgrade from Kubernetes 1.{minor} to 1.{target}:\n")),
        "{}",
        output.stdout
    );
    let line = output.lines().into_iter().find(|line| line.contains("old-1") && line.contains("breaks VersionSkew"));
    let expected = format!("kubelet 1.{} is too old for API server 1.{target}", minor - SKEW);
    assert!(line.is_some_and(|line| line.contains("(pool batch)") && line.contains(&expected)), "{}", output.stdout);

    let none: Vec<Request> = Vec::new();
    assert_eq!(writes(&cluster), none, "a plan writes nothing");
}
