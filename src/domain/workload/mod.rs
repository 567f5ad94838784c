//! Workloads against the nodes they need: what will not start, or is where it should not be, and why.

mod defaults;
pub mod ground;
pub mod judge;
pub mod ledger;
pub mod migrate;
pub mod placement;
mod pod;
mod template;

pub use defaults::MemoryDefaults;
pub use ground::Ground;
pub use judge::Trap;
pub use ledger::{Ledger, PoolWorkloads, Trapped, Want, Workloads};
pub use pod::{Controller, Pod, PodController, Shared, WorkloadName};
pub use template::{Container, Requirement, Scheduling, System, Template, Toleration, system_of_class};
