//! The options for the cluster, and the question of `winpool cleanup` on a terminal.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use e2e::{cluster::Cluster, control_plane::User, operator::binary};
use serde_json::{Value, json};

use super::{CommandOutput, node, pool, run, writes};

/// Writes a kubeconfig whose current context is unreachable, and whose context `real` is the cluster.
fn two_contexts(cluster: &Cluster) -> String {
    let text = fs::read_to_string(cluster.control_plane.kubeconfig(User::OtherA)).unwrap();
    let mut config: Value = serde_json::from_str(&text).or_else(|_| serde_saphyr::from_str(&text)).unwrap();
    config["clusters"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "name": "gone", "cluster": { "server": "https://127.0.0.1:1" } }));
    let contexts = config["contexts"].as_array_mut().unwrap();
    contexts[0]["name"] = json!("real");
    contexts.push(json!({ "name": "gone", "context": { "cluster": "gone", "user": contexts[0]["context"]["user"] } }));
    config["current-context"] = json!("gone");
    let file = cluster.control_plane.directory().join("two-contexts.kubeconfig");
    fs::write(&file, config.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn without_kubeconfig(arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(binary().unwrap());
    command.args(arguments).env_remove("KUBECONFIG").env("HOME", "/nonexistent").output().unwrap().into()
}

#[tokio::test]
async fn every_command_that_reads_a_cluster_takes_kubeconfig_and_context() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(vec![node("web-1", "web")]).await.unwrap();
    pool(&cluster, "web", json!({})).await;
    let file = two_contexts(&cluster);
    for (command, status) in [
        (&["plan"][..], 1),
        (&["status"], 1),
        (&["migrate", "web", "--to", "ltsc2022"], 0),
        (&["verify", "web", "--dry-run"], 0),
        (&["cleanup", "--dry-run"], 0),
    ] {
        let with = |more: &[&str]| without_kubeconfig(&[command, more].concat());
        let real = with(&["--kubeconfig", &file, "--context", "real"]);
        assert_eq!(real.status, status, "{command:?}: {}{}", real.stdout, real.stderr);
        let unreachable = with(&["--kubeconfig", &file]);
        assert_eq!((unreachable.status, unreachable.stdout.as_str()), (3, ""), "{command:?} uses the current context");
        assert_eq!(with(&[]).status, 3, "{command:?} without a cluster");
        let unknown = with(&["--kubeconfig", &file, "--context", "reel"]);
        let expected = "winpool: --context: the kubeconfig has no context reel. Existing contexts: gone, real\n";
        assert_eq!((unknown.status, unknown.stderr.as_str()), (2, expected), "{command:?}");
    }
}

/// Runs a command on a terminal, on which somebody types.
fn on_terminal(cluster: &Cluster, command: &str, typed: &str) -> CommandOutput {
    let line = format!("{} {command}", binary().unwrap().display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    script.env("KUBECONFIG", cluster.control_plane.kubeconfig(User::OtherA));
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

#[tokio::test]
async fn cleanup_lists_its_writes_and_asks_on_a_terminal() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(vec![node("web-1", "web")]).await.unwrap();
    pool(&cluster, "web", json!({})).await;
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    operator.stop().await.unwrap();

    let planned = run(&cluster, &["cleanup", "--dry-run"]);
    let question = format!("Make {} writes? [y/N] ", planned.lines().len());
    let refused = on_terminal(&cluster, "cleanup", "n\n");
    assert_eq!(refused.status, 1, "{}", refused.stdout);
    for line in planned.lines().into_iter().chain([question.as_str(), "winpool: nothing is removed"]) {
        assert!(refused.stdout.contains(line), "{line}: {}", refused.stdout);
    }
    assert!(writes(&cluster).is_empty());

    let confirmed = on_terminal(&cluster, "cleanup", "y\n");
    assert_eq!(confirmed.status, 0, "{}", confirmed.stdout);
    assert!(confirmed.stdout.contains("done"), "{}", confirmed.stdout);
    assert_eq!(run(&cluster, &["cleanup", "--dry-run"]).stdout, "nothing to remove\n");
}
