//! Fields of a pod spec that have no effect on Windows, or that the API server rejects there.

use serde_json::Value;
use winpool_core::json_path::fields as at;
use winpool_facts::{
    Minor,
    pod_fields::{
        Feature, REJECTED, REJECTED_UNLISTED, RejectedField, SEVERAL_SUB_PATHS_SINCE, UNSUPPORTED, UnsupportedField,
        ValueMatch,
    },
};

#[derive(Clone, Debug, PartialEq)]
pub struct FieldIssue {
    pub path: String,
    pub kind: FieldIssueKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldIssueKind {
    Rejected(&'static RejectedField),
    /// It has no effect; with `spec.os.name: windows` the API server may reject it.
    Ignored(&'static RejectedField),
    /// Windows does not support its feature, or only in part.
    Unsupported(&'static UnsupportedField),
    /// It is one of several `subPath` mounts, which kubelets before [`SEVERAL_SUB_PATHS_SINCE`] mount incorrectly.
    SeveralSubPaths,
}

impl FieldIssue {
    /// Whether the finding is a note and not a warning, because the field works in part.
    pub fn is_only_informative(&self) -> bool {
        match self.kind {
            FieldIssueKind::Unsupported(field) => {
                matches!(field.feature, Feature::SubPath | Feature::FileMode | Feature::Resize)
            }
            FieldIssueKind::SeveralSubPaths => true,
            FieldIssueKind::Rejected(_) | FieldIssueKind::Ignored(_) => false,
        }
    }
}

pub fn issues(spec: &Value, minor: Minor) -> Vec<FieldIssue> {
    let os_is_windows = spec["os"]["name"] == "windows";
    let rejected = REJECTED.iter().chain(REJECTED_UNLISTED).flat_map(|field| {
        let is_rejected = os_is_windows && field.since <= minor;
        let kind = if is_rejected { FieldIssueKind::Rejected(field) } else { FieldIssueKind::Ignored(field) };
        field_paths(spec, field.path, field.values).map(move |path| FieldIssue { path, kind })
    });
    // HostProcess containers use the network of the host, and with it its names.
    let of_host = |feature| matches!(feature, Feature::HostNetwork | Feature::HostNetworkDns);
    let host_process = has_host_process(spec);
    let unsupported = UNSUPPORTED.iter().filter(|field| !(host_process && of_host(field.feature)));
    let sub_paths = unsupported.clone().filter(|field| field.feature == Feature::SubPath);
    let several = sub_paths.flat_map(|field| field_paths(spec, field.path, field.values)).count() > 1;
    let several = several && minor < SEVERAL_SUB_PATHS_SINCE;
    let unsupported = unsupported.flat_map(|field| {
        let kind = match field.feature {
            Feature::SubPath if several => FieldIssueKind::SeveralSubPaths,
            _ => FieldIssueKind::Unsupported(field),
        };
        field_paths(spec, field.path, field.values).map(move |path| FieldIssue { path, kind })
    });
    rejected.chain(unsupported).collect()
}

pub fn field_paths<'v>(spec: &'v Value, pattern: &str, values: ValueMatch) -> impl Iterator<Item = String> + use<'v> {
    at(spec, pattern).into_iter().filter(move |(_, value)| matches(value, values)).map(|(path, _)| path)
}

fn matches(value: &Value, values: ValueMatch) -> bool {
    match values {
        ValueMatch::Any => !value.is_null(),
        ValueMatch::True => *value == true,
        ValueMatch::Equals(text) => *value == text,
        ValueMatch::NumberExcept(number) => value.is_number() && *value != number,
        ValueMatch::StringExcept(text) => value.is_string() && *value != text,
        ValueMatch::NonEmpty => match value {
            Value::Array(items) => !items.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => false,
        },
    }
}

/// An option in the `windowsOptions` of a container, or else of its pod, with its path.
pub fn windows_option<'v>(spec: &'v Value, container: &(String, &'v Value), name: &str) -> Option<(String, &'v Value)> {
    let field = format!("securityContext.windowsOptions.{name}");
    let own =
        at(container.1, &field).into_iter().next().map(|(path, value)| (format!("{}.{path}", container.0), value));
    own.or_else(|| at(spec, &field).into_iter().next())
}

pub fn is_host_process(spec: &Value, container: &(String, &Value)) -> bool {
    windows_option(spec, container, "hostProcess").is_some_and(|(_, value)| *value == true)
}

fn has_host_process(spec: &Value) -> bool {
    spec["securityContext"]["windowsOptions"]["hostProcess"] == true
        || at(spec, "containers[]").iter().any(|container| is_host_process(spec, container))
}
