//! The winpool resources and Nodes among manifests, decoded as in the operator.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Node;
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use winpool_api::names::{GROUP, label};
use winpool_core::{Objects, Problem, decode, kubernetes::syntax, node::WindowsNode};
use winpool_rules::pool::{Pool, ProfileView};

use super::{
    LocatedProblem, Location, Manifest, Manifests,
    schema::{self, Schema},
    strict,
    valid_part::ValidPart,
};

const API_VERSION: &str = "winpool.dev/v1alpha1";

#[derive(Debug, Default)]
pub struct ManifestSet {
    pub pools: BTreeMap<String, (Arc<Pool>, Location)>,
    pub profiles: BTreeMap<String, (Arc<ProfileView>, Location)>,
    pub other_kinds: BTreeSet<String>,
}

impl ManifestSet {
    pub fn new(manifests: Manifests) -> Result<Self, Vec<LocatedProblem>> {
        let mut problems = manifests.problems;
        let mut resources = Self::read(&manifests.objects, &mut problems);
        resources.other_kinds.extend((manifests.definitions > 0).then(|| "CustomResourceDefinition".to_owned()));
        problems.sort();
        if problems.is_empty() { Ok(resources) } else { Err(problems) }
    }

    /// The pools and profiles among objects; adds their problems to `problems`.
    pub fn read(objects: &[Manifest], problems: &mut Vec<LocatedProblem>) -> Self {
        let mut resources = Self::default();
        for Manifest { object, location } in objects {
            let kind = object.kind();
            match schema::of(kind).filter(|_| object.group() == GROUP) {
                Some(schema) => {
                    let found = resources.add(kind, schema, object.value(), location);
                    problems.extend(found.into_iter().map(|problem| location.problem(problem)));
                }
                None => drop(resources.other_kinds.insert(kind.to_owned())),
            }
        }
        resources
    }

    fn add(&mut self, kind: &str, schema: &Schema, object: Value, location: &Location) -> Vec<Problem> {
        let mut object = schema.stored(object);
        let mut problems = object_problems(kind, &object);
        let schema_problems = strict::problems(schema, &object, "");
        let valid_spec = (!schema_problems.is_empty()).then(|| retain_valid_part(kind, schema, &mut object));
        problems.extend(schema_problems);
        match decode::<DynamicObject>("", object) {
            Err(problem) => problems.push(problem),
            Ok(object) if kind == "WindowsNodePool" => {
                let pool = Pool::from_object(object);
                problems.extend(with_original_paths(pool.spec.as_ref().err(), valid_spec.as_ref()));
                problems.extend(insert(kind, &mut self.pools, pool.name.clone(), pool, location));
            }
            Ok(object) if kind == "WindowsRuntimeProfile" => {
                let profile = ProfileView::from_object(object);
                problems.extend(with_original_paths(profile.profile.as_ref().err(), valid_spec.as_ref()));
                problems.extend(insert(kind, &mut self.profiles, profile.name.clone(), profile, location));
            }
            // The operator writes the WindowsNodeConfigs.
            Ok(_) => {}
        }
        problems
    }
}

type ByName<T> = BTreeMap<String, (Arc<T>, Location)>;

/// Inserts an object, unless there is one of that name.
fn insert<T>(kind: &str, objects: &mut ByName<T>, name: String, object: T, location: &Location) -> Option<Problem> {
    let Some((_, first)) = objects.get(&name) else {
        objects.insert(name, (Arc::new(object), location.clone()));
        return None;
    };
    let wrong = format!("{kind} {name} is already defined at {}", first.start());
    // A missing name is reported as such.
    (!name.is_empty()).then(|| Problem::new("metadata.name", wrong, "remove or rename one of them"))
}

/// Removes what the schema does not accept from metadata and spec, so that the other rules can check the rest.
fn retain_valid_part(kind: &str, schema: &Schema, object: &mut Value) -> ValidPart {
    let [metadata, mut spec] =
        ["metadata", "spec"].map(|part| ValidPart::of(&schema.properties[part], &object[part], part));
    if kind == "WindowsNodePool" {
        add_defaults(&object["spec"], &mut spec.fields);
    }
    object["metadata"] = Value::Object(metadata.fields);
    object["spec"] = Value::Object(spec.fields.clone());
    spec
}

/// Replaces removed required fields of a pool by valid ones.
fn add_defaults(original: &Value, spec: &mut Map<String, Value>) {
    let is_removed = |field: &str| original.get(field).is_some() && !spec.contains_key(field);
    if is_removed("nodeSelector") || is_removed("fallback") || !original.is_object() {
        spec.remove("nodeSelector");
        spec.insert("fallback".to_owned(), json!(true));
    }
    spec.entry("windowsVersion").or_insert(json!("ltsc2022"));
}

/// The problems of a spec with their paths before invalid items were removed.
fn with_original_paths(problems: Option<&Vec<Problem>>, valid_spec: Option<&ValidPart>) -> Vec<Problem> {
    let original = |path: &str| valid_spec.map_or_else(|| path.to_owned(), |spec| spec.original_path(path));
    let problems = problems.into_iter().flatten();
    problems.map(|problem| Problem { path: original(&problem.path), ..problem.clone() }).collect()
}

/// The problems of an object that no schema describes.
fn object_problems(kind: &str, object: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    if version != API_VERSION {
        let wrong = format!("unknown version {version}");
        problems.push(Problem::new("apiVersion", wrong, format!("write {API_VERSION}")));
    }
    if let Some(name) = name(object).filter(|name| !syntax::is_dns_subdomain(name)) {
        let wrong =
            if name.is_empty() { "is required".to_owned() } else { format!("{name:?} is not the name of an object") };
        let remedy = "write lower-case letters, digits, '-' and '.', such as web-2022";
        problems.push(Problem::new("metadata.name", wrong, remedy));
    }
    if object["metadata"].get("namespace").is_some() {
        problems.push(Problem::new("metadata.namespace", format!("{kind} is cluster-scoped"), "remove it"));
    }
    for field in object.as_object().into_iter().flatten().map(|(field, _)| field) {
        if !["apiVersion", "kind", "metadata", "spec", "status"].contains(&field.as_str()) {
            problems.push(Problem::new(field, "unknown field", "move it below spec, or remove it"));
        }
    }
    problems
}

/// The name of an object, empty if there is none; `None` if it is not a string.
fn name(object: &Value) -> Option<&str> {
    match object.get("metadata") {
        None => Some(""),
        Some(Value::Object(metadata)) => metadata.get("name").map_or(Some(""), Value::as_str),
        Some(_) => None,
    }
}

/// The Windows nodes among manifests, by name. Other objects are ignored.
pub fn nodes(manifests: Manifests) -> Result<Objects<WindowsNode>, Vec<LocatedProblem>> {
    let mut problems = manifests.problems;
    let nodes = nodes_among(&manifests.objects, &mut problems);
    problems.sort();
    if problems.is_empty() { Ok(nodes) } else { Err(problems) }
}

/// The Windows nodes among objects; adds their problems to `problems`.
pub fn nodes_among(objects: &[Manifest], problems: &mut Vec<LocatedProblem>) -> Objects<WindowsNode> {
    let mut nodes = ByName::new();
    for Manifest { object, location } in objects.iter().filter(|manifest| manifest.object.kind() == "Node") {
        let object = object.value();
        if object["metadata"]["labels"][label::OS] != "windows" {
            continue;
        }
        let problem = match decode::<Node>("", object) {
            Err(problem) => {
                let remedy = "write the node as `kubectl get nodes -o yaml` prints it".to_owned();
                Some(Problem { remedy, ..problem })
            }
            Ok(node) => {
                let node = WindowsNode::from(node);
                insert("Node", &mut nodes, node.name.clone(), node, location)
            }
        };
        problems.extend(problem.map(|problem| location.problem(problem)));
    }
    nodes.into_values().map(|(node, _)| node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::{Budget, PathSource};
    use winpool_rules::pool::check;

    fn manifests(text: &str) -> Manifests {
        let mut manifests = Manifests::default();
        manifests.add("pool.yaml", text.to_owned(), PathSource::Argument, &mut Budget::unbounded());
        manifests
    }

    const POOL: &str = "apiVersion: winpool.dev/v1alpha1\nkind: WindowsNodePool\nmetadata: {name: web}\nspec:\n  \
                        windowsVersion: ltsc2022\n  nodeSelector: {matchLabels: {agentpool: web}}\n";

    #[test]
    fn pools_are_read_with_defaults_and_other_kinds_are_skipped() {
        let resources = ManifestSet::new(manifests(&format!("{POOL}---\nkind: Deployment\n"))).unwrap();
        let (pool, location) = &resources.pools["web"];
        assert_eq!(pool.spec.as_ref().unwrap().taints[0].key, "os");
        assert_eq!(location.start(), "pool.yaml:1");
        assert_eq!(resources.other_kinds, BTreeSet::from(["Deployment".to_owned()]));
    }

    #[test]
    fn all_problems_are_reported_with_file_line_and_path() {
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
        let problems = ManifestSet::new(manifests(text)).unwrap_err();
        insta::assert_snapshot!(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), @r#"
        pool.yaml:3: metadata.name: "Web" is not the name of an object: write lower-case letters, digits, '-' and '.', such as web-2022
        pool.yaml:5: spec.windowsVersion: must be a string, not 1809: write "1809" in quotes
        pool.yaml:12: metadata.namespace: WindowsNodePool is cluster-scoped: remove it
        pool.yaml:14: spec.windowsVersion: unknown Windows version "ltsc2023": did you mean ltsc2022? Otherwise write one of ltsc2016, 1709, 1803, ltsc2019, 1809, 1903, 1909, 2004, 20H2, 2009, ltsc2022, 23H2, ltsc2025, or a build such as "10.0.20348"
        pool.yaml:15: spec.nodeSelector: an empty selector matches every Windows node: write matchLabels or matchExpressions, or spec.fallback: true instead of the selector
        pool.yaml:17: spec.taint: unknown field: did you mean taints? Otherwise write one of deletionPolicy, delivery, fallback, labels, minRevision, mode, nodeSelector, paused, profileRef, replacesTaints, runtimeClasses, taints, windowsVersion, or remove it
        pool.yaml:20: spec.taints[0].key: "a b" is not a valid key: write a name of at most 63 letters, digits, '-', '_' or '.', with an optional DNS prefix: example.com/team
        pool.yaml:23: apiVersion: unknown version winpool.dev/v1beta1: write winpool.dev/v1alpha1
        pool.yaml:25: metadata.name: WindowsNodePool batch is already defined at pool.yaml:8: remove or rename one of them
        pool.yaml:29: paused: unknown field: move it below spec, or remove it
        "#);
    }

    #[test]
    fn a_type_error_hides_no_other_problem_and_each_is_reported_once() {
        let text = "\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: 2022, labels: {team: 5}}
spec:
  windowsVersion: 1809
  nodeSelector:
    matchLabels: {winpool.dev/pool: web}
    matchExpressions:
    - {key: a, operator: Is}
    - {key: b, operator: In}
  taints:
  - {key: a, effect: Never}
  - {key: a, effect: NoSchedule}
  - {key: a, effect: NoSchedule}
  labels: {kubernetes.io/os: linux, team: 5}
  runtimeClasses:
  - name: A
  - name: b
    overhead: {not a resource!!: 1, cpu: much}
---
apiVersion: winpool.dev/v1alpha1
kind: WindowsRuntimeProfile
metadata: {name: standard, annotations: [a]}
spec:
  kubelet:
    maxPods: many
    systemReserved: {pid: 1, memory: 1.5}
    evictionHard: {nodefs.inodesFree: 5%}
    imageGC: {highThresholdPercent: 500, lowThresholdPercent: 90}
  pauseImage: {source: Mine, repository: registry.example/pause}
  containerd:
    registryMirrors:
    - {registry: docker.io, endpoints: ['ftp://a.example', 'https://u:p@b.example']}
---
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: last}
";
        let problems = ManifestSet::new(manifests(text)).unwrap_err();
        insta::assert_snapshot!(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), @r#"
        pool.yaml:3: metadata.labels.team: must be a string, not 5: write "5" in quotes
        pool.yaml:3: metadata.name: must be a string, not 2022: write "2022" in quotes
        pool.yaml:5: spec.windowsVersion: must be a string, not 1809: write "1809" in quotes
        pool.yaml:7: spec.nodeSelector.matchLabels[winpool.dev/pool]: winpool.dev/pool is set from this selector: select by another label
        pool.yaml:9: spec.nodeSelector.matchExpressions[0].operator: unsupported value "Is": write one of In, NotIn, Exists, DoesNotExist
        pool.yaml:10: spec.nodeSelector.matchExpressions[1].values: In and NotIn need a value: write at least one value
        pool.yaml:12: spec.taints[0].effect: unsupported value "Never": write one of NoSchedule, PreferNoSchedule, NoExecute
        pool.yaml:14: spec.taints[2]: a node can have one taint a:NoSchedule: remove the duplicate
        pool.yaml:15: spec.labels.team: must be a string, not 5: write "5" in quotes
        pool.yaml:15: spec.labels[kubernetes.io/os]: kubernetes.io/os is set by winpool or the kubelet: remove it
        pool.yaml:17: spec.runtimeClasses[0].name: "A" is not the name of an object: write lower-case letters, digits, '-' and '.', such as windows-ltsc2022
        pool.yaml:19: spec.runtimeClasses[1].overhead.cpu: "much" is not a quantity: write a quantity such as 500m or 2Gi
        pool.yaml:19: spec.runtimeClasses[1].overhead.not a resource!!: "not a resource!!" is not a resource: write cpu, memory, ephemeral-storage, or a name with a DNS prefix: example.com/device
        pool.yaml:23: metadata.annotations: must be an object, not a list: write an object
        pool.yaml:26: spec.kubelet.maxPods: must be an integer, not "many": write an integer
        pool.yaml:27: spec.kubelet.systemReserved.memory: must be an integer or a string, not 1.5: write "1.5" in quotes
        pool.yaml:27: spec.kubelet.systemReserved.pid: a Windows kubelet cannot reserve `pid`: remove it, or write cpu, memory or ephemeral-storage
        pool.yaml:28: spec.kubelet.evictionHard.nodefs.inodesFree: a Windows kubelet does not support `nodefs.inodesFree`, because Windows file systems have no inodes: remove it, or write one of memory.available, nodefs.available, imagefs.available
        pool.yaml:29: spec.kubelet.imageGC.highThresholdPercent: 500 is greater than 100: write at most 100
        pool.yaml:30: spec.pauseImage.source: unsupported value "Mine": write one of Microsoft, Upstream, Custom, Node
        pool.yaml:33: spec.containerd.registryMirrors[0].endpoints[0]: "ftp://a.example" is not the address of a registry: write a plain address, such as https://mirror.example
        pool.yaml:33: spec.containerd.registryMirrors[0].endpoints[1]: the address contains credentials, which everyone who can read this object can see: write a plain address, such as https://mirror.example
        pool.yaml:35: spec: is required: write it: A set of Windows nodes that run one Windows version with one configuration
        "#);
    }

    /// Missing fields and wrong types, which only decoding reports.
    const OF_DECODING: [&str; 4] = ["is required", "must be a", "must be true or false", "cannot be read"];

    #[test]
    fn a_value_that_the_schema_accepts_has_no_type_error() {
        let values = json!([
            null, true, -1, 0, 1.5, 1e20, 1_u64 << 40, 60, "", "a", "Custom", [], [null], [{}], {}, {"a": 1}, {"a": "b"}, {"name": "a"},
        ]);
        let mut read = 0;
        for kind in ["WindowsNodePool", "WindowsRuntimeProfile"] {
            let schema = schema::of(kind).unwrap();
            for path in paths(&schema.properties["spec"], "/spec") {
                for value in values.as_array().unwrap() {
                    let mut object = json!({
                        "apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "a"},
                        "spec": {"windowsVersion": "ltsc2022", "fallback": true},
                    });
                    put(&mut object, &path, value.clone());
                    let mut object = schema.stored(object);
                    let is_valid = strict::problems(schema, &object, "").is_empty();
                    if !is_valid {
                        retain_valid_part(kind, schema, &mut object);
                    }
                    let problems = match kind {
                        "WindowsNodePool" => check::spec("a", object["spec"].take()).err(),
                        _ => check::profile(object["spec"].take()).err(),
                    };
                    read += usize::from(is_valid);
                    for problem in problems.into_iter().flatten() {
                        let is_of_decoding = OF_DECODING.iter().any(|text| problem.wrong.contains(text));
                        assert!(!is_of_decoding, "{path} {value}: {problem}");
                    }
                }
            }
        }
        assert!(read > 30, "{read} values are taken");
    }

    /// The fields and items of a schema, as JSON pointers.
    fn paths(schema: &Schema, path: &str) -> Vec<String> {
        let fields = schema.properties.iter().map(|(name, field)| (format!("{path}/{name}"), field));
        let items = schema.items.iter().map(|items| (format!("{path}/0"), &**items));
        let entries = schema.additional_properties.iter().map(|entries| (format!("{path}/cpu"), &**entries));
        let below = fields.chain(items).chain(entries).flat_map(|(path, schema)| paths(schema, &path));
        std::iter::once(path.to_owned()).chain(below).collect()
    }

    /// Sets a value at a pointer, with the required fields around it.
    fn put(object: &mut Value, path: &str, value: Value) {
        let place = path.split('/').skip(1).fold(object, |around, name| {
            if name == "0" {
                *around = json!([{"name": "a", "key": "a", "operator": "Exists", "effect": "NoExecute", "registry": "a", "endpoints": ["https://a"]}]);
                return &mut around[0];
            }
            if !around.is_object() {
                *around = json!({});
            }
            &mut around[name]
        });
        *place = value;
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
        assert_eq!(nodes(manifests(text)).unwrap().names().collect::<Vec<_>>(), ["win-1"]);
        let wrong = text.replace("windows}}", "windows}}, spec: {taints: 7}");
        let message = nodes(manifests(&wrong)).unwrap_err()[0].to_string();
        assert!(message.starts_with("pool.yaml:5: spec.taints: "), "{message}");
    }
}
