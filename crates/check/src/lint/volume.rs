//! PersistentVolumes and storage classes that Windows nodes cannot mount.

use serde_json::Value;
use winpool_core::json_path::fields as at;

use super::{Code, Finding, LintContext, storage};

/// The driver of SMB shares.
const SMB_DRIVER: &str = "smb.csi.k8s.io";

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
    let mut findings: Vec<_> = found.filter_map(finding).collect();
    if user.is_some() || requires_windows(spec) {
        let is_smb = spec["csi"]["driver"] == SMB_DRIVER;
        findings.extend(storage::types("spec", spec));
        findings.extend(smb_source(&spec["csi"]["volumeAttributes"], "spec.csi.volumeAttributes").filter(|_| is_smb));
    }
    findings
}

/// The findings of a StorageClass, if workloads for Windows are in the manifests.
pub fn class(object: &Value, context: &LintContext<'_>) -> Option<Finding> {
    let is_smb = object["provisioner"] == SMB_DRIVER && context.has_windows_workloads();
    smb_source(&object["parameters"], "parameters").filter(|_| is_smb)
}

/// A share of a server with a name of the DNS of the cluster, which the node does not use: the driver mounts it on the node
/// (kubernetes-csi/csi-driver-smb, issue 294, read on 2026-11-29).
fn smb_source(parameters: &Value, path: &str) -> Option<Finding> {
    let source = parameters["source"].as_str()?;
    let server = source.trim_start_matches(['/', '\\']).split(['/', '\\']).next()?.to_lowercase();
    let is_of_cluster = server.ends_with(".svc") || server.contains(".svc.");
    let problem = format!("{server} is a name that only pods resolve, and the node mounts the share");
    is_of_cluster.then(|| Finding::new(Code::SmbSource, format!("{path}.source"), problem))
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
