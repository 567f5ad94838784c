//! `winpool status` of a rollout.

use e2e::{control_plane::User, operator::winpool};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{Fleet, POOL};

/// Exit status, stdout and stderr of a command, while the agents go on.
async fn run(fleet: &Fleet, arguments: &'static [&'static str]) -> (Option<i32>, String, String) {
    let control_plane = fleet.cluster.control_plane.clone();
    let output = spawn_blocking(move || winpool(&control_plane, User::OtherA, arguments)).await.unwrap().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn a_watch_prints_the_nodes_of_a_rollout_and_ends_when_it_is_complete_or_halted() {
    let fleet = Fleet::start(4, &["win-01"]).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "maxUnavailable": 1 })).await;
    fleet.cluster.until_condition(POOL, "ConfigInEffect", "False", "RollingOut").await.unwrap();
    let (status, stdout, stderr) = run(&fleet, &["status", "--watch"]).await;
    assert!(stdout.contains("\nweb  4 nodes, ") && !stdout.contains("ConfigInEffect"), "{stdout}{stderr}");
    // The container runtime of the nodes may be unsupported by now.
    assert_eq!(status, Some(i32::from(stdout.contains("RuntimeSupported/"))), "{stdout}{stderr}");
    let lines: Vec<_> = stdout.lines().collect();
    assert!(
        lines[0].starts_with("web: ") && lines[0].contains(" of 4 nodes run their configuration; in work: win-0"),
        "{stdout}"
    );
    assert!(lines.iter().any(|line| line.contains("; next: win-0") && line.ends_with(')')), "{stdout}");

    fleet.apply_profile(77).await;
    fleet.cluster.until_condition(POOL, "ConfigInEffect", "False", "RolloutHalted").await.unwrap();
    let (status, stdout, _) = run(&fleet, &["status", POOL, "--watch", "-o", "json"]).await;
    assert_eq!(status, Some(1), "{stdout}");
    let overview: Value = serde_json::from_str(&stdout).unwrap();
    let pool = &overview["pools"][0];
    let problem = &pool["problems"][0];
    assert_eq!((&problem["reason"], &problem["nodes"]), (&json!("RolloutHalted"), &json!(["win-01"])), "{stdout}");
    let progress = json!({ "running": false, "nodes": { "done": 0, "total": 4 }, "inWork": [], "next": [] });
    let mut found = pool["progress"].clone();
    assert!(found.as_object_mut().unwrap().remove("since").is_some(), "{stdout}");
    assert_eq!(found, progress, "{stdout}");
    operator.stop().await.unwrap();
    fleet.stop().await;
}
