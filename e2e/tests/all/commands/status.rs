//! `winpool status`: what is wrong with pools, and `--watch`.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Output, Stdio},
};

use e2e::{
    cluster::{Cluster, NODE_LABEL, create, edit, pool_spec},
    control_plane::{OPERATOR_NAMESPACE, User},
    kubelet::SimulatedNode,
    operator::binary,
};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};
use winpool_check::doctor::SYMPTOMS;
use winpool_rules::{pool::Pool, status::overview::Places};

use super::{CommandOutput, SERVER_2022, pool, run, writes};

/// A node that a pool of this name selects, with the container runtime that is supported longest: a later one has no problem.
fn node(name: &str, pool: &str) -> SimulatedNode {
    super::node(name, pool).runtime("containerd://2.3.7")
}

/// A workload for Windows that does not tolerate the taints of pools.
async fn create_workload(cluster: &Cluster, name: &str) {
    let object = json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "nodeSelector": { "kubernetes.io/os": "windows" },
                    "containers": [{ "name": "main", "image": "registry.example/app:1" }],
                },
            },
        },
    });
    create(&cluster.namespaced::<Deployment>("default"), object).await.unwrap();
}

fn assert_is(output: &CommandOutput, status: i32, stdout: &str, stderr: &str) {
    assert_eq!((output.status, output.stdout.as_str(), output.stderr.as_str()), (status, stdout, stderr));
}

#[tokio::test]
async fn healthy_pools_are_one_line_and_problems_have_nodes_workloads_and_commands() {
    let cluster = Cluster::start().await.unwrap();
    let nodes = ["web-1", "web-2", "web-3"].map(|name| node(name, "web")).into_iter();
    let _kubelets = cluster.start_kubelets(nodes.chain([node("batch-1", "batch")]).collect()).await.unwrap();
    let no_pools = "There is no WindowsNodePool. To write pools for the existing Windows nodes, for review: winpool adopt\n\
                    4 Windows nodes are in no pool, without taints of winpool: batch-1, web-1, web-2, web-3\n";
    assert_is(&run(&cluster, &["status"]), 0, no_pools, "");

    pool(&cluster, "web", json!({})).await;
    let output = run(&cluster, &["status", "web"]);
    assert_eq!(output.status, 1, "{}", output.stdout);
    let expected = "web  0 nodes, 1 problem\n  Operator/NotReconciled\n    the pool has no status";
    assert!(output.stdout.starts_with(expected), "{}", output.stdout);
    assert!(output.stdout.contains("    Run: kubectl -n winpool-system get pods -l "), "{}", output.stdout);

    let operator = cluster.start_operator(&["--registry=off", "--leader-election=on"], &[]).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    assert_is(&run(&cluster, &["status", "web"]), 0, "web  3 nodes, as specified\n", "");

    create_workload(&cluster, "shop").await;
    pool(&cluster, "batch", json!({})).await;
    cluster.until_condition("batch", "NodesTainted", "False", "WouldStrandPods").await.unwrap();
    let held = cluster.condition("batch", "NodesTainted").await.unwrap().message;
    let output = run(&cluster, &["status"]);
    assert_eq!((output.status, output.stderr.as_str()), (1, "winpool: 1 problem in 1 pool\n"), "{}", output.stdout);
    let expected = [
        "batch  1 node, 1 problem",
        "  NodesTainted/WouldStrandPods, in PROBLEM Nodes/WouldStrandPods",
        &format!("    {held}"),
        "    1 node: batch-1",
        "    1 workload: Deployment default/shop",
        "    Run: winpool plan --pool batch",
        "    Run: winpool explain NodesTainted/WouldStrandPods",
        "web    3 nodes, as specified",
    ];
    assert_eq!(output.lines(), expected);

    let output = run(&cluster, &["status", "batch", "-o", "json"]);
    assert_eq!(output.status, 1, "{}", output.stderr);
    let expected = json!({
        "pools": [{
            "name": "batch", "nodes": 1, "readyNodes": 1, "ready": "False", "reason": "WouldStrandPods", "progress": null,
            "problems": [{
                "type": "NodesTainted", "reason": "WouldStrandPods", "harm": "OpensNodes", "subject": "Nodes",
                "problem": "Nodes/WouldStrandPods", "message": held, "count": 1, "nodes": ["batch-1"],
                "workloads": ["Deployment default/shop"],
                "commands": ["winpool plan --pool batch", "winpool explain NodesTainted/WouldStrandPods"],
            }],
        }],
        "knownIssues": [], "nodesInNoPool": [], "notes": [],
    });
    assert_eq!(output.json(), expected);
    commands_take_names_of_pools(&cluster);
    printed_commands_work(&cluster).await;
    check_reports_what_works(&cluster);
    operator.stop().await.unwrap();
    assert_eq!(writes(&cluster), [], "a status writes nothing");
    remedies_reach_the_server(&cluster);
}

/// The commands that the status names, and the completion of names.
fn commands_take_names_of_pools(cluster: &Cluster) {
    let unknown = "there is no WindowsNodePool bacth. Did you mean batch? See kubectl get wnp\n";
    assert_is(&run(cluster, &["status", "bacth"]), 2, "", &format!("winpool: {unknown}"));
    assert_is(&run(cluster, &["plan", "--pool", "bacth"]), 2, "", &format!("winpool: --pool: {unknown}"));

    let output = run(cluster, &["plan", "--pool", "batch", "-o", "json"]);
    assert_eq!((output.status, output.stderr.as_str()), (1, "winpool: 1 pool would not be as specified\n"));
    let plan: Value = output.json();
    assert_eq!(plan["pools"].as_array().unwrap().len(), 1);
    assert_eq!(plan["pools"][0]["workloads"][0]["workload"], "Deployment default/shop");
    assert_eq!(run(cluster, &["plan", "--pool", "web"]).stdout, "Pool web: no changes\n");
    assert_eq!(run(cluster, &["plan"]).lines().last(), Some(&"Run winpool explain CODE for the meaning of a code."));

    for (words, expected) in [
        (&["status", ""][..], "batch\nweb\n"),
        (&["plan", "--pool", "w"], "web\n"),
        (&["plan", "-o", ""], "text\njson\nyaml\n"),
        (&["sta"], "status\n"),
    ] {
        assert_is(&run(cluster, &[&["__complete", "--"], words].concat()), 0, expected, "");
    }
}

/// Runs all commands that the status of a pool may print in a shell; that of a pool in mode Observe lists its nodes, which have no label.
async fn printed_commands_work(cluster: &Cluster) {
    let _kubelets = cluster.start_kubelets(vec![node("looking-1", "looking")]).await.unwrap();
    let spec = json!({ "windowsVersion": "ltsc2019", "mode": "Observe", "nodeSelector": { "matchLabels": { NODE_LABEL: "looking" } } });
    cluster.apply_pool("looking", spec).await.unwrap();
    cluster.until_condition("looking", "OSMismatch", "True", "NodeBuildDiffers").await.unwrap();
    let status = run(cluster, &["status", "looking", "-o", "yaml"]);
    let status: Value = serde_saphyr::from_str(&status.stdout).unwrap();
    let problems = status["pools"][0]["problems"].as_array().unwrap();
    let printed = problems
        .iter()
        .flat_map(|problem| problem["commands"].as_array().unwrap())
        .map(|one| one.as_str().unwrap().to_owned());
    let pool = Pool::from_object(serde_json::from_value(cluster.pool("looking").await.unwrap()).unwrap());
    let places = Places::new(&pool, OPERATOR_NAMESPACE);
    let all = places.all().chain(printed);
    // Cluster API is not installed, and the operator runs outside of the cluster.
    let runnable = all.filter(|command| !command.contains("cluster.x-k8s.io") && !command.contains(" logs "));
    let commands: BTreeSet<String> = runnable.collect();
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        let output = in_shell(cluster, &command);
        let (text, status) = (String::from_utf8_lossy(&output.stdout), output.status.code());
        assert!(status == Some(0) || command.starts_with("winpool ") && status == Some(1), "{command}: {output:?}");
        if command.starts_with("kubectl get nodes") {
            assert!(text.contains("looking-1"), "{command}: {text}");
        }
    }
    cluster.kubectl(&["delete", "wnp", "looking"]).unwrap();
}

fn in_shell(cluster: &Cluster, command: &str) -> Output {
    let (kubectl, program) = (&cluster.control_plane.assets().kubectl, binary().unwrap());
    let functions =
        format!("kubectl() {{ '{}' \"$@\"; }}; winpool() {{ '{}' \"$@\"; }}", kubectl.display(), program.display());
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{functions}; {command}")]);
    shell.env("KUBECONFIG", cluster.control_plane.kubeconfig(User::OtherA)).output().unwrap()
}

/// Runs the commands of kubectl in the remedies of `winpool doctor`. What they name may not exist on this server.
fn remedies_reach_the_server(cluster: &Cluster) {
    let names =
        [("NAMESPACE", "default"), ("NODE", "looking-1"), ("POD", "missing"), ("SPEC", "web"), ("ACCOUNT", "default")];
    let absent = ["NotFound", "doesn't have a resource type", "Metrics API not available"];
    let quoted = SYMPTOMS.iter().flat_map(|symptom| symptom.entry.remedy.split('`').skip(1).step_by(2));
    let commands: BTreeSet<&str> =
        quoted.filter(|text| text.starts_with("kubectl ") && text.split(' ').count() > 2).collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let command = names.iter().fold(command.to_owned(), |text, (name, value)| text.replace(name, value));
        let output = in_shell(cluster, &command.replace(" NAME ", " missing "));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || absent.iter().any(|text| error.contains(text)), "{command}: {error}");
    }
}

/// The operator of this test has a Lease, and no Deployment.
fn check_reports_what_works(cluster: &Cluster) {
    let output = run(cluster, &["check", "--wait", "10s"]);
    assert_eq!((output.status, output.lines().len()), (0, 5), "{}{}", output.stdout, output.stderr);
    for (line, start) in output.lines().iter().zip(["definitions", "operator", "pools", "agents", "permissions"]) {
        assert!(line.starts_with(&format!("ok      {start}: ")), "{line}");
    }
    let elsewhere = run(cluster, &["check", "--namespace", "elsewhere"]);
    assert_eq!(
        (elsewhere.status, elsewhere.stderr.as_str()),
        (1, "winpool: 1 of 5 checks failed\n"),
        "{}",
        elsewhere.stdout
    );
    assert!(elsewhere.lines()[1].starts_with("failed  operator: not in namespace elsewhere."), "{}", elsewhere.stdout);
}

/// What a user sees who may read the resources of winpool only.
#[tokio::test]
async fn what_may_not_be_read_is_noted_and_hides_nothing() {
    let cluster = Cluster::start().await.unwrap();
    let alone = SimulatedNode::windows("alone-1", SERVER_2022);
    let _kubelets = cluster.start_kubelets(vec![node("web-1", "web"), alone]).await.unwrap();
    pool(&cluster, "web", json!({})).await;
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    cluster.kubectl(&["create", "serviceaccount", "reader"]).unwrap();
    let binding =
        ["create", "clusterrolebinding", "reader", "--clusterrole=winpool-view", "--serviceaccount=default:reader"];
    cluster.kubectl(&binding).unwrap();
    let token = cluster.token("default", "reader").await.unwrap();
    let file = cluster.control_plane.directory().join("reader.kubeconfig");
    let admin = std::fs::read_to_string(cluster.control_plane.kubeconfig(User::OtherA)).unwrap();
    let mut config: Value = serde_json::from_str(&admin).or_else(|_| serde_saphyr::from_str(&admin)).unwrap();
    config["users"][0]["user"] = json!({ "token": token });
    std::fs::write(&file, config.to_string()).unwrap();

    let output = run(&cluster, &["status", "--kubeconfig", file.to_str().unwrap()]);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{}", output.stdout);
    let lines = output.lines();
    assert_eq!((lines.len(), lines[0]), (2, "web  1 node, as specified"), "{}", output.stdout);
    let note = "Note: the affected nodes and the nodes in no pool are not listed: cannot read ";
    assert!(lines[1].starts_with(note) && lines[1].contains("forbidden"), "{}", output.stdout);
    operator.stop().await.unwrap();
}

/// Starts `winpool status --watch` for pool web.
fn watch(cluster: &Cluster) -> Child {
    let mut command = Command::new(binary().unwrap());
    command.args(["status", "web", "--watch"]).env("KUBECONFIG", cluster.control_plane.kubeconfig(User::OtherA));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[tokio::test]
async fn a_watch_survives_an_outage_and_ends_when_the_spec_is_applied() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(vec![node("web-1", "web")]).await.unwrap();
    pool(&cluster, "web", json!({})).await;
    let mut child = watch(&cluster);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut progress = BufReader::new(child.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        line
    };
    // A command that cannot read the cluster at its start fails.
    let mut stdout = String::new();
    progress.read_line(&mut stdout).unwrap();
    assert!(stdout.starts_with("web: the pool has no status: "), "{stdout}");
    cluster.control_plane.stop_api_server().await.unwrap();
    let outage = next();
    assert!(
        outage.starts_with("winpool: cannot read WindowsNodePool: ") && outage.ends_with(". Trying again\n"),
        "{outage}"
    );
    cluster.control_plane.start_api_server().await.unwrap();
    assert_eq!(next(), "winpool: the API server answers again\n");

    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    progress.read_to_string(&mut stdout).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{stdout}");
    assert_eq!(stdout.lines().last(), Some("web  1 node, as specified"), "{stdout}");

    // A pool that needs a person ends the watch too.
    operator.stop().await.unwrap();
    let mistyped = pool_spec("web", json!({ "nodeSelector": { "matchLabels": { "agentpool": "wbe" } } }));
    edit(&cluster.pools(), "web", json!({ "spec": mistyped })).await.unwrap();
    let child = watch(&cluster);
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    let output = CommandOutput::from(child.wait_with_output().unwrap());
    assert_eq!(output.status, 1, "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.contains("NodesAssigned/ReleaseHeld"), "{}", output.stdout);
    operator.stop().await.unwrap();
}
