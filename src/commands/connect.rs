//! What every command needs that talks to a cluster.

use std::io;

use kube::{Client, Config};
use tokio::runtime::{Builder, Runtime};

use super::Failure;
use crate::cluster::{self, with_sources};

/// How to reach the API server: the current context of the kubeconfig, else the ServiceAccount of the Pod.
pub(super) async fn config() -> Result<Config, Failure> {
    Config::infer().await.map_err(|error| {
        let error = with_sources(&error);
        Failure::Cluster(format!(
            "no cluster: {error}: let KUBECONFIG name a kubeconfig with a current context, or run in a Pod with a ServiceAccount"
        ))
    })
}

/// A client for a command that asks and writes once.
pub(super) async fn client() -> Result<Client, Failure> {
    cluster::client(config().await?).map_err(|error| {
        let error = with_sources(&error);
        Failure::Cluster(format!("the kubeconfig cannot be used: {error}: correct it, or choose another context"))
    })
}

/// Where asynchronous code runs. Two threads are enough: the work is waiting.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let cannot = |error: io::Error| Failure::Usage(format!("cannot start threads: {error}"));
    Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(cannot)
}
