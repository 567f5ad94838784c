//! Workloads against the nodes they need: what will not start, or is where it should not be, and why.

pub mod ground;
pub mod judge;
pub mod placement;
mod pod;
mod template;

pub use pod::{Controller, Pod, PodController, Shared, WorkloadName};
pub use template::{Container, Requirement, Scheduling, System, Template, Toleration, system_of_class};
