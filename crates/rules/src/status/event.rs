//! Events on pools, profiles, nodes and workloads, as values.

use winpool_core::{kind::Kind, node::WindowsNode};
use winpool_workload::WorkloadName;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub about: Regarding,
    /// Whether its type is Warning; else Normal.
    pub warning: bool,
    pub reason: String,
    pub action: &'static str,
    /// The message; at most a kilobyte is shown.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regarding {
    pub api_version: String,
    pub kind: String,
    /// `None` for an object in no namespace.
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
}

impl Event {
    pub fn new(about: Regarding, warning: bool, action: &'static str, reason: &str, message: String) -> Self {
        Self { about, warning, reason: reason.to_owned(), action, message }
    }
}

impl Regarding {
    pub fn node(node: &WindowsNode) -> Self {
        Self::new(Kind::NODE, &node.name, &node.uid)
    }

    /// An object in no namespace.
    pub fn new(kind: Kind, name: &str, uid: &str) -> Self {
        let (name, uid) = (name.to_owned(), uid.to_owned());
        Self { api_version: kind.api_version(), kind: kind.name.to_owned(), namespace: None, name, uid }
    }

    /// A workload, or a pod.
    pub fn workload(workload: &WorkloadName, uid: &str) -> Self {
        let WorkloadName { kind, namespace, name } = workload.clone();
        let api_version = workload.api_version().to_owned();
        Self { api_version, kind, namespace: Some(namespace), name, uid: uid.to_owned() }
    }
}
