//! The name of a workload.

use std::fmt;

/// The name of a workload: of the object that creates pods, or of a pod without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadName {
    /// The kind, such as `Deployment`, `DaemonSet`, `Job` or `Pod`.
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl WorkloadName {
    pub fn api_version(&self) -> &'static str {
        match self.kind.as_str() {
            "Deployment" | "StatefulSet" | "DaemonSet" => "apps/v1",
            "Job" => "batch/v1",
            _ => "v1",
        }
    }
}

impl fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}
