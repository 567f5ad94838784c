//! The rules, pure: plain values in, plain values out. Nothing here awaits, reads a clock, logs, or knows a client.

mod problem;
pub mod quantity;
pub mod render;

pub use problem::Problem;
