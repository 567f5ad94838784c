//! Kubernetes I/O: client, watches, stores, writer and events.
//!
//! One watch for each kind feeds a [`Store`]; the rules read a snapshot of the [`Caches`]. Only the [`Writer`] writes.

mod access;
mod caches;
mod claim;
mod client;
mod cluster_api;
mod configuration;
mod definitions;
mod election;
mod events;
mod identity;
mod key;
pub mod kinds;
mod kube_proxy;
mod leases;
mod list;
mod pages;
mod requests;
mod stall;
mod store;
mod time_limits;
mod unwatched;
mod version;
mod views;
mod watch;
mod writer;

use std::{error::Error, time::Duration};

use tokio::time::timeout;
use winpool_core::{ForeignText, text::with_sources};

pub use access::Reviewer;
pub use caches::{Caches, ControllerStores, StorageStores, has_agents, uses_cluster_api};
pub use claim::Claim;
pub use client::{client, observed, operator_client};
pub use cluster_api::{ClusterApiStores, infrastructure, served};
pub use configuration::check_configuration;
pub use definitions::{REMEDY as DEFINITIONS_REMEDY, problem_of_definitions};
pub use election::{Elector, LeadershipLost};
pub use events::Events;
pub use identity::{identified, identity};
pub use key::{KeyError, OwnershipKeyStore, read as read_key};
pub use kinds::{OfKind, all, watched};
pub use kube_proxy::read_kube_proxy;
pub use leases::Leases;
pub use list::{
    ListError, PAGE, leader, list_drivers, list_machine_objects, list_pools, list_served_pools, list_snapshot,
    list_snapshot_of, list_storage, list_workloads, operator_pods, wait_for_node_configs,
};
pub use pages::in_pages;
pub use stall::{WATCH_TIMEOUT_SECONDS, with_stall_detection};
pub use store::{ObjectChange, Store};
pub use unwatched::UnwatchedNodes;
pub use version::{UnsupportedVersion, VersionProbe};
pub use views::{SandboxEvent, View};
pub use watch::{WatchBackoff, run_watch};
pub use writer::{Writer, WrittenVersion};

/// Whether a request failed with an error of type `E`, of a service in this module.
fn is<E: Error + 'static>(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(error) if error.is::<E>())
}

/// The answer to a request, or why there is none after this time.
pub async fn limited<T>(limit: Duration, request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match timeout(limit, request).await {
        Ok(answer) => answer.map_err(|error| explain(&error)),
        Err(_) => Err(format!("the API server did not answer within {limit:?}")),
    }
}

/// The HTTP status code of an answer; `None` without an answer.
pub fn status_code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// The message of an error: of the API server if it answered, else of the client.
pub fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => {
            ForeignText::from(status.message.as_str()).to_string()
        }
        kube::Error::Api(status) => format!("the API server answered {} {}", status.code, status.reason),
        // An error of a service in this module, whose text is complete.
        kube::Error::Service(error) => with_sources(error.as_ref()),
        other => with_sources(other),
    }
}
