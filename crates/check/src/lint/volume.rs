//! PersistentVolumes that Windows nodes cannot mount.

use serde_json::Value;
use winpool_core::json_path::fields as at;

use super::{Code, Finding, LintContext};

/// The types of volumes that Windows nodes cannot mount.
const TYPES: [(&str, Code, &str); 2] =
    [("nfs", Code::NfsVolume, "an NFS volume"), ("iscsi", Code::IscsiVolume, "an iSCSI volume")];

/// The findings of a PersistentVolume of core/v1, if a pod for Windows uses it.
pub fn check(object: &Value, context: &LintContext<'_>) -> Vec<Finding> {
    let spec = &object["spec"];
    let found = TYPES.iter().filter(|(field, ..)| !spec[*field].is_null());
    let user = context.user_of_volume(object);
    let finding = |(field, code, what): &(&str, Code, &str)| {
        let problem = match &user {
            Some(user) => format!("the volume of {user}, which is for Windows, is {what}"),
            None if requires_windows(spec) => format!("the volume for Windows nodes is {what}"),
            None => return None,
        };
        Some(Finding::new(*code, format!("spec.{field}"), problem))
    };
    found.filter_map(finding).collect()
}

/// Whether the volume is for Windows nodes only: each of the alternatives requires Windows.
fn requires_windows(spec: &Value) -> bool {
    let terms = at(spec, "nodeAffinity.required.nodeSelectorTerms[]");
    let is_windows = |expression: &Value| {
        expression["key"] == winpool_api::names::label::OS
            && expression["operator"] == "In"
            && expression["values"].as_array().is_some_and(|values| values.iter().all(|value| value == "windows"))
    };
    let is_for_windows = |term: &Value| at(term, "matchExpressions[]").into_iter().any(|(_, found)| is_windows(found));
    !terms.is_empty() && terms.iter().all(|(_, term)| is_for_windows(term))
}
