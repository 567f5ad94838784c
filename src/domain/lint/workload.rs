//! Objects that have a pod or make pods.

use std::borrow::Cow;

use serde_json::Value;

use super::{Code, Finding, join, mend::Mended, path::fields};
use crate::domain::{
    quantity::Quantity,
    workload::{System, Template},
};

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
    /// There is none, or so much is wrong with it that nothing is known of it.
    pub fn template(&self) -> Result<Template, Vec<Finding>> {
        let read = self.read();
        read.template.ok_or(read.findings)
    }

    /// The pod's spec, with what the API server refuses in it.
    pub(super) fn read(&self) -> Read<'a> {
        let (path, spec) = (self.spec_path(), self.spec());
        if spec.is_null() {
            let finding = Finding::new(Code::PodInvalid, path, format!("this {} has no spec of a pod", self.kind));
            return Read { template: None, spec: Cow::Borrowed(spec), findings: vec![finding] };
        }
        let Mended { decoded, value: spec, mut findings } = Mended::of(spec);
        if let Some(decoded) = decoded.as_ref().filter(|_| findings.is_empty())
            && decoded.containers.is_empty()
        {
            findings.push(Finding::new(Code::PodInvalid, "containers", "a pod has at least one container"));
        }
        findings.extend(quantities(&spec));
        let template = decoded.map(|decoded| {
            let mut template = Template::from(&decoded);
            // Whoever writes Windows means windows.
            let says_windows = decoded.os.is_some_and(|os| os.name.eq_ignore_ascii_case("windows"));
            template.os = if says_windows { Some(System::Windows) } else { template.os };
            template
        });
        let findings = findings.into_iter().map(|finding| finding.below(&path)).collect();
        Read { template, spec, findings }
    }

    /// The annotation with which Kubernetes up to 1.20 was asked for Hyper-V isolation.
    pub(super) fn hyperv_annotation(&self) -> Vec<Finding> {
        let found = self.annotations(HYPERV_ANNOTATION);
        found
            .map(|(path, value)| Finding::new(Code::HypervAnnotation, path, format!("{value:?} does nothing")))
            .collect()
    }
}

/// A pod's spec, read as far as it can be.
pub(super) struct Read<'a> {
    /// What the rules read of it.
    pub template: Option<Template>,
    /// The spec without the values that the API server refuses for their type.
    pub spec: Cow<'a, Value>,
    /// What it refuses.
    pub findings: Vec<Finding>,
}

/// Amounts that are none.
fn quantities(spec: &Value) -> Vec<Finding> {
    let lists = ["containers[].resources.limits", "containers[].resources.requests"].into_iter();
    let amounts = lists.flat_map(|list| fields(spec, list)).flat_map(|(path, amounts)| {
        let amounts = amounts.as_object().into_iter().flatten();
        amounts.filter_map(move |(name, amount)| Some((format!("{path}[{name}]"), amount.as_str()?)))
    });
    amounts.filter_map(|(path, amount)| Some(no_quantity(path, amount, amount.parse::<Quantity>().err()?))).collect()
}

fn no_quantity(path: String, amount: &str, error: impl std::fmt::Display) -> Finding {
    // GB and GiB are everywhere but in Kubernetes.
    let instead = amount.strip_suffix(['B', 'b']).filter(|amount| amount.parse::<Quantity>().is_ok());
    let instead = instead
        .map_or("write a number with k, M, G, T, or Ki, Mi, Gi, Ti, such as 1Gi".to_owned(), |amount| {
            format!("write {amount}")
        });
    Finding::new(Code::PodInvalid, path, error).instead(instead)
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
            assert_eq!(told(&object), [expected]);
        }
    }

    fn told(object: &Value) -> Vec<String> {
        let findings = Workload::of(object).unwrap().read().findings;
        findings.into_iter().map(|finding| format!("{}: {}", finding.path, finding.message)).collect()
    }

    #[test]
    fn an_amount_is_a_number_with_a_suffix_of_kubernetes() {
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
            let findings = Workload::of(&object).unwrap().read().findings;
            let found = findings.first().map(|finding| (finding.path.as_str(), finding.remedy.as_str()));
            assert_eq!(
                found,
                expected.map(|remedy| ("spec.containers[0].resources.limits[memory]", remedy)),
                "{amount}"
            );
        }
    }
}
