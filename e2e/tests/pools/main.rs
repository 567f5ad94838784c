//! The life of pools, on a real control plane: the built operator runs as a process, under the shipped RBAC.
//!
//! All tests share one control plane and one operator. Each has nodes, pools and RuntimeClasses of its own, and asks at its
//! end that the operator was refused nothing.

// clippy.toml allows these in tests, but takes a helper of a test for something else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;

#[path = "../../../tests/cel/refused.rs"]
mod refused;

mod classes;
mod configs;
mod deletion;
mod guard;
mod holds;
mod membership;
mod observe;
mod placement;
mod specs;

use common::{Scene, Stage};
use e2e::{control_plane::Options, kubelet::SimulatedNode};
use tokio::sync::OnceCell;

async fn stage() -> &'static Stage {
    static STAGE: OnceCell<Stage> = OnceCell::const_new();
    STAGE.get_or_init(|| Stage::build(Options::default())).await
}

async fn open(name: &'static str, nodes: Vec<SimulatedNode>) -> Scene {
    Scene::open(stage().await, name, nodes).await
}

async fn with_a_node(name: &'static str) -> Scene {
    Scene::with_a_node(stage().await, name).await
}
