//! Decodes a pod spec with values of the wrong type: these are reported, and the others are decoded.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};
use winpool_core::{decoding_problem, placeholder};

use super::{Code, Finding};

/// The maximum number of reported values of a spec.
const MAX_FINDINGS: usize = 20;

/// A pod spec without the values that have the wrong type.
pub struct LenientSpec<'a> {
    /// The decoded spec; `None` if it cannot be decoded.
    pub decoded: Option<PodSpec>,
    /// The spec as JSON.
    pub value: Cow<'a, Value>,
    /// The values of the wrong type, with paths in the spec.
    pub findings: Vec<Finding>,
    /// The paths of placeholders in place of values of another type.
    pub placeholders: Vec<String>,
}

impl<'a> LenientSpec<'a> {
    pub fn decode(spec: &'a Value) -> Self {
        let mut value = Cow::Borrowed(spec);
        let mut findings: Vec<Finding> = Vec::new();
        let mut placeholders = Vec::new();
        let mut with_nulls = 0;
        while findings.len() < MAX_FINDINGS {
            let error = match serde_path_to_error::deserialize::<_, PodSpec>(value.as_ref()) {
                Ok(decoded) => return Self { decoded: Some(decoded), value, findings, placeholders },
                Err(error) => error,
            };
            let path: Vec<_> = error.path().iter().collect();
            if with_nulls < MAX_FINDINGS && remove_nulls(value.to_mut(), &path) {
                with_nulls += 1;
                continue;
            }
            let is_field = matches!(path.last(), Some(Segment::Map { .. }));
            let wrong = at(value.to_mut(), &path);
            let problem = decoding_problem("", &error);
            if placeholders.len() < MAX_FINDINGS
                && wrong.as_deref().is_some_and(|wrong| is_placeholder(wrong, is_field))
            {
                wrong.map(Value::take);
                placeholders.push(problem.path);
                continue;
            }
            // After a required value was set to null, it is reported again.
            let is_known =
                findings.iter().map(|finding| &finding.path).chain(&placeholders).any(|path| *path == problem.path);
            if !is_known {
                findings.push(Finding::new(Code::PodInvalid, problem.path, problem.wrong).with_remedy(problem.remedy));
            }
            if !set_null(value.to_mut(), error.path()) {
                break;
            }
        }
        Self { decoded: None, value, findings, placeholders }
    }
}

/// Whether another program replaces a value. YAML reads `{name}` as an object, as it does an item `- name:` of a list.
fn is_placeholder(value: &Value, is_field: bool) -> bool {
    let is_name = |(name, value): (&String, &Value)| value.is_null() && placeholder::is_name(name);
    let is_braced = |fields: &Map<String, Value>| is_field && fields.len() == 1 && fields.iter().all(is_name);
    value.as_str().is_some_and(placeholder::is_in) || value.as_object().is_some_and(is_braced)
}

/// Removes the fields without a value from the object with a null at this path, as a merge patch does; false if there is no null.
fn remove_nulls(value: &mut Value, path: &[&Segment]) -> bool {
    let Some((Segment::Map { key }, parents)) = path.split_last() else { return false };
    let fields = at(value, parents).and_then(Value::as_object_mut);
    let Some(fields) = fields.filter(|fields| fields.get(key).is_some_and(Value::is_null)) else { return false };
    fields.retain(|_, value| !value.is_null());
    true
}

/// Sets the value at a path to null, or the innermost value around it that is not null; false if there is none.
fn set_null(value: &mut Value, path: &Path) -> bool {
    let segments: Vec<_> = path.iter().collect();
    let length =
        (1..=segments.len()).rev().find(|length| at(value, &segments[..*length]).is_some_and(|at| !at.is_null()));
    length.and_then(|length| at(value, &segments[..length])).map(Value::take).is_some()
}

fn at<'v>(value: &'v mut Value, path: &[&Segment]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        Segment::Seq { index } => value.get_mut(index),
        Segment::Map { key } => value.get_mut(key),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_of_the_wrong_type_is_reported_and_the_rest_is_decoded() {
        let containers = json!([
            {"name": false, "image": "a:1", "env": [{"name": "A", "value": 8080}, {"name": "B", "value": "b"}]},
            {"name": "b", "args": ["x", 7], "tty": "yes"},
        ]);
        let spec = json!({"containers": containers, "nodeSelector": {"kubernetes.io/os": "windows"}, "hostPID": 1});
        let LenientSpec { decoded, value, findings, .. } = LenientSpec::decode(&spec);
        let paths = findings.iter().map(|finding| finding.path.as_str());
        let expected = [
            "containers[0].name",
            "containers[0].env[0].value",
            "containers[1].tty",
            "containers[1].args[1]",
            "hostPID",
        ];
        assert_eq!(std::collections::BTreeSet::from_iter(paths), expected.into());
        assert_eq!(findings.iter().filter(|finding| finding.remedy.ends_with(" in quotes")).count(), 3);
        let decoded = decoded.unwrap();
        assert_eq!(decoded.containers[0].image.as_deref(), Some("a:1"));
        assert_eq!(decoded.containers[0].env.as_ref().unwrap()[1].value.as_deref(), Some("b"));
        assert_eq!(value["containers"][0]["name"], Value::Null);
    }

    #[test]
    fn placeholders_and_nulls_are_not_reported() {
        let spec = json!({
            "nodeSelector": {"a": null, "kubernetes.io/os": "windows"},
            "hostNetwork": "${HOST_NETWORK}",
            "containers": [{"ports": [{"containerPort": "<port>"}], "resources": {"limits": {"cpu": null}}}],
            "volumes": [{"azureDisk": {"diskName": {"disk-id": null}}}],
            "terminationGracePeriodSeconds": "30",
            "hostname": {"--flag": null},
        });
        let LenientSpec { decoded, findings, mut placeholders, .. } = LenientSpec::decode(&spec);
        placeholders.sort();
        let expected = ["containers[0].ports[0].containerPort", "hostNetwork", "volumes[0].azureDisk.diskName"];
        assert_eq!(placeholders, expected);
        let mut found: Vec<_> = findings.iter().map(|finding| finding.path.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, ["hostname", "terminationGracePeriodSeconds"]);
        assert_eq!(decoded.unwrap().node_selector.unwrap().len(), 1);
    }

    #[test]
    fn decoding_ends_if_no_value_can_be_removed() {
        for spec in [json!(7), json!([]), json!({"containers": [[null]]}), json!({"containers": vec![7; 100]})] {
            let LenientSpec { findings, .. } = LenientSpec::decode(&spec);
            assert_eq!(findings.len(), 1, "{spec}: {findings:?}");
        }
        let ports: Vec<_> = (0..100).map(|_| json!({"containerPort": "http"})).collect();
        let spec = json!({"containers": [{"ports": ports}]});
        assert_eq!(LenientSpec::decode(&spec).findings.len(), MAX_FINDINGS);
    }
}
