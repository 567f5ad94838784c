//! Pools on a real control plane, from creation to deletion: the built operator runs as a process, with the shipped
//! RBAC.
//!
//! All tests share one control plane and one operator. Each has separate nodes, pools and RuntimeClasses, and checks at
//! its end that none of the operator's requests was forbidden.

mod columns;
mod configs;
mod deletion;
mod holds;
mod selection;
mod specs;
mod tainting;

use std::sync::Arc;

use e2e::{
    control_plane::Options,
    fixture::{Fixture, SharedCluster},
    kubelet::SimulatedNode,
    shared::Shared,
};

async fn shared() -> Arc<SharedCluster> {
    static SHARED: Shared<SharedCluster> = Shared::new();
    let allowed = ["--allow-hosts=mirror.example", "--allow-label-prefixes=node-role.kubernetes.io/windows"];
    SHARED.get(async || SharedCluster::start(Options::default(), &allowed).await).await.unwrap()
}

async fn with_nodes(name: &'static str, nodes: Vec<SimulatedNode>) -> Fixture {
    Fixture::new(shared().await, name, nodes).await.unwrap()
}

async fn with_one_node(name: &'static str) -> Fixture {
    Fixture::with_one_node(shared().await, name).await.unwrap()
}
