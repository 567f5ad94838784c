//! The rules, as pure functions of values: no async code, clock, logging, or client.

pub mod adopt;
pub mod allowances;
mod decode;
pub mod doctor;
pub mod election;
pub mod foreign_text;
pub mod image;
mod json_path;
pub mod kind;
pub mod known_issues;
pub mod kubernetes;
pub mod lint;
pub mod manifests;
pub mod migrate;
pub mod node;
mod objects;
pub mod operation;
pub mod ownership;
mod placeholder;
pub mod pool;
mod problem;
pub mod profile;
pub mod record;
pub mod release_labels;
pub mod render;
pub mod revert;
pub mod status;
pub mod tables;
pub mod text;
pub mod upgrade;
pub mod workload;

pub use decode::{decode, decoding_problem};
pub use foreign_text::ForeignText;
pub use objects::{Named, Objects, ResourceVersion, Uncompared};
pub(crate) use objects::{named, object_key};
pub use problem::{Explanation, Problem, is_within, join};
