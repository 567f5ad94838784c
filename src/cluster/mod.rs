//! Kubernetes I/O: client, watches, stores, writer and events.
//!
//! One watch for each kind feeds a [`Store`]; the rules read a snapshot of the [`Caches`]. Only the [`Writer`] writes.

mod caches;
mod client;
mod deadline;
mod events;
mod key;
mod leases;
mod list;
mod machines;
mod stall;
mod store;
mod throttle;
mod version;
mod views;
mod watch;
mod writer;

use std::error::Error;

pub use caches::{Caches, ClusterApiCache, ControllerStores};
pub use client::{client, observed, operator_client};
pub use events::Events;
pub use key::{KeyError, OwnershipKeyStore, read as read_key};
pub use leases::Leases;
pub use list::{ListError, is_operator_running, list_snapshot, list_workloads, wait_for_node_configs};
pub use machines::{ClusterApiStores, Served, cluster_api_resource, infrastructure, served};
pub use stall::{WATCH_TIMEOUT_SECONDS, with_stall_detection};
pub use store::{Change, Store};
pub use version::VersionProbe;
pub use views::{SandboxEvent, View};
pub use watch::{WatchBackoff, run_watch};
pub use writer::{Resource, Writer, WrittenVersion};

/// The HTTP status code of an answer; `None` without an answer.
fn status_code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// The message of an error: of the API server if it answered, else of the client.
pub(crate) fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("the API server answered {} {}", status.code, status.reason),
        // An error of a service in this module, whose text is complete.
        kube::Error::Service(error) => with_sources(error.as_ref()),
        other => with_sources(other),
    }
}

/// An error with its sources, each text once.
pub(crate) fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}
