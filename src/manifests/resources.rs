//! Our resources and Nodes among the objects of files, read as the operator reads them from the API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use k8s_openapi::api::core::v1::Node;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::{Manifest, Manifests, Mistake, Place, strict};
use crate::{
    api::{
        self,
        names::{GROUP, label},
    },
    domain::{
        Problem,
        node::WindowsNode,
        pool::{Pool, ProfileView, check},
        syntax,
    },
};

/// The version of our resources.
const API_VERSION: &str = "winpool.dev/v1alpha1";

/// Pools and profiles, and where each is written.
#[derive(Debug, Default)]
pub struct Resources {
    /// The pools, by name.
    pub pools: BTreeMap<String, (Arc<Pool>, Place)>,
    /// The profiles, by name.
    pub profiles: BTreeMap<String, (Arc<ProfileView>, Place)>,
    /// The kinds of the other objects, which are not looked at.
    pub other_kinds: BTreeSet<String>,
}

impl Resources {
    /// The pools and profiles among the objects.
    ///
    /// # Errors
    /// Everything that is wrong in the files, in order of files and lines.
    pub fn of(manifests: Manifests) -> Result<Self, Vec<Mistake>> {
        let mut mistakes = manifests.mistakes;
        let mut resources = Self::default();
        for manifest in manifests.objects {
            resources.add(manifest, &mut mistakes);
        }
        mistakes.sort();
        if mistakes.is_empty() { Ok(resources) } else { Err(mistakes) }
    }

    fn add(&mut self, manifest: Manifest, mistakes: &mut Vec<Mistake>) {
        let kind = manifest.object.kind().to_owned();
        let in_group = manifest.object.api_version().split('/').next() == Some(GROUP);
        let schema = match kind.as_str() {
            "WindowsNodePool" if in_group => &SCHEMAS[0],
            "WindowsRuntimeProfile" if in_group => &SCHEMAS[1],
            _ => {
                self.other_kinds.insert(kind);
                return;
            }
        };
        let Manifest { object, place } = manifest;
        let object = object.value();
        let mut problems = check_object(&kind, &object, schema);
        match check::decode::<DynamicObject>("", object) {
            Err(problem) => problems.push(Problem { path: problem.path.trim_start_matches('.').to_owned(), ..problem }),
            Ok(object) if kind == "WindowsNodePool" => {
                let pool = Pool::from_object(object);
                problems.extend(pool.spec.as_ref().err().into_iter().flatten().cloned());
                let first = self.pools.get(&pool.name).map(|(_, first)| first);
                problems.extend(duplicate(&kind, &pool.name, first));
                self.pools.entry(pool.name.clone()).or_insert_with(|| (Arc::new(pool), place.clone()));
            }
            Ok(object) => {
                let profile = ProfileView::from_object(object);
                problems.extend(profile.profile.as_ref().err().into_iter().flatten().cloned());
                let first = self.profiles.get(&profile.name).map(|(_, first)| first);
                problems.extend(duplicate(&kind, &profile.name, first));
                self.profiles.entry(profile.name.clone()).or_insert_with(|| (Arc::new(profile), place.clone()));
            }
        }
        mistakes.extend(problems.into_iter().map(|problem| place.mistake(problem)));
    }

    /// What a person should know of the input, though nothing is wrong with it.
    pub fn note_of_others(&self) -> Option<String> {
        let kinds: Vec<_> = self.other_kinds.iter().map(String::as_str).collect();
        (!kinds.is_empty()).then(|| format!("objects of other kinds are not looked at: {}", kinds.join(", ")))
    }
}

/// The schemas of both kinds.
static SCHEMAS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let schema = |crd| json!(crd)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
    api::custom_resource_definitions().into_iter().map(|(_, crd)| schema(crd)).collect()
});

/// What the API server would check of an object, beside its spec.
fn check_object(kind: &str, object: &Value, schema: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    if version != API_VERSION {
        let wrong = format!("there is no version {version}");
        problems.push(Problem::new("apiVersion", wrong, format!("write {API_VERSION}")));
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if !syntax::is_dns_subdomain(name) {
        let wrong = format!("{name:?} is not the name of an object");
        let remedy = "write lower-case letters, digits, '-' and '.', such as web-2022";
        problems.push(Problem::new("metadata.name", wrong, remedy));
    }
    if object["metadata"].get("namespace").is_some() {
        let wrong = format!("a {kind} is in no namespace");
        problems.push(Problem::new("metadata.namespace", wrong, "remove it"));
    }
    for field in object.as_object().into_iter().flatten().map(|(field, _)| field) {
        if !["apiVersion", "kind", "metadata", "spec", "status"].contains(&field.as_str()) {
            let remedy = "move it below spec, or remove it";
            problems.push(Problem::new(field, "there is no such field", remedy));
        }
    }
    problems.extend(strict::unknown_fields(&schema["properties"]["spec"], &object["spec"], "spec"));
    problems
}

fn duplicate(kind: &str, name: &str, first: Option<&Place>) -> Option<Problem> {
    let wrong = format!("{kind} {name} is also at {}", first?.begin());
    Some(Problem::new("metadata.name", wrong, "remove or rename one of them"))
}

/// The Windows nodes among the objects, by name; each other object is passed over.
///
/// # Errors
/// Everything that is wrong in the files, in order of files and lines.
pub fn nodes(manifests: Manifests) -> Result<BTreeMap<String, Arc<WindowsNode>>, Vec<Mistake>> {
    let mut mistakes = manifests.mistakes;
    let mut nodes: BTreeMap<String, (Arc<WindowsNode>, Place)> = BTreeMap::new();
    for Manifest { object, place } in manifests.objects.into_iter().filter(|manifest| manifest.object.kind() == "Node")
    {
        let object = object.value();
        if object["metadata"]["labels"][label::OS] != "windows" {
            continue;
        }
        match check::decode::<Node>("", object) {
            Err(problem) => {
                let path = problem.path.trim_start_matches('.').to_owned();
                let remedy = "write the node as `kubectl get nodes -o yaml` prints it".to_owned();
                mistakes.push(place.mistake(Problem { path, remedy, ..problem }));
            }
            Ok(node) => {
                let node = WindowsNode::from(node);
                let first = nodes.get(&node.name).map(|(_, first)| first);
                mistakes.extend(duplicate("Node", &node.name, first).map(|problem| place.mistake(problem)));
                nodes.insert(node.name.clone(), (Arc::new(node), place));
            }
        }
    }
    mistakes.sort();
    let nodes = nodes.into_iter().map(|(name, (node, _))| (name, node)).collect();
    if mistakes.is_empty() { Ok(nodes) } else { Err(mistakes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::{Budget, Found};

    fn manifests(text: &str) -> Manifests {
        let mut manifests = Manifests::default();
        manifests.add("pool.yaml", text.to_owned(), Found::Named, &mut Budget::unbounded());
        manifests
    }

    const POOL: &str = "apiVersion: winpool.dev/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: web}\nspec:\n  \
                        windowsVersion: ltsc2022\n  nodeSelector: {matchLabels: {agentpool: web}}\n";

    #[test]
    fn pools_are_read_with_their_defaults_and_other_kinds_are_passed_over() {
        let resources = Resources::of(manifests(&format!("{POOL}---\nkind: Deployment\n"))).unwrap();
        let (pool, place) = &resources.pools["web"];
        assert_eq!(pool.spec.as_ref().unwrap().taints[0].key, "os");
        assert_eq!(place.begin(), "pool.yaml:1");
        assert_eq!(resources.note_of_others().unwrap(), "objects of other kinds are not looked at: Deployment");
    }

    #[test]
    fn every_mistake_is_told_with_file_line_and_path() {
        let text = "\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: Web}
spec:
  windowsVersion: 1809
  nodeSelector: {matchLabels: {agentpool: web}}
---
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata:
  name: batch
  namespace: default
spec:
  windowsVersion: ltsc2023
  nodeSelector:
    matchLabels: {}
  taint:
  - {key: os, value: windows, effect: NoSchedule}
  taints:
  - key: a b
    effect: NoSchedule
---
apiVersion: winpool.dev/v1beta1
kind: WindowsNodePool
metadata: {name: batch}
spec:
  windowsVersion: ltsc2022
  fallback: true
paused: true
";
        let mistakes = Resources::of(manifests(text)).unwrap_err();
        insta::assert_snapshot!(mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), @r#"
        pool.yaml:3: metadata.name: "Web" is not the name of an object: write lower-case letters, digits, '-' and '.', such as web-2022
        pool.yaml:5: spec.windowsVersion: invalid type: integer `1809`, expected a string: write it in quotes
        pool.yaml:12: metadata.namespace: a WindowsNodePool is in no namespace: remove it
        pool.yaml:14: spec.windowsVersion: unknown Windows version "ltsc2023": write one of ltsc2016, 1709, 1803, ltsc2019, 1809, 1903, 1909, 2004, 20H2, 2009, ltsc2022, 23H2, ltsc2025, or a build such as "10.0.20348"
        pool.yaml:15: spec.nodeSelector: an empty selector matches every Windows node: write matchLabels or matchExpressions, or spec.fallback: true instead of the selector
        pool.yaml:17: spec.taint: there is no such field: write one of deletionPolicy, fallback, labels, mode, nodeSelector, paused, profileRef, runtimeClasses, taints, windowsVersion, or remove it
        pool.yaml:20: spec.taints[0].key: "a b" is not a key that Kubernetes accepts: write a name of at most 63 letters, digits, '-', '_' or '.', with an optional DNS prefix: example.com/team
        pool.yaml:23: apiVersion: there is no version winpool.dev/v1beta1: write winpool.dev/v1alpha1
        pool.yaml:25: metadata.name: WindowsNodePool batch is also at pool.yaml:8: remove or rename one of them
        pool.yaml:29: paused: there is no such field: move it below spec, or remove it
        "#);
    }

    #[test]
    fn windows_nodes_are_read_from_what_kubectl_prints() {
        let text = "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: linux-1, labels: {kubernetes.io/os: linux}}}
- {apiVersion: v1, kind: Node, metadata: {name: win-1, labels: {kubernetes.io/os: windows}}}
";
        assert_eq!(nodes(manifests(text)).unwrap().keys().collect::<Vec<_>>(), ["win-1"]);
        let wrong = text.replace("windows}}", "windows}}, spec: {taints: 7}");
        let told = nodes(manifests(&wrong)).unwrap_err()[0].to_string();
        assert!(told.starts_with("pool.yaml:5: spec.taints: "), "{told}");
    }
}
