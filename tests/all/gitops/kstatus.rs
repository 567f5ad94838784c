//! The rules of kstatus for custom resources.
//!
//! Source: kubernetes-sigs/cli-utils (2025-10-21), `pkg/kstatus/status/generic.go` (checkGenericProperties,
//! checkGeneration) and `pkg/kstatus/status/status.go` (Compute, checkReadyCondition).

use serde_json::Value;

/// The status of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KStatus {
    /// The spec is applied.
    Current,
    /// The controller continues.
    InProgress,
    /// The controller cannot continue.
    Failed,
    /// The object is being deleted.
    Terminating,
}

/// The status of a custom resource.
pub fn compute(object: &Value) -> KStatus {
    let metadata = &object["metadata"];
    if metadata["deletionTimestamp"].as_str().is_some_and(|time| !time.is_empty()) {
        return KStatus::Terminating;
    }
    let generations = (metadata["generation"].as_i64(), object["status"]["observedGeneration"].as_i64());
    if let (Some(generation), Some(observed)) = generations
        && generation != observed
    {
        return KStatus::InProgress;
    }
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for condition in conditions.iter().filter(|condition| condition["status"] == "True") {
        match condition["type"].as_str() {
            Some("Reconciling") => return KStatus::InProgress,
            Some("Stalled") => return KStatus::Failed,
            _ => {}
        }
    }
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    match ready.and_then(|ready| ready["status"].as_str()) {
        Some("False" | "Unknown") => KStatus::InProgress,
        _ => KStatus::Current,
    }
}
