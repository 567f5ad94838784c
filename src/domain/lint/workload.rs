//! Objects that have a pod or make pods.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::Value;

use super::{Code, Finding, join};
use crate::domain::{decode, workload::Template};

/// The kinds, their groups, and where each has its pod template; a Pod is its own.
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

/// An object that has a pod or makes pods.
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
    /// The object as a workload, if its kind is one.
    pub fn of(object: &'a Value) -> Option<Self> {
        let kind = object["kind"].as_str()?;
        let (_, groups, template) = KINDS.iter().find(|(known, ..)| *known == kind)?;
        groups.contains(&group(object)).then_some(Self { object, kind, template })
    }

    /// Its kind.
    pub fn kind(&self) -> &'a str {
        self.kind
    }

    /// Its namespace; what is written without one goes together.
    pub fn namespace(&self) -> &'a str {
        self.object["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    /// How many pods it is to have, as far as it says so.
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

    /// What the rules read of the pod's spec.
    ///
    /// # Errors
    /// There is none, or it is not of the shape that the API has.
    pub fn template(&self) -> Result<Template, Finding> {
        let path = self.spec_path();
        let spec = self.spec();
        if spec.is_null() {
            return Err(Finding::new(Code::PodInvalid, path, format!("this {} has no spec of a pod", self.kind)));
        }
        let decoded = decode::<PodSpec>(&path, spec.clone());
        let decoded = decoded.map_err(|problem| Finding::new(Code::PodInvalid, problem.path, problem.wrong))?;
        if decoded.containers.is_empty() {
            return Err(Finding::new(Code::PodInvalid, join(&path, "containers"), "a pod has at least one container"));
        }
        Ok(Template::from(&decoded))
    }

    /// The annotation with which Kubernetes up to 1.20 was asked for Hyper-V isolation.
    pub(super) fn hyperv_annotation(&self) -> Vec<Finding> {
        let found = self.annotations(HYPERV_ANNOTATION);
        found
            .map(|(path, value)| Finding::new(Code::HypervAnnotation, path, format!("{value:?} does nothing")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_workload_is_known_by_kind_and_group() {
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
    fn what_the_api_server_would_refuse_is_told_with_its_path() {
        let table = [
            (json!({}), "spec: this Pod has no spec of a pod. The API server refuses it."),
            (json!({"spec": {}}), "spec.containers: a pod has at least one container. The API server refuses it."),
            (
                json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": "http"}]}]}}),
                "spec.containers[0].ports[0].containerPort: \"http\" is not a whole number. The API server refuses it.",
            ),
        ];
        for (mut object, expected) in table {
            object["kind"] = json!("Pod");
            let finding = Workload::of(&object).unwrap().template().unwrap_err();
            assert_eq!(format!("{}: {}", finding.path, finding.message), expected);
        }
    }
}
