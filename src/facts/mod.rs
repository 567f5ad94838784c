//! What Microsoft and Kubernetes decided, as tables: one table a file, each with its source and date.
//!
//! Nothing here decides anything: the rules in [`crate::domain`] read these tables and never spell a build,
//! a minor or a tag themselves.

pub mod builds;
pub mod compatibility;
pub mod containerd;
pub mod eviction;
pub mod feature_gates;
pub mod kubelet_fields;
pub mod kubelet_flags;
pub mod layers;
pub mod mismatch;
pub mod node_restriction;
pub mod pause;
pub mod pod_fields;
pub mod runtimes;
pub mod service_limits;
pub mod skew;
pub mod support;
mod versions;

pub use versions::{Build, ContainerdVersion, KubeletVersion, Minor, OsVersion, ParseVersionError};
