//! The Helm chart: its version, its values and their documentation. `e2e/tests/all/installation` renders it with helm.

use std::{env, fs, path::PathBuf};

use serde_json::{Value, json};
use winpool_api::custom_resource_definitions;

fn chart(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("charts/winpool").join(file)
}

fn read(file: &str) -> String {
    fs::read_to_string(chart(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn yaml(file: &str) -> Value {
    serde_saphyr::from_str(&read(file)).unwrap()
}

/// Path, default and description of the values in `values.yaml` that have a comment. A value without one is a group of values, or
/// part of the value above.
fn documented() -> Vec<(String, Value, String)> {
    let values = yaml("values.yaml");
    let (mut found, mut comment, mut parents) = (Vec::new(), Vec::new(), Vec::<String>::new());
    for line in read("values.yaml").lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some(text) = line.trim().strip_prefix("# ") {
            comment.push(text.to_owned());
        } else if line.is_empty() {
            comment.clear();
        } else if let Some((key, _)) = line.split_once(':') {
            parents.truncate(indent / 2);
            parents.push(key.trim().to_owned());
            if !comment.is_empty() {
                let default = values.pointer(&format!("/{}", parents.join("/"))).unwrap().clone();
                found.push((parents.join("."), default, comment.join(" ")));
                comment.clear();
            }
        }
    }
    found
}

#[test]
fn the_readme_lists_every_value() {
    let rows = documented()
        .into_iter()
        .map(|(path, default, description)| format!("| `{path}` | `{default}` | {description} |\n"));
    let table = format!("| value | default | meaning |\n|---|---|---|\n{}", rows.collect::<String>());
    let (begin, end) = ("<!-- values: from charts/winpool/values.yaml -->\n", "<!-- end values -->\n");
    let page = read("README.md");
    let (before, rest) = page.split_once(begin).expect("the mark before the table");
    let (found, after) = rest.split_once(end).expect("the mark after the table");
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(chart("README.md"), [before, begin, &table, end, after].concat()).unwrap();
    } else {
        assert!(found == table, "values.yaml has changed: UPDATE_DOCS=1 cargo test --test all chart::");
    }
}

/// The paths of all values below a schema that describes its properties.
fn described(schema: &Value, path: &str) -> Vec<String> {
    let Some(properties) = schema["properties"].as_object() else { return vec![path.to_owned()] };
    assert_eq!(schema["additionalProperties"], false, "{path}: a misspelled value is not rejected");
    let join = |key: &String| if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
    properties.iter().flat_map(|(key, schema)| described(schema, &join(key))).collect()
}

#[test]
fn the_schema_has_exactly_the_documented_values() {
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let mut expected: Vec<_> = documented().into_iter().map(|(path, ..)| path).collect();
    // Helm sets it for charts that are part of others.
    expected.push("global".to_owned());
    expected.sort();
    let mut found = described(&schema, "");
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let (chart, version) = (yaml("Chart.yaml"), env!("CARGO_PKG_VERSION"));
    assert_eq!((&chart["version"], &chart["appVersion"]), (&json!(version), &json!(version)));
}

/// A value of an annotation for Artifact Hub, which is YAML in a text.
fn annotation(name: &str) -> Value {
    let chart = yaml("Chart.yaml");
    serde_saphyr::from_str(chart["annotations"][format!("artifacthub.io/{name}")].as_str().unwrap()).unwrap()
}

#[test]
fn the_annotations_for_artifact_hub_name_the_images_and_the_definitions() {
    let (values, version) = (yaml("values.yaml"), env!("CARGO_PKG_VERSION"));
    let image = |name: &str, values: &Value| json!({"name": name, "image": format!("{}:{version}", values["repository"].as_str().unwrap())});
    let images = [image("winpool", &values["image"]), image("winpool-agent", &values["agent"]["image"])];
    assert_eq!(annotation("images"), json!(images));
    let install = fs::read_to_string(chart("../../install.yaml")).unwrap();
    assert!(install.contains(&format!("        image: {}\n", images[0]["image"].as_str().unwrap())));

    let identity = |name: &Value, kind: &Value, version: &Value| format!("{name} {kind} {version}");
    let mut listed: Vec<_> = annotation("crds")
        .as_array()
        .unwrap()
        .iter()
        .map(|crd| identity(&crd["name"], &crd["kind"], &crd["version"]))
        .collect();
    listed.sort();
    let definitions = custom_resource_definitions().into_iter().map(|(_, crd)| json!(crd));
    let mut expected: Vec<_> = definitions
        .map(|crd| {
            identity(&crd["metadata"]["name"], &crd["spec"]["names"]["kind"], &crd["spec"]["versions"][0]["name"])
        })
        .collect();
    expected.sort();
    assert_eq!(listed, expected);
    assert!(annotation("changes").as_array().is_some_and(|changes| !changes.is_empty()));
}
