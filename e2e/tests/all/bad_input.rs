//! Mistakes in what the operator and the commands are given: one line says what to do, with the exit status of the kind of
//! mistake, and what is corrected in the cluster is picked up without a restart.

use std::{
    fs,
    process::{Command, Output},
    time::Duration,
};

use anyhow::ensure;
use base64::{Engine, engine::general_purpose::STANDARD};
use e2e::{
    certificates::Authority,
    cluster::{Cluster, SOON},
    control_plane::{ControlPlane, OPERATOR_NAMESPACE, Options, User},
    install::{apply, install, operator_may, path},
    kubectl::{kubectl, kubectl_with_input},
    operator::{Operator, binary},
    wait::{eventually, until},
};
use serde_json::{Value, json};
use winpool_api::names::annotation::SCHEMA;

/// Longer than the back-off of a watch.
const AFTER_A_BACK_OFF: Duration = Duration::from_secs(180);

/// The commands that use a cluster.
const COMMANDS: [&[&str]; 5] =
    [&["run"], &["plan"], &["adopt"], &["migrate", "web", "--to", "ltsc2025"], &["cleanup", "--dry-run"]];

/// The kubeconfig of the administrator with changes, as a file.
fn kubeconfig(control_plane: &ControlPlane, name: &str, change: impl Fn(&mut Value)) -> String {
    let text = fs::read_to_string(control_plane.kubeconfig(User::Admin)).unwrap();
    let mut config: Value = serde_saphyr::from_str(&text).unwrap();
    change(&mut config);
    let file = control_plane.directory().join(format!("{name}.kubeconfig"));
    fs::write(&file, config.to_string()).unwrap();
    file.display().to_string()
}

/// Runs a command that ends by itself. The operator uses a free port.
fn run(arguments: &[&str], kubeconfig: &str) -> Output {
    let mut command = Command::new("timeout");
    command.arg("300").arg(binary().unwrap()).args(arguments).args(["--kubeconfig", kubeconfig]);
    command.env("WINPOOL_ADMIN_ADDRESS", "127.0.0.1:0").env("WINPOOL_LOG_FORMAT", "text").output().unwrap()
}

#[tokio::test]
async fn credentials_or_certificates_that_are_not_accepted_end_every_command_with_the_remedy() {
    let authority = Authority::new().unwrap();
    let client_authority = format!("--client-ca-file={}", authority.file().display());
    let options = Options { api_server_arguments: vec![client_authority], ..Options::api_server_only() };
    let control_plane = ControlPlane::start(options).await.unwrap();
    install(&control_plane).unwrap();
    let expired = authority.issue_expired("admin").unwrap();
    let user = json!({
        "client-certificate-data": STANDARD.encode(&expired.certificate),
        "client-key-data": STANDARD.encode(&expired.key),
    });
    let credentials = "log in to the cluster again: the credentials of the kubeconfig are wrong or have expired";
    let certificate = "correct certificate-authority and server in the kubeconfig";
    let file = |name, change: &dyn Fn(&mut Value)| kubeconfig(&control_plane, name, change);
    for (name, kubeconfig, remedy) in [
        ("token", file("token", &|config| config["users"][0]["user"]["token"] = json!("expired")), credentials),
        ("client", file("client", &|config| config["users"][0]["user"] = user.clone()), credentials),
        (
            "authority",
            file("authority", &|config| {
                config["clusters"][0]["cluster"]["certificate-authority"] = json!(authority.file());
            }),
            certificate,
        ),
        (
            "name",
            file("name", &|config| config["clusters"][0]["cluster"]["tls-server-name"] = json!("other.example")),
            certificate,
        ),
    ] {
        for command in COMMANDS {
            let output = run(command, &kubeconfig);
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(3), "{name}: {command:?}: {stderr}");
            assert!(stderr.lines().all(|line| line.contains("winpool: ")), "{name}: {command:?}: {stderr}");
            assert!(stderr.trim_end().lines().last().unwrap().contains(remedy), "{name}: {command:?}: {stderr}");
        }
    }
}

#[tokio::test]
async fn missing_definitions_and_those_of_an_older_version_are_named_in_one_line_with_the_command() {
    let control_plane = ControlPlane::start(Options::api_server_only()).await.unwrap();
    apply(&control_plane, &["-f", &path("config/namespace.yaml")]).unwrap();
    apply(&control_plane, &["-k", &path("config/default")]).unwrap();
    let admin = control_plane.kubeconfig(User::Admin).display().to_string();
    let names = "windowsnodeconfigs.winpool.dev, windowsnodepools.winpool.dev, windowsruntimeprofiles.winpool.dev";
    let printed = Command::new(binary().unwrap()).args(["crds", "-o", "json"]).output().unwrap();
    let mut older: Value = serde_json::from_slice(&printed.stdout).unwrap();
    for definition in older["items"].as_array_mut().unwrap() {
        definition["metadata"]["annotations"][SCHEMA] = json!("older");
    }
    for (problem, installed) in [("not installed", None), ("of another version of winpool", Some(older.to_string()))] {
        if let Some(definitions) = installed {
            kubectl_with_input(&control_plane, User::Admin, &["create", "-f", "-"], &definitions).unwrap();
            let wait = ["wait", "--for=condition=Established", "--timeout=180s", "crd", "--all"];
            kubectl(&control_plane, User::Admin, &wait).unwrap();
        }
        wait_until_read(&control_plane).await;
        let plan = String::from_utf8(run(&["plan"], &admin).stderr).unwrap();
        let lines: Vec<_> = plan.lines().filter(|line| line.contains("kubectl apply -k crds/")).collect();
        let [line] = lines[..] else { panic!("{plan}") };
        assert!(line.starts_with(&format!("winpool: {names}: {problem}")), "{line}");

        let operator = Operator::spawn(&control_plane, &[], &[]).unwrap();
        let logged = || async {
            let log = operator.log()?;
            let lines = log.lines().filter(|line| line.contains(names)).collect::<Vec<_>>();
            ensure!(lines.len() == 1 && lines[0].contains(problem), "{log}");
            ensure!(lines[0].contains("kubectl apply -k crds/"), "{log}");
            Ok(())
        };
        eventually("the operator logs it", SOON, logged).await.unwrap();
        operator.stop().await.unwrap();
    }
    the_refusal_of_the_api_server_is_named(&control_plane).await;
}

/// A definition that is stored, but whose names another one of its group has, is not served.
async fn the_refusal_of_the_api_server_is_named(control_plane: &ControlPlane) {
    kubectl(control_plane, User::Admin, &["delete", "crd", "--all"]).unwrap();
    let other = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "wineparties.winpool.dev"},
        "spec": {
            "group": "winpool.dev",
            "names": {"kind": "WineParty", "plural": "wineparties", "shortNames": ["wnp"]},
            "scope": "Cluster",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    kubectl_with_input(control_plane, User::Admin, &["apply", "-f", "-"], &other.to_string()).unwrap();
    kubectl(control_plane, User::Admin, &["wait", "--for=condition=Established", "--timeout=180s", "crd", "--all"])
        .unwrap();
    apply(control_plane, &["-k", &path("crds")]).unwrap();
    let admin = control_plane.kubeconfig(User::Admin).display().to_string();
    let expected =
        "winpool: windowsnodepools.winpool.dev: not served, NamesAccepted is False: \"wnp\" is already in use";
    let printed = || async {
        let plan = String::from_utf8(run(&["plan"], &admin).stderr)?;
        ensure!(plan.contains(expected), "{plan}");
        Ok(())
    };
    eventually("winpool plan names the refusal", SOON, printed).await.unwrap();
    let operator = Operator::spawn(control_plane, &[], &[]).unwrap();
    let logged = || async {
        let log = operator.log()?;
        ensure!(log.contains("is already in use"), "{log}");
        Ok(())
    };
    eventually("the operator logs the refusal", SOON, logged).await.unwrap();
    operator.stop().await.unwrap();
}

/// Waits until the operator may read the definitions: roles are in effect a moment after they are stored.
async fn wait_until_read(control_plane: &ControlPlane) {
    let may = || async {
        Ok(operator_may(control_plane, &["get", "customresourcedefinitions/windowsnodepools.winpool.dev"]))
    };
    until("the role is in effect", SOON, may, |may| *may).await.unwrap();
}

#[tokio::test]
async fn without_its_namespace_the_leader_ends_and_the_next_one_works_when_the_namespace_is_created() {
    let cluster = Cluster::start_with(Options::default()).await.unwrap();
    let election = [("WINPOOL_LEADER_ELECTION", "on")];
    let operator = cluster.start_operator(&[], &election).await.unwrap();
    let is_leader = |operator: &Operator| {
        let admin = operator.admin_address();
        move || async move {
            e2e::network::http_get(admin, "/metrics").await.map(|(_, text)| text.contains("winpool_leader 1"))
        }
    };
    until("the operator is the leader", SOON, is_leader(&operator), |is_leader| *is_leader).await.unwrap();
    cluster.kubectl(&["delete", "namespace", OPERATOR_NAMESPACE]).unwrap();
    let ended = || async { Ok(operator.process().exit_status()) };
    let status = until("the leader has ended", SOON, ended, Option::is_some).await.unwrap().unwrap();
    let log = operator.log().unwrap();
    assert_eq!(status.code(), Some(4), "{log}");
    assert!(log.contains("remedy=\"create the namespace of the operator, apply its roles"), "{log}");
    assert!(
        log.trim_end()
            .ends_with("winpool: this process is no longer the leader: the Lease was not renewed for 20 seconds"),
        "{log}"
    );

    let next = Operator::spawn(&cluster.control_plane, &[], &election).unwrap();
    let warns = || async {
        let log = next.log()?;
        ensure!(log.contains("remedy=\"create the namespace of the operator"), "{log}");
        Ok(())
    };
    eventually("the log has the remedy", SOON, warns).await.unwrap();
    install(&cluster.control_plane).unwrap();
    until("it is the leader", AFTER_A_BACK_OFF, is_leader(&next), |is_leader| *is_leader).await.unwrap();
    next.wait_ready(AFTER_A_BACK_OFF).await.unwrap();
    next.stop().await.unwrap();
}
