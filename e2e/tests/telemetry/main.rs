//! The operator seen from outside: traces, logs, readiness and figures.

// clippy.toml allows these in tests, but takes a helper of a test for something else.
#![allow(clippy::unwrap_used)]

mod admin;
mod collector;
mod traces;

use e2e::{kubelet::SimulatedNode, world::World};

const POOL: &str = "web";
/// The default taint of a pool.
const OS_WINDOWS: (&str, &str) = ("os", "windows");
const NODES: [&str; 3] = ["win-1", "win-2", "win-3"];

/// The nodes of [`POOL`].
fn nodes() -> Vec<SimulatedNode> {
    NODES.map(|name| SimulatedNode::windows(name, "10.0.20348.2700").label("agentpool", POOL)).into()
}

/// Has the operator guard the nodes of [`POOL`].
async fn guard(world: &World) {
    world.apply_pool(POOL, "ltsc2022", OS_WINDOWS).await.unwrap();
    world.until_guarded(POOL, OS_WINDOWS, NODES.len()).await.unwrap();
    world.until_as_specified(POOL).await.unwrap();
}
