//! winpool: a Kubernetes operator for Windows node pools.

pub mod api;
pub mod domain;
pub mod facts;
