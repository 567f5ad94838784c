//! Issues of workloads in a model of the API server: every issue, with the same workload without it, and common
//! workloads without issues.

mod counts;
mod images;
mod index;
mod issues;
mod no_issues;
mod volumes;
