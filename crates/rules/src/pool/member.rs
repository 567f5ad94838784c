//! The nodes of a pool with their plans.

use std::sync::Arc;

use winpool_core::node::WindowsNode;
use winpool_render::reserve::ConfigState;

use super::nodes::NodePlan;
use crate::operation::Outcome;

/// A node of a pool.
#[derive(Clone, Debug)]
pub struct Member {
    pub node: Arc<WindowsNode>,
    /// Whether the pool no longer selects the node and keeps it until its release is allowed.
    pub held: bool,
    /// The changes of the node, and what stands in their way.
    pub plan: Arc<NodePlan>,
    /// How the change ended, after it was written.
    pub outcome: Option<Outcome>,
    /// Whether the rendered configuration is in effect; `None` without one.
    pub config_state: Option<ConfigState>,
}

impl Member {
    pub fn is_written(&self) -> bool {
        self.outcome == Some(Outcome::Done)
    }

    /// Whether the node has its labels and taints now. The name of the configuration has a separate condition.
    pub fn is_tainted(&self) -> bool {
        self.plan.obstacles.is_empty() && (self.plan.edit.is_none() || self.is_written())
    }

    pub fn has(&self, reason: &str) -> bool {
        self.plan.obstacle(reason).is_some()
    }
}
