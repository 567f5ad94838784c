//! What a Windows node should be configured with, as the files that lie on it.

pub mod containerd;
pub mod hosts;
mod toml_text;
