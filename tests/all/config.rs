//! The properties of the manifests in `config/`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use clap::CommandFactory;
use serde_json::{Value, json};
use winpool::Cli;
use winpool_api::names::DEFAULT_NAMESPACE;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The documents of a YAML file.
fn documents(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Every document of a kustomization.
fn kustomized(folder: &Path) -> Vec<Value> {
    let all = documents(&folder.join("kustomization.yaml"));
    let names = all[0]["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.flat_map(|name| documents(&folder.join(name))).collect()
}

/// The documents of a kind in a kustomization.
fn shipped(place: &str, kind: &str) -> Vec<Value> {
    kustomized(&folder(place)).into_iter().filter(|object| object["kind"] == kind).collect()
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
    let operator = images("config/default")[0]["newName"].as_str().unwrap().to_owned();
    for (folder, name) in [("config/default", operator.clone()), ("config/agent", format!("{operator}-agent"))] {
        let image = name.rsplit_once('/').unwrap().1;
        let expected = json!([{"name": image, "newName": name, "newTag": env!("CARGO_PKG_VERSION")}]);
        assert_eq!(images(folder), expected);
    }
    assert_eq!(pods()[0]["containers"][0]["image"], "winpool");
}

#[test]
fn every_role_is_bound_only_to_the_account_that_it_is_for() {
    let of_users = documents(&folder("config/default/user_roles.yaml"));
    for place in ["config/default", "config/agent"] {
        for (role, binding) in [("ClusterRole", "ClusterRoleBinding"), ("Role", "RoleBinding")] {
            let roles = shipped(place, role).into_iter().filter(|role| !of_users.contains(role));
            let bindings = shipped(place, binding);
            let names = bindings.iter().map(|binding| binding["metadata"].clone());
            assert!(roles.map(|role| role["metadata"].clone()).eq(names), "{place}: {role}");
            for object in &bindings {
                let name = &object["metadata"]["name"];
                let (account, namespace) = match name.as_str().unwrap() {
                    "winpool-agent" => ("winpool-agent", "winpool-agent"),
                    _ => ("winpool", DEFAULT_NAMESPACE),
                };
                let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
                assert_eq!(object["subjects"], subjects, "{name}");
                assert_eq!((&object["roleRef"]["kind"], &object["roleRef"]["name"]), (&json!(role), name));
            }
        }
    }
    let [pod] = &pods()[..] else { panic!("one Deployment") };
    assert_eq!(pod["serviceAccountName"], "winpool");
    let [account] = &shipped("config/agent", "ServiceAccount")[..] else { panic!("one ServiceAccount") };
    assert_eq!(account["metadata"], json!({"name": "winpool-agent", "namespace": "winpool-agent"}));
}

/// The Pods that `config/default` runs.
fn pods() -> Vec<Value> {
    shipped("config/default", "Deployment")
        .into_iter()
        .map(|deployment| deployment["spec"]["template"]["spec"].clone())
        .collect()
}

#[test]
fn the_operator_runs_only_on_linux_and_with_two_replicas() {
    let [deployment] = &shipped("config/default", "Deployment")[..] else { panic!("one Deployment") };
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
