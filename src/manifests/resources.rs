//! Our resources and Nodes among the objects of files, read as the operator reads them from the API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Node;
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

use super::{
    Manifest, Manifests, Mistake, Place,
    schema::{self, Schema},
    sound::Sound,
    strict,
};
use crate::{
    api::names::{GROUP, label},
    domain::{
        Problem, decode,
        node::WindowsNode,
        pool::{Pool, ProfileView},
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
        let Some(schema) = schema::of(&kind).filter(|_| manifest.object.group() == GROUP) else {
            self.other_kinds.insert(kind);
            return;
        };
        let Manifest { object, place } = manifest;
        let object = schema.stored(object.value());
        let mut problems = check_object(&kind, &object);
        let (object, refused, spec) = sound(&kind, schema, object);
        problems.extend(refused);
        match decode::<DynamicObject>("", object) {
            Err(problem) => problems.push(problem),
            Ok(object) if kind == "WindowsNodePool" => {
                let pool = Pool::from_object(object);
                problems.extend(told(pool.spec.as_ref().err(), &spec));
                let first = self.pools.get(&pool.name).map(|(_, first)| first);
                problems.extend(duplicate(&kind, &pool.name, first));
                self.pools.entry(pool.name.clone()).or_insert_with(|| (Arc::new(pool), place.clone()));
            }
            Ok(object) => {
                let profile = ProfileView::from_object(object);
                problems.extend(told(profile.profile.as_ref().err(), &spec));
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

/// What the schema refuses of an object, and the object without it, so that the other rules can judge the rest.
fn sound(kind: &str, schema: &Schema, mut object: Value) -> (Value, Vec<Problem>, Option<Sound>) {
    let parts = ["metadata", "spec"];
    let written: Map<_, _> =
        parts.iter().filter_map(|part| Some(((*part).to_owned(), object.get(part)?.clone()))).collect();
    let problems = strict::problems(schema, &Value::Object(written.clone()), "");
    if problems.is_empty() {
        return (object, problems, None);
    }
    let written = |part| written.get(part).unwrap_or(&Value::Null);
    let [metadata, mut spec] = parts.map(|part| Sound::of(&schema.properties[part], written(part), part));
    if kind == "WindowsNodePool" {
        stand_in(written("spec"), &mut spec.fields);
    }
    object["metadata"] = Value::Object(metadata.fields);
    object["spec"] = Value::Object(spec.fields.clone());
    (object, problems, Some(spec))
}

/// Puts something that nothing can be said against in the place of what a pool cannot be judged without.
fn stand_in(written: &Value, spec: &mut Map<String, Value>) {
    let lost = |field: &str| written.get(field).is_some() && !spec.contains_key(field);
    if lost("nodeSelector") || lost("fallback") || !written.is_object() {
        spec.remove("nodeSelector");
        spec.insert("fallback".to_owned(), json!(true));
    }
    spec.entry("windowsVersion").or_insert(json!("ltsc2022"));
}

/// The problems of a spec by where they are written.
fn told<'a>(problems: Option<&'a Vec<Problem>>, spec: &'a Option<Sound>) -> impl Iterator<Item = Problem> + 'a {
    let written = |path: &str| spec.as_ref().map_or_else(|| path.to_owned(), |spec| spec.written(path));
    problems.into_iter().flatten().map(move |problem| Problem { path: written(&problem.path), ..problem.clone() })
}

/// What the API server would check of an object, beside its schema.
fn check_object(kind: &str, object: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    if version != API_VERSION {
        let wrong = format!("there is no version {version}");
        problems.push(Problem::new("apiVersion", wrong, format!("write {API_VERSION}")));
    }
    if let Some(name) = name(object).filter(|name| !syntax::is_dns_subdomain(name)) {
        let wrong =
            if name.is_empty() { "it is missing".to_owned() } else { format!("{name:?} is not the name of an object") };
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
    problems
}

/// The name of an object, empty where it has none; `None` where something stands there that is no name.
fn name(object: &Value) -> Option<&str> {
    match object.get("metadata") {
        None => Some(""),
        Some(Value::Object(metadata)) => metadata.get("name").map_or(Some(""), Value::as_str),
        Some(_) => None,
    }
}

fn duplicate(kind: &str, name: &str, first: Option<&Place>) -> Option<Problem> {
    let wrong = format!("{kind} {name} is also at {}", first?.begin());
    // What has no name is told for that.
    (!name.is_empty()).then(|| Problem::new("metadata.name", wrong, "remove or rename one of them"))
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
        match decode::<Node>("", object) {
            Err(problem) => {
                let remedy = "write the node as `kubectl get nodes -o yaml` prints it".to_owned();
                mistakes.push(place.mistake(Problem { remedy, ..problem }));
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
    use crate::{
        domain::pool::check,
        manifests::{Budget, Found},
    };

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
        pool.yaml:5: spec.windowsVersion: 1809 is not a text: write it in quotes
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
    fn a_mistake_of_type_hides_no_other_and_each_is_told_once() {
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
        let mistakes = Resources::of(manifests(text)).unwrap_err();
        insta::assert_snapshot!(mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), @r#"
        pool.yaml:3: metadata.labels.team: 5 is not a text: write it in quotes
        pool.yaml:3: metadata.name: 2022 is not a text: write it in quotes
        pool.yaml:5: spec.windowsVersion: 1809 is not a text: write it in quotes
        pool.yaml:7: spec.nodeSelector.matchLabels[winpool.dev/pool]: winpool.dev/pool is set from this selector: select by a label of your own
        pool.yaml:9: spec.nodeSelector.matchExpressions[0].operator: "Is" is not a value of this field: write one of In, NotIn, Exists, DoesNotExist
        pool.yaml:10: spec.nodeSelector.matchExpressions[1].values: In and NotIn need at least one value; Exists and DoesNotExist take none: write at least one value
        pool.yaml:12: spec.taints[0].effect: "Never" is not a value of this field: write one of NoSchedule, PreferNoSchedule, NoExecute
        pool.yaml:14: spec.taints[2]: a node can have one taint a:NoSchedule: remove the duplicate
        pool.yaml:15: spec.labels.team: 5 is not a text: write it in quotes
        pool.yaml:15: spec.labels[kubernetes.io/os]: kubernetes.io/os is set by the operator or the kubelet: remove it here
        pool.yaml:17: spec.runtimeClasses[0].name: "A" is not the name of an object: write lower-case letters, digits, '-' and '.', such as windows-ltsc2022
        pool.yaml:19: spec.runtimeClasses[1].overhead.cpu: "much" is not a quantity: write an amount such as 500m or 2Gi
        pool.yaml:19: spec.runtimeClasses[1].overhead.not a resource!!: "not a resource!!" is not a resource: write cpu, memory, ephemeral-storage, or a name with a DNS prefix: example.com/device
        pool.yaml:23: metadata.annotations: a list is not an object: write an object
        pool.yaml:26: spec.kubelet.maxPods: "many" is not a whole number: write a whole number
        pool.yaml:27: spec.kubelet.systemReserved.memory: 1.5 is not a whole number or a text: write it in quotes
        pool.yaml:27: spec.kubelet.systemReserved.pid: a Windows kubelet cannot reserve `pid`: remove it: there are cpu, memory and ephemeral-storage
        pool.yaml:28: spec.kubelet.evictionHard.nodefs.inodesFree: Windows has no signal `nodefs.inodesFree`: Windows file systems have no inodes: remove it: there are memory.available, nodefs.available, imagefs.available
        pool.yaml:29: spec.kubelet.imageGC.highThresholdPercent: 500 is more than 100: write at most 100
        pool.yaml:30: spec.pauseImage.source: "Mine" is not a value of this field: write one of Microsoft, Upstream, Custom
        pool.yaml:33: spec.containerd.registryMirrors[0].endpoints[0]: "ftp://a.example" is not the address of a registry: write a plain address, such as https://mirror.example
        pool.yaml:33: spec.containerd.registryMirrors[0].endpoints[1]: the address has credentials in it, which everybody could read: write a plain address, such as https://mirror.example
        pool.yaml:35: spec: it is missing: write it: A set of Windows nodes that should run one Windows version under one set of rules
        "#);
    }

    #[test]
    fn what_the_schema_takes_is_read_without_a_word_about_types() {
        let values = [
            json!(null),
            json!(true),
            json!(-1),
            json!(0),
            json!(1.5),
            json!(1e20),
            json!(1_u64 << 40),
            json!(60),
            json!(""),
            json!("a"),
            json!("Custom"),
            json!([]),
            json!([null]),
            json!([{}]),
            json!({}),
            json!({"a": 1}),
            json!({"a": "b"}),
            json!({"name": "a"}),
        ];
        let mut read = 0;
        for kind in ["WindowsNodePool", "WindowsRuntimeProfile"] {
            let schema = schema::of(kind).unwrap();
            for path in paths(&schema.properties["spec"], "/spec") {
                for value in &values {
                    let mut object = json!({
                        "apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "a"},
                        "spec": {"windowsVersion": "ltsc2022", "fallback": true},
                    });
                    put(&mut object, &path, value.clone());
                    let object = schema.stored(object);
                    let (sound, refused, _) = sound(kind, schema, object);
                    let problems = match kind {
                        "WindowsNodePool" => check::spec("a", sound["spec"].clone()).err(),
                        _ => check::profile(sound["spec"].clone()).err(),
                    };
                    read += usize::from(refused.is_empty());
                    for problem in problems.into_iter().flatten() {
                        // Only the reader of types says that something is missing, or not of a type.
                        let of_types = [
                            " is missing",
                            " is not a text",
                            " is not a whole",
                            " is not true",
                            " is not a list",
                            " is not an object",
                            "cannot be read",
                        ];
                        assert!(
                            !of_types.iter().any(|words| problem.wrong.contains(words)),
                            "{path} {value}: {problem}"
                        );
                    }
                }
            }
        }
        assert!(read > 30, "{read} values are taken");
    }

    /// Where a schema has fields and items, as JSON pointers.
    fn paths(schema: &Schema, path: &str) -> Vec<String> {
        let fields = schema.properties.iter().map(|(name, field)| (format!("{path}/{name}"), field));
        let items = schema.items.iter().map(|items| (format!("{path}/0"), &**items));
        let entries = schema.additional_properties.iter().map(|entries| (format!("{path}/cpu"), &**entries));
        let below = fields.chain(items).chain(entries).flat_map(|(path, schema)| paths(schema, &path));
        std::iter::once(path.to_owned()).chain(below).collect()
    }

    /// Puts a value at a pointer, with what must be around it.
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
        assert_eq!(nodes(manifests(text)).unwrap().keys().collect::<Vec<_>>(), ["win-1"]);
        let wrong = text.replace("windows}}", "windows}}, spec: {taints: 7}");
        let told = nodes(manifests(&wrong)).unwrap_err()[0].to_string();
        assert!(told.starts_with("pool.yaml:5: spec.taints: "), "{told}");
    }
}
