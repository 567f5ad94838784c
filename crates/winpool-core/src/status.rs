//! The status of pools and profiles: conditions, columns and events.

pub mod condition;
pub mod event;
pub mod metrics;
pub mod nodes;
pub mod overview;
pub mod pool;
pub mod profile;
pub mod rollout;
