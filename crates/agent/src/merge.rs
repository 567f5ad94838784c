//! Merging a configuration into the files of a node, with everything kept that the configuration does not set.

pub mod allowed;
pub mod diversions;
pub mod environment;
pub mod flags;
pub mod text;
pub mod toml;
mod values;
pub mod yaml;
