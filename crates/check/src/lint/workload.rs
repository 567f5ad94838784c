//! Objects with a pod spec or a pod template.

use std::borrow::Cow;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{Pod, PodTemplate, ReplicationController},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;
use winpool_core::{json_path::fields, kubernetes::quantity::Quantity, placeholder};
use winpool_facts::{Minor, api_versions::API_VERSIONS};
use winpool_workload::{System, Template};

use super::{Code, Finding, hints::suggests_windows, join, lenient_spec::LenientSpec, os_label};

/// A kind of objects with a pod spec or a pod template.
pub(super) struct WorkloadKind {
    pub name: &'static str,
    /// The path of the pod template; empty for a Pod, which is its own template.
    template: &'static str,
    /// Adds the schemas of its type, and of the types of its fields.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

const fn kind<T: JsonSchema>(name: &'static str, template: &'static str) -> WorkloadKind {
    WorkloadKind { name, template, schema: SchemaGenerator::subschema_for::<T> }
}

/// All kinds.
pub(super) static KINDS: [WorkloadKind; 9] = [
    kind::<Pod>("Pod", ""),
    kind::<PodTemplate>("PodTemplate", "template"),
    kind::<ReplicationController>("ReplicationController", "spec.template"),
    kind::<Deployment>("Deployment", "spec.template"),
    kind::<ReplicaSet>("ReplicaSet", "spec.template"),
    kind::<DaemonSet>("DaemonSet", "spec.template"),
    kind::<StatefulSet>("StatefulSet", "spec.template"),
    kind::<Job>("Job", "spec.template"),
    kind::<CronJob>("CronJob", "spec.jobTemplate.spec.template"),
];

const HYPERV_ANNOTATION: &str = "experimental.windows.kubernetes.io/isolation-type";

/// An object with a pod spec or a pod template.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    object: &'a Value,
    kind: &'a str,
    template: &'static str,
}

/// The group of an object's API version.
pub(super) fn group(object: &Value) -> &str {
    object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group)
}

/// An API version that the API server does not serve for the kind of an object; `None` if the version is served, or if
/// the kind is unknown.
pub(super) fn api_version(object: &Value, minor: Minor) -> Option<Finding> {
    let kind = object["kind"].as_str()?;
    let (_, versions) = API_VERSIONS.iter().find(|(known, _)| *known == kind)?;
    let written = object["apiVersion"].as_str().unwrap_or_default();
    let version = versions.iter().find(|version| version.api_version == written);
    if version.is_some_and(|version| version.is_served_by(minor)) {
        return None;
    }
    let served = versions.iter().find(|version| version.is_served_by(minor))?.api_version;
    let problem = match version.and_then(|version| version.removed) {
        Some(removed) => format!("Kubernetes {removed} and later do not serve {written} for {kind}"),
        None if written.is_empty() => format!("the {kind} has no apiVersion"),
        None => format!("Kubernetes {minor} does not serve {written} for {kind}"),
    };
    Some(Finding::new(Code::ApiVersion, "apiVersion", problem).with_remedy(format!("write {served}")))
}

impl<'a> Workload<'a> {
    /// The object as a workload; `None` if its kind has no pods, or if its API group has a domain that is not that of
    /// Kubernetes.
    pub fn of(object: &'a Value) -> Option<Self> {
        let kind = object["kind"].as_str()?;
        let WorkloadKind { template, .. } = KINDS.iter().find(|known| known.name == kind)?;
        (!group(object).contains('.')).then_some(Self { object, kind, template })
    }

    pub(super) fn object(&self) -> &'a Value {
        self.object
    }

    pub fn title(&self) -> String {
        format!("{} {}", self.kind, self.object["metadata"]["name"].as_str().unwrap_or_default())
    }

    /// Whether it is a part of an object that another program completes, such as a patch of Kustomize: it has only init containers, no
    /// container with an image, or without a selector one that has none.
    pub fn is_patch(&self) -> bool {
        let containers = fields(self.spec(), "containers[]");
        match self.kind {
            "Pod" if containers.is_empty() => false,
            kind => {
                let is_completed = kind != "Pod" && self.spec()["containers"].is_null();
                let has_selector = kind == "Pod" || !self.object["spec"]["selector"].is_null();
                let mut without_image = containers.iter().map(|(_, container)| container.get("image").is_none());
                is_completed || if has_selector { without_image.all(|is| is) } else { without_image.any(|is| is) }
            }
        }
    }

    /// The names of the claims that its pods mount. Those of a StatefulSet have an index, and are omitted.
    pub fn claims(&self) -> impl Iterator<Item = String> + use<'a> {
        let claims = fields(self.spec(), "volumes[].persistentVolumeClaim.claimName").into_iter();
        claims.filter_map(|(_, name)| Some(name.as_str()?.to_owned()))
    }

    pub fn kind(&self) -> &'a str {
        self.kind
    }

    /// Its namespace; empty without one.
    pub fn namespace(&self) -> &'a str {
        self.object["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    /// The number of its pods; 1 if it is not set.
    pub fn replicas(&self) -> u64 {
        self.object["spec"]["replicas"].as_u64().unwrap_or(1)
    }

    /// The object with the pod's metadata and spec.
    fn pod(&self) -> &'a Value {
        let steps = self.template.split('.').filter(|step| !step.is_empty());
        steps.fold(self.object, |value, step| &value[step])
    }

    /// The pod's spec.
    pub fn spec(&self) -> &'a Value {
        &self.pod()["spec"]
    }

    /// The path of the pod's spec.
    pub fn spec_path(&self) -> String {
        join(self.template, "spec")
    }

    /// The labels of its pods.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let labels = self.pod()["metadata"]["labels"].as_object().into_iter().flatten();
        labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// An annotation of the object or of its pods, with its path.
    pub fn annotations(&self, key: &str) -> impl Iterator<Item = (String, &'a str)> {
        let places = [("", self.object), (self.template, self.pod())];
        let distinct = if self.template.is_empty() { 1 } else { 2 };
        let key = key.to_owned();
        places.into_iter().take(distinct).filter_map(move |(path, value)| {
            let text = value["metadata"]["annotations"][&key].as_str()?;
            Some((join(path, &format!("metadata.annotations[{key}]")), text))
        })
    }

    /// The pod template; an error if it is missing or cannot be decoded.
    pub fn template(&self) -> Result<Template, Vec<Finding>> {
        let spec = self.pod_spec();
        spec.template.ok_or(spec.findings)
    }

    /// The pod spec, with the findings about invalid values.
    pub(super) fn pod_spec(&self) -> PodSpec<'a> {
        let (path, spec) = (self.spec_path(), self.spec());
        if spec.is_null() {
            let finding = Finding::new(Code::PodInvalid, path, format!("the {} has no pod spec", self.kind));
            let findings = if self.is_patch() { Vec::new() } else { vec![finding] };
            return PodSpec {
                template: None,
                spec: Cow::Borrowed(spec),
                findings,
                placeholders: Vec::new(),
                suggests_windows: false,
            };
        }
        let LenientSpec { decoded, value: spec, mut findings, placeholders } = LenientSpec::decode(spec);
        if let Some(decoded) = decoded.as_ref().filter(|_| findings.is_empty())
            && decoded.containers.is_empty()
            && !self.is_patch()
        {
            findings.push(Finding::new(Code::PodInvalid, "containers", "the pod has no containers"));
        }
        findings.extend(quantities(&spec));
        let template = decoded.map(|decoded| {
            let mut template = Template::from(&decoded);
            // The rules for Windows also apply to a misspelled `windows`.
            let is_windows = decoded.os.is_some_and(|os| os.name.eq_ignore_ascii_case("windows"));
            template.os = if is_windows { Some(System::Windows) } else { template.os };
            findings.extend(os_label::correct(&mut template));
            template
        });
        let metadata = [&self.object["metadata"], &self.pod()["metadata"]];
        let annotations = metadata.iter().filter_map(|metadata| metadata["annotations"].as_object()).flatten();
        let annotations: Vec<_> = annotations.map(|(key, _)| key.as_str()).collect();
        let suggests_windows =
            template.as_ref().is_some_and(|template| suggests_windows(template, &spec, &annotations));
        let findings = findings.into_iter().map(|finding| finding.below(&path)).collect();
        let placeholders = placeholders.iter().map(|placeholder| join(&path, placeholder)).collect();
        PodSpec { template, spec, findings, placeholders, suggests_windows }
    }

    /// The annotation for Hyper-V isolation of Kubernetes up to 1.20.
    pub(super) fn hyperv_annotation(&self) -> Vec<Finding> {
        let found = self.annotations(HYPERV_ANNOTATION);
        found
            .map(|(path, value)| {
                Finding::new(Code::HypervAnnotation, path, format!("the value {value:?} has no effect"))
            })
            .collect()
    }
}

/// A pod spec without the values that have the wrong type.
pub(super) struct PodSpec<'a> {
    /// The template; `None` if it cannot be decoded.
    pub template: Option<Template>,
    pub spec: Cow<'a, Value>,
    pub findings: Vec<Finding>,
    /// The paths of the values that another program replaces.
    pub placeholders: Vec<String>,
    /// Whether there are hints that the pod is for Windows, apart from its operating system and placement.
    pub suggests_windows: bool,
}

fn quantities(spec: &Value) -> Vec<Finding> {
    let lists = ["containers[].resources.limits", "containers[].resources.requests"].into_iter();
    let amounts = lists.flat_map(|list| fields(spec, list)).flat_map(|(path, amounts)| {
        let amounts = amounts.as_object().into_iter().flatten();
        amounts.filter_map(move |(name, amount)| Some((format!("{path}[{name}]"), amount.as_str()?)))
    });
    amounts
        .filter(|(_, amount)| !placeholder::is_in(amount))
        .filter_map(|(path, amount)| Some(invalid_quantity(path, amount, amount.parse::<Quantity>().err()?)))
        .collect()
}

fn invalid_quantity(path: String, amount: &str, error: impl std::fmt::Display) -> Finding {
    // Units such as GB and GiB are a common mistake.
    let without_unit = amount.strip_suffix(['B', 'b']).filter(|amount| amount.parse::<Quantity>().is_ok());
    let remedy = match without_unit {
        Some(amount) => format!("write {amount}"),
        None => "write a number with k, M, G, T, or Ki, Mi, Gi, Ti, such as 1Gi".to_owned(),
    };
    Finding::new(Code::PodInvalid, path, error).with_remedy(remedy)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_workload_is_recognized_by_kind_and_group() {
        let table = [
            ("v1", "Pod", Some("spec")),
            ("v1", "PodTemplate", Some("template.spec")),
            ("apps/v1", "Deployment", Some("spec.template.spec")),
            ("extensions/v1beta1", "DaemonSet", Some("spec.template.spec")),
            ("batch/v1", "CronJob", Some("spec.jobTemplate.spec.template.spec")),
            ("v1", "Deployment", Some("spec.template.spec")),
            ("example.com/v1", "Deployment", None),
            ("v1", "ConfigMap", None),
        ];
        for (version, kind, expected) in table {
            let object = json!({"apiVersion": version, "kind": kind});
            assert_eq!(Workload::of(&object).map(|workload| workload.spec_path()).as_deref(), expected, "{kind}");
        }
    }

    #[test]
    fn invalid_values_are_reported_with_their_path() {
        let table = [
            (json!({}), "spec: the Pod has no pod spec. The API server rejects the pod."),
            (json!({"spec": {}}), "spec.containers: the pod has no containers. The API server rejects the pod."),
            (
                json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": "http"}]}]}}),
                "spec.containers[0].ports[0].containerPort: must be an integer, not \"http\". The API server rejects the pod.",
            ),
        ];
        for (mut object, expected) in table {
            object["kind"] = json!("Pod");
            assert_eq!(findings(&object), [expected]);
        }
    }

    #[test]
    fn an_api_version_is_one_that_the_minor_serves() {
        let table = [
            ("apps/v1", "Deployment", 34, None),
            ("v1", "Deployment", 34, Some("Kubernetes 1.34 does not serve v1 for Deployment | write apps/v1")),
            ("", "Pod", 34, Some("the Pod has no apiVersion | write v1")),
            (
                "extensions/v1beta1",
                "DaemonSet",
                30,
                Some("Kubernetes 1.16 and later do not serve extensions/v1beta1 for DaemonSet | write apps/v1"),
            ),
            (
                "batch/v1beta1",
                "CronJob",
                30,
                Some("Kubernetes 1.25 and later do not serve batch/v1beta1 for CronJob | write batch/v1"),
            ),
            ("v1", "ConfigMap", 34, None),
        ];
        for (version, kind, minor, expected) in table {
            let object = json!({"apiVersion": version, "kind": kind});
            let found = api_version(&object, Minor(minor));
            let found = found.map(|finding| format!("{} | {}", finding.problem, finding.remedy));
            assert_eq!(found.as_deref(), expected, "{kind} {version} in 1.{minor}");
        }
    }

    #[test]
    fn an_object_without_images_is_a_patch() {
        let template = |spec: Value| json!({"kind": "Deployment", "spec": {"template": {"spec": spec}}});
        let table = [
            (json!({"kind": "Deployment", "spec": {"replicas": 3}}), true),
            (template(json!({"nodeSelector": {}})), true),
            (template(json!({"containers": [{"name": "a", "env": []}]})), true),
            (template(json!({"containers": [{"name": "a", "image": ""}]})), false),
            (template(json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b"}]})), true),
            (template(json!({"containers": [{"name": "a", "image": "a:1"}]})), false),
            (
                json!({"kind": "Deployment", "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [
                    {"name": "a", "image": "a:1"}, {"name": "b"},
                ]}}}}),
                false,
            ),
            (template(json!({"initContainers": [{"name": "a", "image": "a:1"}]})), true),
            (template(json!({"initContainers": [{"name": "a", "image": "a:1"}], "containers": []})), false),
            (json!({"kind": "Pod"}), false),
            (json!({"kind": "Pod", "spec": {"containers": []}}), false),
            (json!({"kind": "Pod", "spec": {"containers": [{"name": "a"}]}}), true),
        ];
        for (object, expected) in table {
            assert_eq!(Workload::of(&object).unwrap().is_patch(), expected, "{object}");
        }
    }

    fn findings(object: &Value) -> Vec<String> {
        let findings = Workload::of(object).unwrap().pod_spec().findings;
        findings.into_iter().map(|finding| format!("{}: {}", finding.path, finding.message())).collect()
    }

    #[test]
    fn a_quantity_has_a_suffix_of_kubernetes() {
        let table = [
            (json!("1GB"), Some("write 1G")),
            (json!("512MiB"), Some("write 512Mi")),
            (json!("1 Gi"), Some("write a number with k, M, G, T, or Ki, Mi, Gi, Ti, such as 1Gi")),
            (json!("1Gi"), None),
            (json!("${MEMORY}"), None),
            (json!(1_073_741_824), None),
            (json!(0.5), None),
        ];
        for (amount, expected) in table {
            let object =
                json!({"kind": "Pod", "spec": {"containers": [{"resources": {"limits": {"memory": amount}}}]}});
            let findings = Workload::of(&object).unwrap().pod_spec().findings;
            let found = findings.first().map(|finding| (finding.path.as_str(), finding.remedy.as_str()));
            assert_eq!(
                found,
                expected.map(|remedy| ("spec.containers[0].resources.limits[memory]", remedy)),
                "{amount}"
            );
        }
    }
}
