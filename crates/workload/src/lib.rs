//! Checks workloads against the nodes that they can be scheduled to: which pods cannot start or run on wrong nodes.

pub mod check;
mod controllers;
mod defaults;
mod features;
mod fields;
pub mod index;
mod issue;
pub mod placement;
mod pod;
mod requests;
pub mod scheduling_state;
mod service;
mod shared;
mod storage;
mod template;
mod volume;

pub use controllers::{ControllerView, Controllers};
pub use defaults::MemoryDefaults;
pub use fields::{FieldIssue, FieldIssueKind, field_paths, is_host_process, issues as field_issues, windows_option};
pub use index::{AffectedWorkloads, ImageRequest, LookupCounts, PoolWorkloads, WorkloadIndex, Workloads};
pub use issue::{ImageIssue, ImageRemedy, IssueKind, WorkloadIssue, image_behind};
pub use pod::{Controller, Pod, PodController, runtime_messages, runtime_report};
pub use requests::{Amount, Requests};
pub use scheduling_state::SchedulingState;
pub use service::{Service, service_features};
pub use shared::Shared;
pub use storage::{Attached, Storage, StorageState, VolumeFault, VolumeIssue};
pub use template::{Container, Requirement, Scheduling, System, Template, system_of_class};
pub use volume::{
    ClaimView, NodeDrivers, PodVolume, StorageClassView, VolumePlugin, VolumeSource, VolumeView, volumes,
};
pub use winpool_core::kubernetes::WorkloadName;
