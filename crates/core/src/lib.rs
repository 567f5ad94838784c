//! Plain values that all rules use: Kubernetes' values and references of images, objects as they are read, texts and problems.
//! Pure: no async code, clock, logging, or client.

pub mod bounded;
mod decode;
pub mod foreign_text;
pub mod image;
pub mod json_path;
pub mod kind;
pub mod kubernetes;
pub mod logs;
pub mod masking;
pub mod node;
mod objects;
pub mod placeholder;
mod problem;
pub mod record;
pub mod release_labels;
pub mod tables;
pub mod text;

pub use decode::{decode, decoding_problem};
pub use foreign_text::ForeignText;
pub use objects::{Named, Objects, ResourceVersion, Uncompared, object_key};
pub use problem::{Explanation, Problem, is_within, join};
