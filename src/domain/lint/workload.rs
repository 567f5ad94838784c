//! Objects with a pod spec or a pod template.

use std::borrow::Cow;

use serde_json::Value;

use super::{Code, Finding, join, lenient_spec::LenientSpec};
use crate::domain::{
    json_path::fields,
    kubernetes::quantity::Quantity,
    workload::{System, Template},
};

/// The kinds, their API groups, and the path of the pod template; a Pod is its own template.
const KINDS: [(&str, &[&str], &str); 9] = [
    ("Pod", &[""], ""),
    ("PodTemplate", &[""], "template"),
    ("ReplicationController", &[""], "spec.template"),
    ("Deployment", &["apps", "extensions"], "spec.template"),
    ("ReplicaSet", &["apps", "extensions"], "spec.template"),
    ("DaemonSet", &["apps", "extensions"], "spec.template"),
    ("StatefulSet", &["apps"], "spec.template"),
    ("Job", &["batch"], "spec.template"),
    ("CronJob", &["batch"], "spec.jobTemplate.spec.template"),
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

impl<'a> Workload<'a> {
    /// The object as a workload; `None` if its kind has no pods.
    pub fn of(object: &'a Value) -> Option<Self> {
        let kind = object["kind"].as_str()?;
        let (_, groups, template) = KINDS.iter().find(|(known, ..)| *known == kind)?;
        groups.contains(&group(object)).then_some(Self { object, kind, template })
    }

    /// Its kind.
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

    /// The pod template.
    ///
    /// # Errors
    /// It is missing or cannot be decoded.
    pub fn template(&self) -> Result<Template, Vec<Finding>> {
        let spec = self.pod_spec();
        spec.template.ok_or(spec.findings)
    }

    /// The pod spec, with the findings about invalid values.
    pub(super) fn pod_spec(&self) -> PodSpec<'a> {
        let (path, spec) = (self.spec_path(), self.spec());
        if spec.is_null() {
            let finding = Finding::new(Code::PodInvalid, path, format!("the {} has no pod spec", self.kind));
            return PodSpec { template: None, spec: Cow::Borrowed(spec), findings: vec![finding] };
        }
        let LenientSpec { decoded, value: spec, mut findings } = LenientSpec::decode(spec);
        if let Some(decoded) = decoded.as_ref().filter(|_| findings.is_empty())
            && decoded.containers.is_empty()
        {
            findings.push(Finding::new(Code::PodInvalid, "containers", "the pod has no containers"));
        }
        findings.extend(quantities(&spec));
        let template = decoded.map(|decoded| {
            let mut template = Template::from(&decoded);
            // The rules for Windows also apply to a misspelled `windows`.
            let is_windows = decoded.os.is_some_and(|os| os.name.eq_ignore_ascii_case("windows"));
            template.os = if is_windows { Some(System::Windows) } else { template.os };
            template
        });
        let findings = findings.into_iter().map(|finding| finding.below(&path)).collect();
        PodSpec { template, spec, findings }
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
    /// The spec as JSON.
    pub spec: Cow<'a, Value>,
    /// The invalid values.
    pub findings: Vec<Finding>,
}

/// Invalid quantities.
fn quantities(spec: &Value) -> Vec<Finding> {
    let lists = ["containers[].resources.limits", "containers[].resources.requests"].into_iter();
    let amounts = lists.flat_map(|list| fields(spec, list)).flat_map(|(path, amounts)| {
        let amounts = amounts.as_object().into_iter().flatten();
        amounts.filter_map(move |(name, amount)| Some((format!("{path}[{name}]"), amount.as_str()?)))
    });
    amounts
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

    fn findings(object: &Value) -> Vec<String> {
        let findings = Workload::of(object).unwrap().pod_spec().findings;
        findings.into_iter().map(|finding| format!("{}: {}", finding.path, finding.message)).collect()
    }

    #[test]
    fn a_quantity_has_a_suffix_of_kubernetes() {
        let table = [
            (json!("1GB"), Some("write 1G")),
            (json!("512MiB"), Some("write 512Mi")),
            (json!("1 Gi"), Some("write a number with k, M, G, T, or Ki, Mi, Gi, Ti, such as 1Gi")),
            (json!("1Gi"), None),
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
