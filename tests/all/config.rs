//! The properties of the manifests in `config/`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use clap::CommandFactory;
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    apps::v1::DaemonSet,
    policy::v1::PodDisruptionBudget,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use walkdir::{DirEntry, WalkDir};
use winpool::commands::Cli;
use winpool_api::{WindowsNodePool, WindowsRuntimeProfile, names::DEFAULT_NAMESPACE};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The documents of a YAML file.
fn documents(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The paths that a kustomization lists under a key.
fn listed(folder: &Path, key: &str) -> Vec<PathBuf> {
    let all = documents(&folder.join("kustomization.yaml"));
    let names = all[0][key].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.map(|name| folder.join(name)).collect()
}

/// Every document of a kustomization.
fn kustomized(folder: &Path) -> Vec<Value> {
    listed(folder, "resources").into_iter().flat_map(|file| documents(&file)).collect()
}

/// The documents of a kind in `config/default`.
fn shipped(kind: &str) -> Vec<Value> {
    kustomized(&folder("config/default")).into_iter().filter(|object| object["kind"] == kind).collect()
}

/// The roles of the operator among those of `config/default`.
fn operator_roles(kind: &str) -> Vec<Value> {
    let of_users = documents(&folder("config/default/user_roles.yaml"));
    shipped(kind).into_iter().filter(|role| !of_users.contains(role)).collect()
}

fn folders_below(folder: &Path) -> Vec<PathBuf> {
    WalkDir::new(folder).into_iter().flatten().map(DirEntry::into_path).filter(|path| path.is_dir()).collect()
}

/// The fields of a kustomization that are used, which every kustomize supports.
const FIELDS: [&str; 6] = ["apiVersion", "configMapGenerator", "generatorOptions", "images", "kind", "resources"];

#[test]
fn every_file_is_listed_once_with_fields_that_every_kustomize_supports() {
    for folder in folders_below(&folder("config")).iter().filter(|path| path.join("kustomization.yaml").exists()) {
        let kustomization = &documents(&folder.join("kustomization.yaml"))[0];
        let keys = kustomization.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        assert!(keys.into_iter().all(|key| FIELDS.contains(&key)), "{}", folder.display());
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.is_file() && !path.ends_with("kustomization.yaml"));
        let generators = kustomization["configMapGenerator"].as_array().into_iter().flatten();
        let sources = generators.flat_map(|generator| generator["files"].as_array().into_iter().flatten());
        let sources = sources.map(|name| folder.join(name.as_str().unwrap()));
        let all = listed(folder, "resources").into_iter().chain(sources).collect();
        assert_eq!(files.collect::<BTreeSet<_>>(), all, "{}", folder.display());
    }
}

#[test]
fn the_objects_that_the_removal_of_the_operator_deletes_have_its_label_and_others_do_not() {
    let label = |object: &Value| object["metadata"]["labels"]["app.kubernetes.io/name"].clone();
    let operator = kustomized(&folder("config/default"));
    for object in &operator {
        let kind = object["kind"].as_str().unwrap();
        assert!(!["CustomResourceDefinition", "Namespace"].contains(&kind), "{object}");
        assert_eq!(label(object), "winpool", "{object}");
    }
    assert!(operator.len() >= 8);
    for object in kustomized(&folder("crds")).iter().chain(&documents(&folder("config/namespace.yaml"))) {
        assert_eq!(label(object), Value::Null, "{object}");
    }
}

#[test]
fn the_images_have_the_version_of_the_program_and_the_agents_name_follows_from_the_operators() {
    let images = |name: &str| documents(&folder(name).join("kustomization.yaml"))[0]["images"].clone();
    for (folder, name) in [("config/default", "winpool"), ("config/agent", "winpool-agent")] {
        let expected = json!([
            {"name": name, "newName": format!("registry.example/{name}"), "newTag": env!("CARGO_PKG_VERSION")}
        ]);
        assert_eq!(images(folder), expected);
    }
    assert_eq!(pods()[0]["containers"][0]["image"], "winpool");
}

#[test]
fn the_operator_has_exactly_these_permissions() {
    let all = ["list", "watch", "create", "patch", "delete"];
    let read = ["list", "watch"];
    let wanted = [
        ("*", "", "nodes", [&read[..], &["patch"]].concat()),
        ("*", "node.k8s.io", "runtimeclasses", all.to_vec()),
        ("*", "winpool.dev", "windowsnodepools", [&read[..], &["patch"]].concat()),
        ("*", "winpool.dev", "windowsruntimeprofiles", read.to_vec()),
        ("*", "winpool.dev", "windowsnodeconfigs", read.to_vec()),
        ("*", "winpool.dev", "windowsnodepools/status", vec!["patch"]),
        ("*", "winpool.dev", "windowsruntimeprofiles/status", vec!["patch"]),
        ("*", "authentication.k8s.io", "tokenreviews", vec!["create"]),
        ("*", "authorization.k8s.io", "subjectaccessreviews", vec!["create"]),
        (
            "*",
            "apiextensions.k8s.io",
            "customresourcedefinitions/windowsnodepools.winpool.dev,windowsruntimeprofiles.winpool.dev,\
             windowsnodeconfigs.winpool.dev alone",
            vec!["get"],
        ),
        (DEFAULT_NAMESPACE, "", "configmaps", vec!["list", "watch", "create", "patch", "delete"]),
        (DEFAULT_NAMESPACE, "", "secrets", vec!["create"]),
        (DEFAULT_NAMESPACE, "", "secrets/winpool-ownership alone", vec!["get"]),
        (DEFAULT_NAMESPACE, "coordination.k8s.io", "leases", vec!["create"]),
        (DEFAULT_NAMESPACE, "coordination.k8s.io", "leases/winpool alone", vec!["get", "update"]),
        ("default", "events.k8s.io", "events", vec!["create", "patch"]),
        ("*", "", "limitranges", vec!["list", "watch"]),
        ("*", "", "pods", vec!["list", "watch"]),
        ("*", "", "services", vec!["list", "watch"]),
        ("*", "apps", "daemonsets", vec!["list", "watch"]),
        ("*", "apps", "deployments", vec!["list", "watch"]),
        ("*", "apps", "statefulsets", vec!["list", "watch"]),
        ("*", "batch", "jobs", vec!["list", "watch"]),
        ("*", "", "events", vec!["list", "watch"]),
        ("*", "events.k8s.io", "events", vec!["create", "patch"]),
    ];
    let roles = [operator_roles("ClusterRole"), operator_roles("Role")].concat();
    let granted = granted(&roles);
    let wanted = wanted.map(|(namespace, group, resource, verbs)| json!([namespace, group, resource, verbs]));
    assert_eq!(sorted(granted), sorted(wanted.to_vec()));
}

#[test]
fn users_can_view_all_resources_and_edit_those_that_people_write() {
    let roles = documents(&folder("config/default/user_roles.yaml"));
    let found: Vec<Value> =
        roles.iter().map(|role| json!([role["metadata"]["name"], role["metadata"]["labels"], role["rules"]])).collect();
    let labels = |aggregate: &str| json!({"app.kubernetes.io/name": "winpool", aggregate: "true"});
    let view = json!({
        "apiGroups": ["winpool.dev"],
        "resources": ["windowsnodepools", "windowsruntimeprofiles", "windowsnodeconfigs"],
        "verbs": ["get", "list", "watch"],
    });
    let edit = json!({
        "apiGroups": ["winpool.dev"],
        "resources": ["windowsnodepools", "windowsruntimeprofiles"],
        "verbs": ["create", "update", "patch", "delete", "deletecollection"],
    });
    let expected = [
        json!(["winpool-view", labels("rbac.authorization.k8s.io/aggregate-to-view"), [view]]),
        json!(["winpool-edit", labels("rbac.authorization.k8s.io/aggregate-to-edit"), [edit]]),
        json!([
            "winpool-metrics-reader",
            {"app.kubernetes.io/name": "winpool"},
            [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        ]),
    ];
    assert_eq!(found, expected);
}

/// The name of a container's port, and its number.
fn ports(container: &Value) -> Vec<(&str, u64)> {
    let ports = container["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| Some((port["name"].as_str()?, port["containerPort"].as_u64()?))).collect()
}

#[test]
fn prometheus_reads_the_port_that_requires_a_token_as_a_user_who_may_only_read_metrics() {
    assert_eq!(ports(&pods()[0]["containers"][0]), [("admin", 8080), ("metrics", 8443)]);
    let all = kustomized(&folder("config/prometheus"));
    let of = |kind: &str| all.iter().find(|object| object["kind"] == kind).unwrap();
    assert_eq!(of("Service")["spec"]["ports"], json!([{"name": "metrics", "port": 8443, "targetPort": "metrics"}]));
    let [endpoint] = of("ServiceMonitor")["spec"]["endpoints"].as_array().unwrap().as_slice() else { panic!() };
    assert_eq!((&endpoint["port"], &endpoint["scheme"]), (&json!("metrics"), &json!("https")));
    let name = json!("winpool-metrics-reader");
    assert_eq!(endpoint["authorization"]["credentials"], json!({"name": name, "key": "token"}));
    assert_eq!(of("Secret")["metadata"]["annotations"]["kubernetes.io/service-account.name"], name);
    for object in [of("ServiceAccount"), of("Secret"), of("ClusterRoleBinding")] {
        assert_eq!(object["metadata"]["name"], name);
    }
    assert_eq!(of("ClusterRoleBinding")["roleRef"]["name"], name);
    assert_eq!(of("ClusterRoleBinding")["subjects"][0]["name"], name);
}

fn sorted(rules: Vec<Value>) -> BTreeSet<String> {
    rules.into_iter().map(|rule| rule.to_string()).collect()
}

/// Namespace, group, resource and verbs for each resource that roles grant.
fn granted<'r>(roles: impl IntoIterator<Item = &'r Value>) -> Vec<Value> {
    let mut granted = Vec::new();
    for role in roles {
        let namespace = role["metadata"]["namespace"].as_str().unwrap_or("*");
        for rule in role["rules"].as_array().into_iter().flatten() {
            let fields = ["apiGroups", "resources", "resourceNames", "verbs"];
            assert!(rule.as_object().unwrap().keys().all(|field| fields.contains(&field.as_str())), "{rule}");
            let names: Vec<_> =
                rule["resourceNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let alone = if names.is_empty() { String::new() } else { format!("/{} alone", names.join(",")) };
            for group in rule["apiGroups"].as_array().into_iter().flatten() {
                for resource in rule["resources"].as_array().into_iter().flatten() {
                    let resource = format!("{}{alone}", resource.as_str().unwrap());
                    granted.push(json!([namespace, group, resource, rule["verbs"]]));
                }
            }
        }
    }
    granted
}

#[test]
fn every_role_is_bound_only_to_the_service_account_of_the_operator() {
    let account = json!([{"kind": "ServiceAccount", "name": "winpool", "namespace": DEFAULT_NAMESPACE}]);
    for (role, binding) in [("ClusterRole", "ClusterRoleBinding"), ("Role", "RoleBinding")] {
        let names = |objects: &[Value]| objects.iter().map(|object| object["metadata"].clone()).collect::<Vec<_>>();
        assert_eq!(names(&operator_roles(role)), names(&shipped(binding)));
        for object in shipped(binding) {
            assert_eq!(object["subjects"], account);
            assert_eq!(
                (&object["roleRef"]["kind"], &object["roleRef"]["name"]),
                (&json!(role), &object["metadata"]["name"])
            );
        }
    }
    let [pod] = &pods()[..] else { panic!("one Deployment") };
    assert_eq!(pod["serviceAccountName"], "winpool");
}

/// The Pods that `config/default` runs.
fn pods() -> Vec<Value> {
    shipped("Deployment").into_iter().map(|deployment| deployment["spec"]["template"]["spec"].clone()).collect()
}

#[test]
fn the_operator_runs_under_the_restricted_pod_security_standard() {
    let [namespace] = &documents(&folder("config/namespace.yaml"))[..] else { panic!("one Namespace") };
    assert_eq!(namespace["metadata"]["name"], DEFAULT_NAMESPACE);
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    for pod in pods() {
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"], json!({"type": "RuntimeDefault"}));
        for field in ["hostNetwork", "hostPID", "hostIPC", "volumes"] {
            assert!(pod.get(field).is_none(), "{field}");
        }
        for container in pod["containers"].as_array().into_iter().flatten() {
            let wanted = json!({
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "runAsNonRoot": true,
                "capabilities": {"drop": ["ALL"]},
            });
            assert_eq!(container["securityContext"], wanted);
            assert!(container["resources"]["limits"]["memory"].is_string());
        }
    }
}

#[test]
fn the_operator_runs_only_on_linux_and_with_two_replicas() {
    let [deployment] = &shipped("Deployment")[..] else { panic!("one Deployment") };
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(deployment["spec"]["template"]["spec"]["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    let service = &documents(&folder("config/prometheus/service.yaml"))[0];
    assert_eq!(service["spec"]["selector"], deployment["spec"]["selector"]["matchLabels"]);
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], deployment["spec"]["template"]["metadata"]["labels"]);
}

#[test]
fn the_deployment_sets_only_arguments_and_variables_of_winpool_run() {
    let cli = Cli::command();
    let run = cli.find_subcommand("run").unwrap();
    let known = run.get_arguments().filter_map(|argument| argument.get_env()?.to_str()).collect::<BTreeSet<_>>();
    for container in pods()[0]["containers"].as_array().unwrap() {
        assert_eq!(container["args"], json!(["run"]));
        let set = container["env"].as_array().unwrap().iter().map(|variable| variable["name"].as_str().unwrap());
        let unknown = set.filter(|name| !known.contains(name)).collect::<Vec<_>>();
        assert!(unknown.is_empty(), "{unknown:?}");
        let arguments = ["winpool", "run", "--admin-address", container["env"][1]["value"].as_str().unwrap()];
        cli.clone().try_get_matches_from(arguments).unwrap();
        let port = &container["ports"][0];
        for probe in ["livenessProbe", "readinessProbe"] {
            assert_eq!(container[probe]["httpGet"]["port"], port["name"], "{probe}");
        }
    }
}

#[test]
fn samples_match_the_types_and_quote_the_windows_version() {
    let samples = fs::read_dir(folder("config/samples")).unwrap().map(|entry| entry.unwrap().path());
    let samples = samples.filter(|path| path.is_file()).collect::<Vec<_>>();
    for file in &samples {
        let text = fs::read_to_string(file).unwrap();
        for line in text.lines().filter(|line| line.contains("windowsVersion:")) {
            let value = line.split(": ").nth(1).unwrap_or_default();
            assert!(value.starts_with('"') && value.ends_with('"'), "{}: {line}", file.display());
        }
        for object in documents(file) {
            let typed = match object["kind"].as_str() {
                Some("WindowsNodePool") => {
                    serde_json::from_value::<WindowsNodePool>(object.clone()).map(|pool| json!(pool))
                }
                _ => serde_json::from_value::<WindowsRuntimeProfile>(object.clone()).map(|profile| json!(profile)),
            };
            let typed = typed.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(contains(&typed, &object), "{}: a field that no type has:\n{object}\n{typed}", file.display());
        }
    }
    assert!(samples.len() >= 4);
}

/// Whether everything in `part` is in `whole`, with the same value.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|found| contains(found, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        _ => whole == part,
    }
}

/// The fields that the type `K` of the Kubernetes API has.
fn typed<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let name = &object["metadata"]["name"];
    json!(serde_json::from_value::<K>(object.clone()).unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// Kinds that the oldest supported API server does not know, or not with all fields: end-to-end tests check the others there.
#[test]
fn objects_for_newer_api_servers_have_only_fields_of_their_types() {
    let types: [(&str, fn(&Value) -> Value); 4] = [
        ("DaemonSet", typed::<DaemonSet>),
        ("PodDisruptionBudget", typed::<PodDisruptionBudget>),
        ("ValidatingAdmissionPolicy", typed::<ValidatingAdmissionPolicy>),
        ("ValidatingAdmissionPolicyBinding", typed::<ValidatingAdmissionPolicyBinding>),
    ];
    let objects: Vec<_> =
        ["config/agent", "config/disruption-budget"].into_iter().flat_map(|name| kustomized(&folder(name))).collect();
    for (kind, typed) in types {
        let of_kind: Vec<_> = objects.iter().filter(|object| object["kind"] == kind).collect();
        assert!(!of_kind.is_empty(), "{kind}");
        for object in of_kind {
            assert!(contains(&typed(object), object), "{kind}: a field that the type does not have:\n{object}");
        }
    }
}

#[test]
fn a_missing_or_changed_field_is_detected() {
    let whole = json!({"a": [{"b": 1, "c": 2}]});
    assert!(contains(&whole, &json!({"a": [{"b": 1}]})));
    for part in [json!({"x": 1}), json!({"a": [{"b": 2}]}), json!({"a": []}), json!({"a": [{"x": 1}]})] {
        assert!(!contains(&whole, &part), "{part}");
    }
}

/// The documents of a kind in `config/agent`.
fn of_agents(kind: &str) -> Vec<Value> {
    kustomized(&folder("config/agent")).into_iter().filter(|object| object["kind"] == kind).collect()
}

#[test]
fn agents_and_the_operator_get_these_rights_in_the_overlay_and_nothing_else() {
    let wanted = [
        // The agents.
        ("*", "winpool.dev", "windowsnodeconfigs", vec!["list", "watch"]),
        ("*", "winpool.dev", "windowsnodeconfigs/status", vec!["patch"]),
        ("*", "", "nodes", vec!["get"]),
        ("*", "", "nodes/configz", vec!["get"]),
        (DEFAULT_NAMESPACE, "", "configmaps", vec!["get"]),
        ("kube-node-lease", "coordination.k8s.io", "leases", vec!["get"]),
        // The operator.
        ("*", "winpool.dev", "windowsnodeconfigs", vec!["create", "patch", "delete"]),
        ("*", "", "pods/eviction", vec!["create"]),
    ];
    let granted = granted(of_agents("ClusterRole").iter().chain(&of_agents("Role")));
    let wanted = wanted.map(|(namespace, group, resource, verbs)| json!([namespace, group, resource, verbs]));
    assert_eq!(sorted(granted), sorted(wanted.to_vec()));
}

#[test]
fn each_role_of_the_overlay_is_bound_to_the_account_that_it_is_for() {
    let account =
        |name: &str, namespace: &str| json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
    for (role, binding) in [("ClusterRole", "ClusterRoleBinding"), ("Role", "RoleBinding")] {
        let names = |kind| of_agents(kind).iter().map(|object| object["metadata"].clone()).collect::<Vec<_>>();
        assert_eq!(names(role), names(binding));
        for object in of_agents(binding) {
            let name = object["metadata"]["name"].as_str().unwrap();
            let subjects = match name {
                "winpool-agent" => account("winpool-agent", "winpool-agent"),
                _ => account("winpool", DEFAULT_NAMESPACE),
            };
            assert_eq!(object["subjects"], subjects, "{name}");
            assert_eq!((&object["roleRef"]["kind"], &object["roleRef"]["name"]), (&json!(role), &json!(name)));
        }
    }
    let [account] = &of_agents("ServiceAccount")[..] else { panic!("one ServiceAccount") };
    assert_eq!(account["metadata"], json!({"name": "winpool-agent", "namespace": "winpool-agent"}));
}

#[test]
fn an_agent_runs_as_system_on_every_windows_node() {
    let [daemon_set] = &of_agents("DaemonSet")[..] else { panic!("one DaemonSet") };
    let spec = &daemon_set["spec"];
    let pod = &spec["template"]["spec"];
    assert_eq!(daemon_set["metadata"]["namespace"], "winpool-agent");
    assert_eq!(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]);
    assert_eq!(pod["serviceAccountName"], "winpool-agent");
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "windows"}));
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod["hostNetwork"], true);
    let options = json!({"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"});
    assert_eq!(pod["securityContext"], json!({"windowsOptions": options}));
    let [container] = &pod["containers"].as_array().unwrap()[..] else { panic!("one container") };
    assert_eq!(container["image"], "winpool-agent");
    assert_eq!((&container["command"], &container["args"]), (&json!(["winpool-agent.exe"]), &json!(["run"])));
    let node_name = json!([{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]);
    assert_eq!(container["env"], node_name);
    let [namespace] = &of_agents("Namespace")[..] else { panic!("one Namespace") };
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "privileged");
}

#[test]
fn every_policy_of_the_overlay_is_bound_and_denies() {
    let names = |kind, name: fn(&Value) -> &Value| {
        of_agents(kind).iter().map(|object| name(object).to_string()).collect::<BTreeSet<_>>()
    };
    let policies = names("ValidatingAdmissionPolicy", |policy| &policy["metadata"]["name"]);
    assert_eq!(policies.len(), 3);
    assert_eq!(names("ValidatingAdmissionPolicyBinding", |binding| &binding["spec"]["policyName"]), policies);
    for binding in of_agents("ValidatingAdmissionPolicyBinding") {
        assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
    }
}
