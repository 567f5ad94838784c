//! Issues of workloads in a model of the API server: every issue, with the same workload without it, and common
//! workloads without issues.

pub mod cluster;
mod counts;
mod images;
mod index;
mod issues;
mod no_issues;
