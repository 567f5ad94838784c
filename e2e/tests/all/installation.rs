//! Installation and removal by each of the ways in docs/install.md, and the objects that they have in common.

use std::{collections::BTreeMap, process::Command};

use e2e::{
    assets::{self, Assets},
    control_plane::{ControlPlane, User},
    operator::workspace,
};
use release::manifest::OperatorImage;
use serde_json::Value;

mod files;
mod images;
mod objects;
mod pods;
mod release_files;
mod removal;
mod upgrade;
mod ways;

/// Objects by kind, namespace and name.
type Objects = BTreeMap<String, Value>;

/// The objects in YAML documents.
fn parsed(yaml: &str) -> Objects {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    let documents = documents.into_iter().filter(|document| !document.is_null()).map(with_integers);
    let key = |object: &Value| {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        [&object["kind"], &object["metadata"]["namespace"], &object["metadata"]["name"]].map(text).join("/")
    };
    let objects: Vec<_> = documents.map(|object| (key(&object), object)).collect();
    let count = objects.len();
    let objects: Objects = objects.into_iter().collect();
    assert_eq!(objects.len(), count, "an object is there twice");
    objects
}

/// Old kustomize writes 1000000 as 1e+06.
fn with_integers(value: Value) -> Value {
    match value {
        #[allow(clippy::cast_possible_truncation)]
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 => (float as i64).into(),
            _ => number.into(),
        },
        Value::Array(list) => list.into_iter().map(with_integers).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, with_integers(value))).collect(),
        other => other,
    }
}

/// The objects of a folder of the repository, as the kubectl of the control plane builds them.
fn kustomized(folder: &str) -> Objects {
    let output = Command::new(&Assets::locate().unwrap().kubectl)
        .arg("kustomize")
        .arg(workspace().join(folder))
        .output()
        .unwrap();
    let warnings = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && warnings.is_empty(), "{folder}: {warnings}");
    parsed(&String::from_utf8(output.stdout).unwrap())
}

/// What helm prints; its errors if it fails.
fn helm(arguments: &[&str]) -> Result<String, String> {
    run(Command::new(assets::program("helm").unwrap()).args(arguments))
}

/// As [`helm`], in a cluster.
fn helm_in(control_plane: &ControlPlane, arguments: &[&str]) -> Result<String, String> {
    let kubeconfig = control_plane.kubeconfig(User::Admin);
    run(Command::new(assets::program("helm").unwrap()).args(arguments).env("KUBECONFIG", kubeconfig))
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.current_dir(workspace()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// The name of the operator's image without a tag, which the owner sets in `config/default`.
fn repository() -> String {
    OperatorImage::read(workspace()).unwrap().repository
}

/// The path of `install.yaml`.
fn install_yaml() -> String {
    workspace().join("install.yaml").display().to_string()
}
