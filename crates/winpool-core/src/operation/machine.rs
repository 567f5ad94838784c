//! Objects of Cluster API, and the Secrets of templates.

use winpool_api::facts::cluster_api::ApiVersion;

use crate::revert::Target;

/// An object in the namespace of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineObject {
    /// Its kind: a Secret, KubeadmConfigTemplate, KubeadmConfig, MachineDeployment or MachinePool.
    pub target: Target,
    /// The version of Cluster API's resources.
    pub version: ApiVersion,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// `namespace/name`.
    pub key: String,
}

impl MachineObject {
    /// The object with this kind and name.
    pub fn new(target: Target, version: ApiVersion, namespace: &str, name: &str) -> Self {
        let key = format!("{namespace}/{name}");
        Self { target, version, namespace: namespace.to_owned(), name: name.to_owned(), key }
    }
}
