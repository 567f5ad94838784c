//! The permissions in `config/`, and the page that says what each is for and what a thief of the token could do with it.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

/// A rule of a role: the role, where it applies, the resources or URLs with their names, and the verbs.
type Permission = [String; 4];

#[test]
fn the_page_about_security_explains_every_permission_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut granted = BTreeSet::new();
    permissions(&root.join("config"), &mut granted);
    let page = fs::read_to_string(root.join("docs/security.md")).unwrap();
    let section = page.split("\n## Every permission\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let mut explained = BTreeSet::new();
    for row in &rows {
        assert!(row.len() == 6 && row.iter().all(|cell| !cell.is_empty()), "{row:?}");
        explained.insert([0, 1, 2, 3].map(|cell| row[cell].to_owned()));
    }
    let missing: Vec<_> = granted.difference(&explained).map(|row| row.join(" | ")).collect();
    let unknown: Vec<_> = explained.difference(&granted).map(|row| row.join(" | ")).collect();
    assert!(missing.is_empty(), "docs/security.md does not explain\n{}", missing.join("\n"));
    assert!(unknown.is_empty(), "config/ does not grant\n{}", unknown.join("\n"));
}

/// The rules of all roles in the manifests below a folder.
fn permissions(folder: &Path, granted: &mut BTreeSet<Permission>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            permissions(&path, granted);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&path).unwrap();
            granted.extend(serde_saphyr::from_multiple::<Value>(&text).unwrap().iter().flat_map(rules));
        }
    }
}

fn rules(object: &Value) -> Vec<Permission> {
    let place = match object["kind"].as_str() {
        Some("ClusterRole") => "the cluster".to_owned(),
        Some("Role") => code(object["metadata"]["namespace"].as_str().unwrap()),
        _ => return Vec::new(),
    };
    let name = code(object["metadata"]["name"].as_str().unwrap());
    let rules = object["rules"].as_array().unwrap().iter();
    rules.map(|rule| [name.clone(), place.clone(), resources(rule), texts(&rule["verbs"]).join(", ")]).collect()
}

fn resources(rule: &Value) -> String {
    if let [url, ..] = &texts(&rule["nonResourceURLs"])[..] {
        return code(url);
    }
    let groups = texts(&rule["apiGroups"]);
    let [group] = &groups[..] else { panic!("one group per rule: {rule}") };
    let resources = texts(&rule["resources"]).iter().map(|resource| code(resource)).collect::<Vec<_>>().join(", ");
    let names = texts(&rule["resourceNames"]).iter().map(|name| code(name)).collect::<Vec<_>>().join(", ");
    let of_group = if group.is_empty() { resources } else { format!("{resources} of {group}") };
    if names.is_empty() { of_group } else { format!("{of_group} named {names}") }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}
