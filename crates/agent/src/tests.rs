//! Simulated nodes, for the unit tests of all modules.

pub mod fake;
pub mod layouts;
