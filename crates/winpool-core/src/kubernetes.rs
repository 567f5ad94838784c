//! Values of the Kubernetes API with their meaning: taints, tolerations, selectors, quantities, names.

pub mod duration;
pub mod kubelet_value;
pub mod quantity;
mod shell;
pub mod syntax;
mod workload_name;

pub use shell::shell_quoted;
pub use workload_name::WorkloadName;
