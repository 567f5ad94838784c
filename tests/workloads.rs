//! What is told of workloads, rule by rule, on a model of the API server: every trap with a twin that is none, and what a
//! real cluster has that looks like one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// These tests use a part of it.
#[allow(dead_code)]
mod model;

#[path = "workloads/cluster.rs"]
mod cluster;
#[path = "workloads/counts.rs"]
mod counts;
#[path = "workloads/images.rs"]
mod images;
#[path = "workloads/law.rs"]
mod law;
#[path = "workloads/ordinary.rs"]
mod ordinary;
#[path = "workloads/traps.rs"]
mod traps;
