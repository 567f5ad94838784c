//! The operator: watches, a work queue, the writer of plans, and the server of metrics and probes.

#![allow(clippy::disallowed_methods)] // I/O, and time

pub mod admin;
pub mod cluster;
pub mod controllers;
pub mod election;
pub mod telemetry;
