//! Values of the Kubernetes API with their meaning: taints, tolerations, selectors, quantities, names.

pub mod duration;
pub mod kubelet_value;
pub mod quantity;
mod shell;
pub mod syntax;
mod workload_name;

use jiff::Timestamp;

pub use shell::shell_quoted;
pub use workload_name::WorkloadName;

/// A time as Kubernetes stores it.
pub fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
