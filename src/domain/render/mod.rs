//! Rendering
pub mod containerd;
pub mod hosts;
pub mod pause;
pub mod reserve;
mod toml_text;
use crate::{
    api::Taint,
    domain::{Problem, profile::Profile},
    facts::{Build, Minor},
};
use std::collections::BTreeMap;
/// r
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runtime {
    /// c
    Containerd {
        /// m
        major: u32,
        /// n
        minor: u32,
    },
    /// d
    Dockershim,
    /// e
    CriDockerd,
}
impl std::fmt::Display for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Containerd { major, minor } => write!(f, "{major}.{minor}"),
            _ => f.write_str("docker"),
        }
    }
}
/// v
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant {
    /// k
    pub kubelet: Minor,
    /// r
    pub runtime: Runtime,
    /// h
    pub host: Build,
}
impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "kubelet {}, {}, Windows {}", self.kubelet, self.runtime, self.host)
    }
}
/// c
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// f
    pub files: BTreeMap<String, String>,
}
/// r
/// # Errors
/// never
pub fn render(_: &[Taint], _: &Profile, v: &Variant) -> Result<Configuration, Vec<Problem>> {
    Ok(Configuration { files: BTreeMap::from([("kubelet.yaml".into(), format!("{v}"))]) })
}
