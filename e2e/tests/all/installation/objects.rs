//! The chart, the kustomizations and `install.yaml` have the same objects, which the API server knows.

use std::{collections::BTreeSet, path::Path};

use e2e::{
    control_plane::{ControlPlane, Options, User},
    kubectl::kubectl_with_input,
    operator::workspace,
    requests::Requests,
};
use serde_json::{Value, json};
use winpool::admission_policies::FIRST_WITH_MUTATING;

use super::{Objects, helm, kustomized, parsed, repository};

/// The objects of the chart with these options.
fn rendered(options: &[&str]) -> Objects {
    let arguments =
        [&["template", "winpool", "charts/winpool", "--namespace", "winpool-system", "--skip-tests"], options].concat();
    parsed(&helm(&arguments).unwrap_or_else(|error| panic!("{options:?}: {error}")))
}

fn namespace() -> Objects {
    parsed(&std::fs::read_to_string(workspace().join("config/namespace.yaml")).unwrap())
}

/// Without the annotation by which helm keeps the CRDs.
fn without_policy(mut objects: Objects) -> Objects {
    for object in objects.values_mut().filter(|object| object["kind"] == "CustomResourceDefinition") {
        let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
        assert_eq!(annotations.remove("helm.sh/resource-policy"), Some(json!("keep")));
    }
    objects
}

#[track_caller]
fn assert_same(found: &Objects, expected: &Objects, what: &str) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}");
    for (name, object) in found {
        assert_eq!(object, &expected[name], "{what}: {name}");
    }
}

#[test]
fn chart_kustomization_and_file_have_the_same_objects() {
    let operator = kustomized("config/default");
    let crds = kustomized("crds");
    assert!(operator.len() >= 10 && crds.len() == 3);
    let all: Objects = operator.into_iter().chain(crds).collect();
    assert_same(&without_policy(rendered(&[])), &all, "the chart");
    let all: Objects = all.into_iter().chain(namespace()).collect();
    let file = std::fs::read_to_string(workspace().join("install.yaml")).unwrap();
    assert_same(&parsed(&file), &all, "install.yaml");
}

/// The folders of `config/` that are applied in addition, and the values of the chart for the same objects.
const OPTIONS: [(&str, &[&str]); 14] = [
    ("config/agent", &["agent.enabled=true"]),
    ("config/cluster-api", &["clusterAPI.enabled=true"]),
    ("config/disruption-budget", &["podDisruptionBudget.enabled=true"]),
    ("config/doctor", &["doctor.enabled=true"]),
    ("config/doctor/node-logs", &["doctor.nodeLogs=true"]),
    ("config/kube-proxy", &["kubeProxy.enabled=true"]),
    ("config/grafana", &["grafana.enabled=true"]),
    ("config/network-policy", &["networkPolicy.enabled=true"]),
    ("config/policies", &["policies.validating=true"]),
    ("config/policies/mutating", &["policies.mutating=true"]),
    ("config/prometheus", &["prometheus.enabled=true"]),
    ("config/pull-secrets", &["pullSecrets=true"]),
    ("config/recommend", &["recommend.enabled=true"]),
    ("config/storage", &["storage=true"]),
];

#[test]
fn each_option_of_the_chart_adds_the_objects_of_a_folder() {
    let default = rendered(&[]);
    for (folder, values) in OPTIONS {
        let options: Vec<_> = values.iter().flat_map(|value| ["--set", value]).collect();
        let mut added = rendered(&options);
        added.retain(|name, _| !default.contains_key(name));
        assert_same(&added, &kustomized(folder), folder);
    }
    let known = OPTIONS.iter().map(|(folder, _)| *folder).chain(["config/default"]);
    assert_eq!(folders_of_the_chart(), known.map(str::to_owned).collect());
}

/// The folders of `config/` that the chart contains.
fn folders_of_the_chart() -> BTreeSet<String> {
    let files = release::generated::files(workspace()).unwrap();
    let in_chart = files.keys().filter_map(|path| path.strip_prefix("charts/winpool/files").ok());
    let folders = in_chart.filter(|path| path.starts_with("config")).filter_map(Path::parent);
    folders.map(|folder| folder.display().to_string()).collect()
}

#[test]
fn the_objects_are_in_the_namespace_of_the_release() {
    let every_option: Vec<_> =
        OPTIONS.iter().flat_map(|(_, values)| *values).flat_map(|value| ["--set", value]).collect();
    let arguments = [&["template", "winpool", "charts/winpool", "--namespace", "windows"], &every_option[..]].concat();
    let text = helm(&arguments).unwrap();
    assert!(!text.contains("winpool-system"), "{text}");
    let objects = parsed(&text);
    let agents = &objects[AGENTS]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(variable(agents, "WINPOOL_NAMESPACE"), "windows", "where agents read their configurations");
    let namespaces: BTreeSet<_> =
        objects.values().filter_map(|object| object["metadata"]["namespace"].as_str()).collect();
    assert_eq!(namespaces, BTreeSet::from(["default", "kube-node-lease", "kube-system", "windows", "winpool-agent"]));
}

#[test]
fn helm_test_runs_the_image_of_the_operator_as_the_operator_and_is_not_selected_as_one() {
    let text = helm(&["template", "winpool", "charts/winpool", "--namespace", "winpool-system"]).unwrap();
    let (tests, operator) = (parsed(&text), rendered(&[]));
    let pod = &tests["Pod/winpool-system/winpool-test"];
    assert_eq!(tests.len(), operator.len() + 1);
    assert_eq!(pod["metadata"]["annotations"]["helm.sh/hook"], "test");
    assert_ne!(pod["metadata"]["labels"]["app.kubernetes.io/name"], "winpool");
    let of = &operator[OPERATOR]["spec"]["template"]["spec"];
    for field in ["serviceAccountName", "securityContext", "nodeSelector", "tolerations"] {
        assert_eq!(pod["spec"][field], of[field], "{field}");
    }
    assert_eq!(pod["spec"]["containers"][0]["image"], of["containers"][0]["image"]);
}

const OPERATOR: &str = "Deployment/winpool-system/winpool";
const AGENTS: &str = "DaemonSet/winpool-agent/winpool-agent";

/// An object with these values, in parts: spec, pod, container.
fn parts(object: &str, values: &[&str]) -> (Value, Value, Value) {
    let options: Vec<_> = values.iter().flat_map(|value| ["--set-json", value]).collect();
    let spec = rendered(&options)[object]["spec"].clone();
    let pod = spec["template"]["spec"].clone();
    let container = pod["containers"][0].clone();
    (spec, pod, container)
}

/// The value of an environment variable of the container.
fn variable(container: &Value, name: &str) -> Value {
    let all = container["env"].as_array().unwrap();
    all.iter().find(|variable| variable["name"] == name).map_or(Value::Null, |variable| variable["value"].clone())
}

#[test]
fn values_change_the_deployment() {
    let values = [
        "replicas=3",
        r#"image={"repository":"r.example/w","tag":"1.2.3","pullPolicy":"Always"}"#,
        r#"imagePullSecrets=[{"name":"pull"}]"#,
        r#"resources={"limits":{"memory":"1Gi"}}"#,
        r#"nodeSelector={"disk":"fast"}"#,
        "tolerations=[]",
        r#"affinity={"nodeAffinity":{}}"#,
        r#"priorityClassName="system-cluster-critical""#,
        r#"log={"format":"text","level":"debug"}"#,
        r#"otlp={"endpoint":"http://collector:4317"}"#,
        r#"env=[{"name":"HTTPS_PROXY","value":"http://proxy:3128"}]"#,
        "registry=false",
        "pullSecrets=true",
        "storage=true",
        r#"allow={"hosts":["mirror.example","http://*.corp.example:5000"],"labelPrefixes":["node-role.kubernetes.io/windows"]}"#,
    ];
    let (spec, pod, container) = parts(OPERATOR, &values);
    assert_eq!(spec["replicas"], 3);
    assert_eq!((&container["image"], &container["imagePullPolicy"]), (&json!("r.example/w:1.2.3"), &json!("Always")));
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "pull"}]));
    // Helm merges maps: a value replaces the default of the same key.
    let resources = json!({"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}});
    assert_eq!(container["resources"], resources);
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux", "disk": "fast"}));
    assert_eq!(pod["tolerations"], Value::Null);
    assert_eq!(pod["affinity"], json!({"nodeAffinity": {}}));
    assert_eq!(pod["priorityClassName"], "system-cluster-critical");
    for (name, expected) in [
        ("WINPOOL_LOG_FORMAT", json!("text")),
        ("WINPOOL_LOG", json!("debug")),
        ("WINPOOL_REGISTRY", json!("off")),
        ("WINPOOL_WORKLOADS", Value::Null),
        ("WINPOOL_PULL_SECRETS", json!("true")),
        ("WINPOOL_STORAGE", json!("true")),
        ("WINPOOL_ALLOW_HOSTS", json!("mirror.example,http://*.corp.example:5000")),
        ("WINPOOL_ALLOW_LABEL_PREFIXES", json!("node-role.kubernetes.io/windows")),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", json!("http://collector:4317")),
        ("HTTPS_PROXY", json!("http://proxy:3128")),
    ] {
        assert_eq!(variable(&container, name), expected, "{name}");
    }
    let digest = format!("sha256:{}", "a1".repeat(32));
    let image = format!(r#"image={{"tag":"1.2.3","digest":"{digest}"}}"#);
    let (_, _, container) = parts(OPERATOR, &[&image, "workloads=false"]);
    assert_eq!(container["image"], format!("{}@{digest}", repository()));
    assert_eq!(variable(&container, "WINPOOL_WORKLOADS"), "off");
}

#[test]
fn values_change_the_agents() {
    let agent = r#"agent={"enabled":true,"image":{"repository":"r.example/a","tag":"1.2.3","pullPolicy":"Always"},
        "imagePullSecrets":[{"name":"pull"}],"resources":{"limits":{"memory":"1Gi"}},"nodeSelector":{"disk":"fast"},
        "tolerations":[],"log":{"level":"debug"}}"#;
    let (_, pod, container) = parts(AGENTS, &[agent, r#"allow={"hosts":["mirror.example"]}"#]);
    assert_eq!((&container["image"], &container["imagePullPolicy"]), (&json!("r.example/a:1.2.3"), &json!("Always")));
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "pull"}]));
    let resources = json!({"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}});
    assert_eq!(container["resources"], resources);
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "windows", "disk": "fast"}));
    assert_eq!(pod["tolerations"], Value::Null);
    assert_eq!(variable(&container, "WINPOOL_LOG"), "debug");
    assert_eq!(variable(&container, "WINPOOL_ALLOW_HOSTS"), "mirror.example");
    let digest = format!("sha256:{}", "a1".repeat(32));
    let agent = format!(r#"agent={{"enabled":true,"image":{{"digest":"{digest}"}}}}"#);
    let (_, _, container) = parts(AGENTS, &[&agent]);
    assert_eq!(container["image"], format!("{}-agent@{digest}", repository()));
}

#[test]
fn without_crds_and_workload_checks_the_chart_has_neither_crds_nor_permissions_to_read_pods() {
    let objects = rendered(&["--set", "workloads=false", "--set", "crds.enabled=false"]);
    let removed =
        ["ClusterRole//winpool-workloads", "ClusterRoleBinding//winpool-workloads", "CustomResourceDefinition/"];
    assert!(
        !objects.keys().any(|name| removed.iter().any(|removed| name.starts_with(removed))),
        "{:?}",
        objects.keys()
    );
}

#[test]
fn wrong_values_are_rejected() {
    for (value, part) in [
        ("replica=2", "replica"),
        ("replicas=\"two\"", "/replicas"),
        ("log={\"format\":\"yaml\"}", "/log/format"),
        ("otlp={\"endpoint\":\"collector:4317\"}", "/otlp/endpoint"),
        ("clusterAPI={\"enabled\":true,\"namespaces\":[]}", "/clusterAPI/namespaces"),
        ("agent={\"image\":\"registry.example/winpool-agent:latest\"}", "/agent/image"),
        ("agent={\"image\":{\"digest\":\"latest\"}}", "/agent/image/digest"),
        ("allow={\"hosts\":[\"https://mirror.example\"]}", "/allow/hosts/0"),
        ("allow={\"labelPrefixes\":[\"node-role.kubernetes.io\"]}", "/allow/labelPrefixes/0"),
    ] {
        let error = helm(&["template", "winpool", "charts/winpool", "--set-json", value]).unwrap_err();
        assert!(error.contains(part), "{value}: {error}");
    }
}

#[test]
fn the_package_of_a_release_is_the_chart_with_the_image_of_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("winpool.tgz");
    let [operator, agent] = ["a1", "b2"].map(|byte| format!("sha256:{}", byte.repeat(32)));
    let digests = [operator.as_str(), &agent];
    let package = |repository: &str| release::chart::package(workspace(), repository, digests, 1_700_000_000).unwrap();
    std::fs::write(&file, package(&repository())).unwrap();
    let arguments = ["template", "winpool", file.to_str().unwrap(), "--namespace", "winpool-system", "--skip-tests"];
    let digest = format!("image.digest={operator}");
    assert_same(&parsed(&helm(&arguments).unwrap()), &rendered(&["--set", &digest]), "the package");
    std::fs::write(&file, package("ghcr.io/example/winpool")).unwrap();
    let objects = parsed(&helm(&[&arguments[..], &["--set", "agent.enabled=true"]].concat()).unwrap());
    for (object, image) in [(OPERATOR, format!("winpool@{operator}")), (AGENTS, format!("winpool-agent@{agent}"))] {
        let container = &objects[object]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], format!("ghcr.io/example/{image}"));
    }
}

#[test]
fn helm_lint_accepts_the_chart() {
    helm(&["lint", "charts/winpool", "--strict"]).unwrap();
}

#[tokio::test]
async fn every_object_has_only_fields_that_the_api_server_knows() {
    let control_plane = ControlPlane::start_installed(Options::api_server_only()).await.unwrap();
    let minor = control_plane.version().minor;
    // In a dry run the server checks that namespaces exist.
    let apply = |object: &Value, options: &[&str]| {
        let arguments = [&["apply", "--validate=true", "-f", "-"], options].concat();
        kubectl_with_input(&control_plane, User::Admin, &arguments, &object.to_string())
    };
    let folders = OPTIONS.iter().map(|(folder, _)| *folder).chain(["config/default"]);
    let objects: Objects = folders.flat_map(kustomized).chain(namespace()).collect();
    for namespace in objects.values().filter(|object| object["kind"] == "Namespace") {
        apply(namespace, &[]).unwrap();
    }
    let unknown = |object: &Value| match object["kind"].as_str().unwrap() {
        "MutatingAdmissionPolicy" | "MutatingAdmissionPolicyBinding" => minor < FIRST_WITH_MUTATING.0,
        _ => object["apiVersion"].as_str().unwrap().starts_with("monitoring.coreos.com/"),
    };
    let known: Vec<&Value> = objects.values().filter(|object| !unknown(object)).collect();
    assert!(known.len() >= 25, "{}", known.len());
    apply(&json!({ "apiVersion": "v1", "kind": "List", "items": known }), &["--dry-run=server"]).unwrap();

    let mut wrong = objects[OPERATOR].clone();
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = json!({});
    let error = apply(&wrong, &["--dry-run=server"]).unwrap_err().to_string();
    assert!(error.contains("livenesProbe"), "{error}");
}

/// They meet the Pod Security Standard `restricted`.
#[tokio::test]
async fn the_pods_of_every_way_of_installation_are_admitted_by_their_namespace_that_enforces_the_restricted_standard() {
    let control_plane = ControlPlane::start_installed(Options::api_server_only()).await.unwrap();
    let pod = |objects: &Objects| {
        let spec = &objects[OPERATOR]["spec"]["template"]["spec"];
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "winpool"}, "spec": spec})
    };
    let requests = Requests::to(&control_plane).await.unwrap();
    let create = async |pod: Value| {
        let (status, body) = requests.create("/api/v1/namespaces/winpool-system/pods?dryRun=All", &pod).await.unwrap();
        (status, body["message"].as_str().unwrap_or_default().to_owned())
    };
    let values = r#"metrics={"tlsSecret":"tls"}"#;
    let ways = [kustomized("config/default"), rendered(&[]), rendered(&["--set-json", values])];
    for objects in &ways {
        assert_eq!(create(pod(objects)).await, (201, String::new()));
    }
    let mut privileged = pod(&ways[0]);
    privileged["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    let (status, message) = create(privileged).await;
    assert!(status == 403 && message.contains("allowPrivilegeEscalation"), "{status} {message}");
}
