//! Workloads against the nodes they need: what will not start, or is where it should not be, and why.

mod template;

pub use template::{Container, Requirement, Scheduling, System, Template, Toleration, system_of_class};
