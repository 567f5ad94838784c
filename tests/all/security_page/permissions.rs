//! The permissions in `config/`: one row for each rule of a role. The comment above a rule has its reason and its misuse.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;
use walkdir::WalkDir;

/// A rule of a role.
#[derive(Debug)]
pub struct Permission {
    pub holder: String,
    role: String,
    /// The namespace in which it applies; empty for all.
    namespace: String,
    rule: Value,
    reason: String,
    /// What the holder can do with it besides.
    misuse: String,
}

/// The permissions in `config/`, by their holders.
pub fn all() -> Vec<Permission> {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let files = WalkDir::new(config).sort_by_file_name().into_iter().map(|entry| entry.unwrap().into_path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect();
    // What every installation has is first.
    files.sort_by_key(|path| !path.to_string_lossy().contains("/config/default/"));
    let documents: Vec<(String, Value)> = files
        .iter()
        .flat_map(|path| fs::read_to_string(path).unwrap().split("\n---\n").map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|text| serde_saphyr::from_str(&text).ok().map(|object| (text, object)))
        .collect();
    let holders: BTreeMap<_, _> = documents.iter().filter_map(|(_, object)| bound(object)).collect();
    let mut permissions: Vec<_> = documents.iter().flat_map(|(text, role)| of_role(text, role, &holders)).collect();
    permissions.sort_by_key(|permission| order(&permission.holder));
    permissions
}

/// The operator, its agents, and then people.
fn order(holder: &str) -> usize {
    [OPERATOR, AGENTS].iter().position(|known| *known == holder).unwrap_or(usize::MAX)
}

/// The holder of the operator's token, and of those of the agents.
const OPERATOR: &str = "operator";
const AGENTS: &str = "agents";

/// The role of a binding, by its kind and its name, and who is bound.
fn bound(binding: &Value) -> Option<((String, String), String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let role = binding.get("roleRef")?;
    let holder = match binding["subjects"][0]["name"].as_str().unwrap() {
        "winpool" => OPERATOR.to_owned(),
        "winpool-agent" => AGENTS.to_owned(),
        other => code(other),
    };
    Some(((text(&role["kind"]), text(&role["name"])), holder))
}

fn of_role(text: &str, role: &Value, holders: &BTreeMap<(String, String), String>) -> Vec<Permission> {
    let kind = role["kind"].as_str().unwrap_or_default();
    if !["Role", "ClusterRole"].contains(&kind) {
        return Vec::new();
    }
    let (name, namespace) = (&role["metadata"]["name"], &role["metadata"]["namespace"]);
    let name = name.as_str().unwrap().to_owned();
    let holder = holders.get(&(kind.to_owned(), name.clone())).cloned().unwrap_or_else(|| of_people(role));
    let rules = role["rules"].as_array().unwrap();
    let comments = comments(text);
    assert_eq!(rules.len(), comments.len(), "{name}");
    let permission = |(rule, comment): (&Value, String)| {
        let (reason, misuse) = comment.split_once(" Misuse: ").unwrap_or_else(|| panic!("{name}: {comment:?}"));
        Permission {
            holder: holder.clone(),
            role: name.clone(),
            namespace: namespace.as_str().unwrap_or_default().to_owned(),
            rule: rule.clone(),
            reason: without_end(reason),
            misuse: without_end(misuse),
        }
    };
    rules.iter().zip(comments).map(permission).collect()
}

/// The roles of Kubernetes that a role extends.
fn of_people(role: &Value) -> String {
    let labels = role["metadata"]["labels"].as_object();
    let extends = |to: &str| labels.is_some_and(|labels| labels.keys().any(|key| key.ends_with(to)));
    let holder = match (extends("/aggregate-to-view"), extends("/aggregate-to-edit")) {
        (true, _) => "who has `view`",
        (_, true) => "who has `edit` or `admin`",
        _ => "whom you bind",
    };
    holder.to_owned()
}

/// The comment above each rule, in one line.
fn comments(text: &str) -> Vec<String> {
    let (mut comment, mut found) = (Vec::new(), Vec::new());
    for line in text.lines() {
        match line.strip_prefix("# ") {
            Some(part) => comment.push(part),
            None if line.starts_with("- apiGroups:") || line.starts_with("- nonResourceURLs:") => {
                found.push(std::mem::take(&mut comment).join(" "));
            }
            None => comment.clear(),
        }
    }
    found
}

fn without_end(text: &str) -> String {
    text.strip_suffix('.').unwrap_or(text).to_owned()
}

impl Permission {
    /// The resources of an API group that it permits to watch.
    pub fn watched(&self) -> Vec<String> {
        let verbs = texts(&self.rule["verbs"]);
        if verbs.iter().any(|verb| verb == "watch") { texts(&self.rule["resources"]) } else { Vec::new() }
    }

    pub fn row(&self) -> String {
        let Self { holder, role, namespace, rule, reason, misuse } = self;
        let place = if namespace.is_empty() { String::new() } else { format!(" in {}", code(namespace)) };
        format!("| {holder} | {}{place} | {} | {reason} | {misuse} |\n", code(role), permitted(rule))
    }
}

/// The verbs and the resources, or the URLs, of a rule.
fn permitted(rule: &Value) -> String {
    let codes = |field: &str| texts(&rule[field]).iter().map(|text| code(text)).collect::<Vec<_>>().join(", ");
    let verbs = texts(&rule["verbs"]).join(", ");
    if let [url, ..] = &texts(&rule["nonResourceURLs"])[..] {
        return format!("{verbs}: {}", code(url));
    }
    let groups = texts(&rule["apiGroups"]);
    let [group] = &groups[..] else { panic!("one group per rule: {rule}") };
    let of_group = if group.is_empty() { String::new() } else { format!(" of {group}") };
    let names = codes("resourceNames");
    let named = if names.is_empty() { names } else { format!(" named {names}") };
    format!("{verbs}: {}{of_group}{named}", codes("resources"))
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}
