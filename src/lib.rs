//! winpool: a Kubernetes operator for Windows node pools.

pub mod admin;
pub mod api;
pub mod cluster;
pub mod commands;
pub mod controllers;
pub mod domain;
pub mod facts;
pub mod manifests;
pub mod registry;
pub mod telemetry;
