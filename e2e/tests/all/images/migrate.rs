//! `winpool migrate`, on a cluster with a pool of Windows Server 2019 and several of 2022.

use std::process::{Command, Output};

use e2e::{
    certificates::Authority,
    cluster::Cluster,
    control_plane::{ControlPlane, User},
    images::windows,
    kubectl::kubectl_with_input,
    kubelet::SimulatedNode,
    operator::{binary, winpool, workspace},
    registry::{Access, Registry},
};
use serde_json::{Value, json};

use super::{
    objects::{IMAGE_2019, IMAGE_2022, controller, create, of_deployment, owned, push, push_index},
    text,
};

const TAINT: (&str, &str) = ("os", "windows");

/// A node of a pool.
fn node(name: &str, pool: &str, kernel: &str) -> SimulatedNode {
    SimulatedNode::windows(name, kernel).label("agentpool", pool)
}

/// A pod spec for Windows with further fields.
fn spec(image: &str, more: &Value) -> Value {
    let memory = json!({ "requests": { "memory": "2Gi" }, "limits": { "memory": "2Gi" } });
    let mut spec = json!({
        "nodeSelector": { "kubernetes.io/os": "windows" },
        "tolerations": [{ "key": "os", "value": "windows", "effect": "NoSchedule" }],
        "containers": [{ "name": "app", "image": image, "resources": memory }],
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    spec
}

/// A Deployment or a DaemonSet with one pod on a node.
async fn run(cluster: &Cluster, kind: &str, name: &str, node: &str, spec: &Value) {
    let object = controller(kind, name, spec).to_string();
    kubectl_with_input(&cluster.control_plane, User::Admin, &["create", "-f", "-"], &object).unwrap();
    let mut spec = spec.clone();
    spec["nodeName"] = json!(node);
    let pod =
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("{name}-5d8-x") }, "spec": spec });
    let pod = if kind == "Deployment" { of_deployment(pod, name) } else { owned(pod, kind, name) };
    create(&cluster.client, pod).await;
}

/// Runs `migrate` as a user whose requests are audited.
fn migrate(control_plane: &ControlPlane, arguments: &[&str]) -> Output {
    winpool(control_plane, User::OtherA, &[&["migrate"], arguments].concat()).unwrap()
}

#[tokio::test]
async fn migrate_reports_the_outcome_of_each_workload_and_writes_nothing() {
    let authority = Authority::new().unwrap();
    let registry = Registry::start(&authority, &Access::Anonymous).await.unwrap();
    let image = |tag: &str| format!("{}/shop/app:{tag}", registry.host());
    let repository = registry.repository("shop/app", None);
    push_index(&repository, "both", &[IMAGE_2019, IMAGE_2022]).await;
    push(&repository, "one", &windows(IMAGE_2019)).await;

    let cluster = Cluster::start().await.unwrap();
    let mut small = node("small-1", "small", "10.0.20348.2700");
    small.capacity.memory = "4Gi".to_owned();
    let nodes = vec![
        node("web-1", "web", "10.0.17763.5329"),
        node("calm-1", "calm", "10.0.17763.5329"),
        node("large-1", "large", "10.0.20348.2700"),
        small,
    ];
    let _kubelets = cluster.start_kubelets(nodes).await.unwrap();
    // Of two pools with one class, texts name the older one.
    for (pool, version) in [("calm", "ltsc2019"), ("web", "ltsc2019"), ("large", "ltsc2022"), ("small", "ltsc2022")] {
        cluster.apply_tainting_pool(pool, version, TAINT).await.unwrap();
    }
    let operator = cluster.start_operator(&["--workloads", "off"], &[]).await.unwrap();
    for pool in ["web", "calm", "large", "small"] {
        cluster.until_tainted(pool, TAINT, 1).await.unwrap();
        cluster.until_condition(pool, "RuntimeClassReady", "True", "Applied").await.unwrap();
    }
    operator.stop().await.unwrap();

    let build =
        json!({ "nodeSelector": { "kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.17763" } });
    let nothing = json!({});
    for (kind, name, tag, more) in [
        ("Deployment", "storefront", "both", &nothing),
        ("Deployment", "billing", "one", &nothing),
        ("Deployment", "mystery", "gone", &nothing),
        ("Deployment", "pinned", "both", &build),
        ("Deployment", "reports", "both", &json!({ "runtimeClassName": "windows-ltsc2019" })),
        ("DaemonSet", "agent", "both", &build),
        ("DaemonSet", "logs", "both", &nothing),
    ] {
        run(&cluster, kind, name, "web-1", &spec(&image(tag), more)).await;
    }
    run(&cluster, "Deployment", "quiet", "calm-1", &spec(&image("both"), &nothing)).await;

    let ca = authority.file();
    let with_registry = ["--registry", "--registry-ca", text(&ca)];
    let control_plane = &cluster.control_plane;

    let output = migrate(control_plane, &[&["web", "--to", "small", "-o", "json"][..], &with_registry].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["room"]["enough"], &report["room"]["comes"]["pods"]), (&json!(false), &json!(5)), "{report}");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("4 workloads would not run, 1 workload with unknown outcome"), "{stderr}");
    assert!(stderr.contains("not enough capacity"), "{stderr}");

    // The text output.
    let output = migrate(control_plane, &[&["web", "--to", "large"][..], &with_registry].concat());
    assert_eq!(output.status.code(), Some(1));
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = found.lines();
    assert_eq!(lines.next(), Some("Pool web to pool large: 7 workloads, 7 pods"));
    assert!(lines.next().unwrap().starts_with("  no matching image  Deployment default/billing (1 pod): "), "{found}");
    assert_eq!(found.lines().filter(|line| line.starts_with("  runs  ")).count(), 2, "{found}");
    let capacity =
        "Capacity: 5 pods with memory requests of 10Gi would move, and the pool has capacity for 110 pods and ";
    assert!(found.lines().last().unwrap().starts_with(capacity), "{found}");

    let page = std::fs::read_to_string(workspace().join("docs/workloads.md")).unwrap();
    for line in found.lines().filter(|line| !line.starts_with("Capacity")) {
        let line = line.replace(&registry.host(), "registry.example");
        assert!(page.contains(&line), "docs/workloads.md does not show {line}");
    }

    // Every exit status.
    let unreachable = control_plane.directory().join("gone.kubeconfig");
    let config = std::fs::read_to_string(control_plane.kubeconfig(User::OtherA)).unwrap();
    std::fs::write(&unreachable, config.replace(&control_plane.url(), "https://127.0.0.1:1")).unwrap();
    let here = control_plane.kubeconfig(User::OtherA);
    for (kubeconfig, arguments, status, words) in [
        (&here, [&["calm", "--to", "ltsc2022"][..], &with_registry].concat(), 0, ""),
        (&here, [&["calm", "--to", "large"][..], &with_registry].concat(), 0, ""),
        (&here, vec!["calm", "--to", "ltsc2022"], 1, "1 workload with unknown outcome"),
        (&here, vec!["nobody", "--to", "ltsc2022"], 2, "there is no WindowsNodePool nobody"),
        (&here, vec!["calm", "--to", "nowhere"], 2, "neither a pool"),
        (&here, vec!["calm", "--to", "calm"], 2, "is the same pool"),
        (&unreachable, vec!["calm", "--to", "ltsc2022"], 3, "winpool: "),
    ] {
        let mut command = Command::new(binary().unwrap());
        let output = command.arg("migrate").args(&arguments).env("KUBECONFIG", kubeconfig).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }

    let requests = control_plane.requests_of(User::OtherA).unwrap();
    assert!(requests.iter().any(|request| request.resource == "pods"), "requests are audited");
    let writes: Vec<_> =
        requests.iter().filter(|request| request.is_write() || request.resource == "secrets").collect();
    assert!(writes.is_empty(), "{writes:#?}");
}
