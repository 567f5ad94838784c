//! The rules, pure: plain values in, plain values out. Nothing here awaits, reads a clock, logs, or knows a client.

pub mod conditions;
pub mod contest;
mod decode;
pub mod image;
pub mod lint;
pub mod node;
pub mod note;
pub mod operation;
pub mod owned;
pub mod pool;
mod problem;
pub mod profile;
pub mod quantity;
pub mod render;
mod selector;
pub mod syntax;
pub mod tables;
pub mod upgrade;
pub mod workload;

pub use decode::{decode, misread};
pub use problem::{Problem, is_within, join};
