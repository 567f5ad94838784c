//! The rules, pure: plain values in, plain values out. Nothing here awaits, reads a clock, logs, or knows a client.

pub mod conditions;
mod decode;
pub mod image;
pub mod lint;
pub mod node;
pub mod note;
mod objects;
pub mod operation;
pub mod ownership;
pub mod pool;
mod problem;
pub mod profile;
pub mod quantity;
pub mod render;
pub mod revert;
mod selector;
pub mod syntax;
pub mod tables;
pub mod upgrade;
pub mod workload;

pub use decode::{decode, misread};
pub use objects::Objects;
pub use problem::{Problem, is_within, join};
