//! `winpool plan --kubernetes`: what an upgrade would break.

use e2e::{audit::Request, kubelet::Kubelets, kubelet::SimulatedNode, world::World};
use serde_json::{Value, json};
use winpool::facts::{Minor, support::builds_supported_by};

use crate::{Ended, node, pool, run, writes};

/// The first kubelet without dockershim.
const WITHOUT_DOCKERSHIM: u32 = 24;

/// The findings in `-o json`: what each is about, whether it breaks something, and the nodes.
fn findings(ended: &Ended) -> Vec<(String, bool, Value)> {
    let report = ended.json();
    let findings = report["upgrade"]["findings"].as_array().unwrap().iter();
    findings
        .map(|one| {
            (one["concern"].as_str().unwrap().to_owned(), one["breaks"].as_bool().unwrap(), one["nodes"].clone())
        })
        .collect()
}

#[tokio::test]
async fn plan_for_an_upgrade_says_what_would_break_and_what_would_only_change() {
    let world = World::start().await.unwrap();
    let minor = world.control_plane.version().minor;
    let next = builds_supported_by(Minor(minor + 1)).unwrap_or_default();
    let lasting = builds_supported_by(Minor(minor)).unwrap_or_default().iter().find(|build| next.contains(build));
    let lasting = lasting.expect("a Windows for this minor and the next").to_string();
    let fits = SimulatedNode::windows("web-1", &format!("{lasting}.1")).label("agentpool", "web");
    let kubelets = Kubelets::start(world.client.clone(), vec![fits.runtime("containerd://2.3.4")]).await.unwrap();
    world.apply("WindowsRuntimeProfile", "standard", &json!({})).await.unwrap();
    // The pools only observe, so that it is the upgrade alone that is told.
    for name in ["web", "batch"] {
        let more = json!({ "windowsVersion": lasting, "mode": "Observe", "profileRef": { "name": "standard" } });
        pool(&world, name, more).await;
    }
    let upgrade = |target: u32, more: &[&str]| {
        let target = format!("1.{target}");
        run(&world, &[&["plan", "--kubernetes", &target], more].concat())
    };

    // To where everything is already.
    let ended = upgrade(minor, &[]);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    let heading = format!("Upgrade from Kubernetes 1.{minor} to 1.{minor}:");
    let lines = ended.lines();
    assert_eq!(lines[lines.len() - 2..], [heading.as_str(), "  Nothing that winpool knows of stands against it."]);

    // To the next minor, with a kubelet that may stay: at most another pause image, which breaks nothing.
    let ended = upgrade(minor + 1, &["-o", "json"]);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    let only_changes = |(concern, breaks, _): &(String, bool, Value)| concern == "PauseImage" && !breaks;
    assert!(findings(&ended).iter().all(only_changes), "{}", ended.stdout);

    // To a minor that some of the nodes are not ready for.
    let target = WITHOUT_DOCKERSHIM.max(minor + 1);
    let is_dropped = |build: &&winpool::facts::Build| {
        builds_supported_by(Minor(target)).is_some_and(|builds| !builds.contains(build))
    };
    let dropped = builds_supported_by(Minor(minor)).and_then(|builds| builds.iter().find(is_dropped));
    let old = format!("v1.{}.2", minor - 4);
    let mut troubled =
        vec![node("old-1", "batch").kubelet(&old), node("docker-1", "batch").runtime("docker://20.10.9")];
    troubled.extend(
        dropped.map(|build| SimulatedNode::windows("dropped-1", &format!("{build}.1")).label("agentpool", "batch")),
    );
    kubelets.add(troubled).await.unwrap();

    let ended = upgrade(target, &["-o", "json"]);
    let found = findings(&ended);
    let breaking = |concern: &str, node: &str| {
        found.iter().any(|(about, breaks, nodes)| {
            about == concern && *breaks && nodes.as_array().unwrap().contains(&json!(node))
        })
    };
    assert!(breaking("VersionSkew", "old-1"), "{found:?}");
    assert_eq!(breaking("ContainerRuntime", "docker-1"), minor < WITHOUT_DOCKERSHIM, "{found:?}");
    assert_eq!(breaking("OSSupport", "dropped-1"), dropped.is_some(), "{found:?}");
    let breaks: Vec<bool> = found.iter().map(|(_, breaks, _)| *breaks).collect();
    assert!(breaks.is_sorted_by(|a, b| a >= b), "what breaks comes first: {found:?}");
    let count = breaks.iter().filter(|breaks| **breaks).count();
    let verdict = if count == 1 { "1 thing".to_owned() } else { format!("{count} things") };
    assert_eq!((ended.status, ended.stderr), (1, format!("winpool: the upgrade would break {verdict}\n")));

    let ended = upgrade(target, &[]);
    assert_eq!(ended.status, 1);
    assert!(
        ended.stdout.contains(&format!("\nUpgrade from Kubernetes 1.{minor} to 1.{target}:\n")),
        "{}",
        ended.stdout
    );
    let line =
        ended.lines().into_iter().find(|line| line.contains("old-1") && line.contains("too old for an API server"));
    assert!(line.is_some_and(|line| line.starts_with("  breaks VersionSkew (pool batch)")), "{}", ended.stdout);

    let none: Vec<Request> = Vec::new();
    assert_eq!(writes(&world), none, "a plan writes nothing");
}
