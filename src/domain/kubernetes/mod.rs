//! Values of the Kubernetes API with their meaning: taints, tolerations, selectors, quantities, names.

pub mod duration;
pub mod kubelet_value;
pub mod quantity;
mod selector;
pub mod syntax;
mod taint;
mod toleration;
mod workload_name;

pub use selector::shell_quoted;
pub use taint::{ParseTaintKeyError, TaintKey};
pub use workload_name::WorkloadName;
