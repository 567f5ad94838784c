//! Reading a pod's spec in which values are of another type: each is told, and the others are read all the same.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::{Code, Finding};
use crate::domain::misread;

/// As many mistakes of one spec as are told.
const MOST: usize = 20;

/// A spec, read as far as it can be.
pub struct Mended<'a> {
    /// The spec, if anything can be read of it.
    pub decoded: Option<PodSpec>,
    /// The values, without those that are of another type.
    pub value: Cow<'a, Value>,
    /// What is of another type, with paths below the spec.
    pub findings: Vec<Finding>,
}

impl<'a> Mended<'a> {
    /// Reads a spec.
    pub fn of(spec: &'a Value) -> Self {
        let mut value = Cow::Borrowed(spec);
        let mut findings: Vec<Finding> = Vec::new();
        while findings.len() < MOST {
            let error = match serde_path_to_error::deserialize::<_, PodSpec>(value.as_ref()) {
                Ok(decoded) => return Self { decoded: Some(decoded), value, findings },
                Err(error) => error,
            };
            let problem = misread("", &error);
            // Where nothing will not do either, the same place is found again.
            if findings.iter().all(|finding| finding.path != problem.path) {
                findings.push(Finding::new(Code::PodInvalid, problem.path, problem.wrong).instead(problem.remedy));
            }
            if !blank(value.to_mut(), error.path()) {
                break;
            }
        }
        Self { decoded: None, value, findings }
    }
}

/// Makes the value at a path null, or the nearest around it that is not null yet; false if there is none.
fn blank(value: &mut Value, path: &Path) -> bool {
    let segments: Vec<_> = path.iter().collect();
    let place =
        (1..=segments.len()).rev().find(|length| at(value, &segments[..*length]).is_some_and(|at| !at.is_null()));
    let found = place.and_then(|length| at(value, &segments[..length]));
    found.map(Value::take).is_some()
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
    fn every_value_of_another_type_is_told_and_the_rest_is_read() {
        let containers = json!([
            {"name": false, "image": "a:1", "env": [{"name": "A", "value": 8080}, {"name": "B", "value": "b"}]},
            {"name": "b", "args": ["x", 7], "tty": "yes"},
        ]);
        let spec = json!({"containers": containers, "nodeSelector": {"kubernetes.io/os": "windows"}, "hostPID": 1});
        let Mended { decoded, value, findings } = Mended::of(&spec);
        let told: Vec<_> = findings.iter().map(|finding| finding.path.as_str()).collect();
        let expected = [
            "containers[0].name",
            "containers[0].env[0].value",
            "containers[1].tty",
            "containers[1].args[1]",
            "hostPID",
        ];
        assert_eq!(std::collections::BTreeSet::from_iter(told), expected.into());
        assert_eq!(findings.iter().filter(|finding| finding.remedy == "write it in quotes").count(), 3);
        let decoded = decoded.unwrap();
        assert_eq!(decoded.containers[0].image.as_deref(), Some("a:1"));
        assert_eq!(decoded.containers[0].env.as_ref().unwrap()[1].value.as_deref(), Some("b"));
        assert_eq!(value["containers"][0]["name"], Value::Null);
    }

    #[test]
    fn what_cannot_be_mended_ends() {
        for spec in [json!(7), json!([]), json!({"containers": [[null]]}), json!({"containers": vec![7; 100]})] {
            let Mended { findings, .. } = Mended::of(&spec);
            assert_eq!(findings.len(), 1, "{spec}: {findings:?}");
        }
        let ports: Vec<_> = (0..100).map(|_| json!({"containerPort": "http"})).collect();
        let spec = json!({"containers": [{"ports": ports}]});
        assert_eq!(Mended::of(&spec).findings.len(), MOST);
    }
}
