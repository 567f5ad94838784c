//! winpool: a Kubernetes operator for Windows node pools.

pub mod facts;
