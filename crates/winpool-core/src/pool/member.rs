//! The nodes of a pool with their plans.

use std::sync::Arc;

use super::nodes::NodePlan;
use crate::{node::WindowsNode, render::reserve::ConfigState};

/// A node of a pool.
#[derive(Clone, Debug)]
pub struct Member {
    /// The node.
    pub node: Arc<WindowsNode>,
    /// Whether the pool no longer selects the node and keeps it until its release is allowed.
    pub held: bool,
    /// The changes of the node.
    pub plan: Arc<NodePlan>,
    /// Whether the rendered configuration is in effect; `None` without one.
    pub config_state: Option<ConfigState>,
}
