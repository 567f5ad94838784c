//! Connections to the cluster.

use std::io;

use kube::{Client, Config};
use tokio::runtime::{Builder, Runtime};

use super::Failure;
use crate::cluster::{self, with_sources};

/// The current context of the kubeconfig, else the ServiceAccount of the Pod.
pub(super) async fn config() -> Result<Config, Failure> {
    Config::infer().await.map_err(|error| {
        let error = with_sources(&error);
        Failure::Cluster(format!(
            "no cluster: {error}. Set KUBECONFIG to a kubeconfig with a current context, or run in a Pod with a ServiceAccount"
        ))
    })
}

/// A client for a command that runs once.
pub(super) async fn client() -> Result<Client, Failure> {
    cluster::client(config().await?).map_err(|error| {
        let error = with_sources(&error);
        Failure::Cluster(format!("invalid kubeconfig: {error}. Correct it, or choose another context"))
    })
}

/// The asynchronous runtime. Two threads are enough, because the work is I/O.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let failure = |error: io::Error| Failure::Usage(format!("cannot start threads: {error}"));
    Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(failure)
}
