//! All Kubernetes I/O: what is watched, what is written, and what is told.
//!
//! One watch for each kind feeds a [`Store`]; the rules read a snapshot of the [`Caches`]. Only the [`Writer`] writes.

mod caches;
mod client;
mod events;
mod expiry;
mod gather;
mod hub;
mod key;
mod liveness;
mod pressure;
mod store;
mod version;
mod views;
mod writer;

use std::error::Error;

pub use caches::Caches;
pub use client::{client, operator_client};
pub use events::Events;
pub use gather::{GatherError, gather, gather_workloads, operator_runs};
pub use hub::{Patience, follow};
pub use key::{KeyError, KeyKeeper, read as read_key};
pub use liveness::{WATCH, watched};
pub use store::{Change, Store};
pub use version::Versions;
pub use views::{ControllerView, SandboxEvent, View};
pub use writer::{Mark, Resource, Writer};

/// What went wrong, for a person: the API server's own words where it answered.
fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("the API server answered {} {}", status.code, status.reason),
        // Of services of our own, whose errors say it all.
        kube::Error::Service(error) => with_sources(error.as_ref()),
        other => with_sources(other),
    }
}

/// An error with everything behind it, each text once.
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
