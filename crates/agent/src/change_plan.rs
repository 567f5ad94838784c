//! What a configuration changes on a node, as values: the result of [`super::layout`] and [`super::merge`], and the input of
//! [`super::cycle`].

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use winpool_facts::named_enum;

use super::{content, host::ServiceDefinition};

/// A file before and after a change; `None` is a file that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEdit {
    /// The absolute path on the node.
    pub path: String,
    /// The content that is restored by a rollback.
    #[serde(with = "content")]
    pub before: Option<Vec<u8>>,
    #[serde(with = "content")]
    pub after: Option<Vec<u8>>,
}

/// A service definition before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceEdit {
    pub before: ServiceDefinition,
    pub after: ServiceDefinition,
}

/// A service that a change restarts, and how its health is verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// The name of the service, such as `kubelet`, or `rke2` for the kubelet of RKE2.
    pub service: String,
    /// The file name of the program that does the work, such as `kubelet.exe`, if the service's own process may be
    /// another one that starts it again when it ends.
    #[serde(default)]
    pub program: Option<String>,
    /// The file names of other programs that the service starts, and that may end after it.
    #[serde(default)]
    pub children: Vec<String>,
    /// The loopback endpoint that answers 200 when the service works; `None` for a service without one.
    pub health: Option<HealthEndpoint>,
}

/// A loopback endpoint, such as `:10248/healthz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthEndpoint {
    pub port: u16,
    pub path: String,
}

/// What a change of containerd means for the pods that are started after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeCheck {
    /// The named pipe of containerd, such as `\\.\pipe\containerd-containerd`.
    pub pipe: String,
    pub pause_image: Option<String>,
    /// Whether the change can make an image available: it changes mirrors, the settings of registries, or the proxy.
    pub changes_pulls: bool,
}

/// All changes that a configuration makes on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangePlan {
    pub files: Vec<FileEdit>,
    pub services: Vec<ServiceEdit>,
    /// The values that the kubelet uses after the change.
    #[serde(default)]
    pub kubelet: Map<String, Value>,
    /// The kubeconfig of the kubelet, with which the pods of the node are read.
    #[serde(default)]
    pub kubeconfig: Option<String>,
    /// How containerd is verified; `None` if it is not restarted.
    #[serde(default)]
    pub runtime: Option<RuntimeCheck>,
    /// The part of the configuration that the node cannot have, and why.
    #[serde(default)]
    pub omitted: Option<String>,
    /// The services to restart, dependencies first: they are started in this order, and stopped in the reverse order.
    pub restarts: Vec<Restart>,
}

impl ChangePlan {
    /// The names of the services to restart, for messages.
    pub fn restarted_services(&self) -> String {
        self.restarts.iter().map(|restart| restart.service.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// Why a configuration is refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub reason: RefusalReason,
    /// What is wrong, with the path or the program's own message, and the remedy.
    pub message: String,
}

named_enum! {
    /// The reason of a refusal, as in the status of a WindowsNodeConfig.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum RefusalReason {
        /// The node is configured by another system, such as AKS, GKE or the Windows Machine Config Operator.
        ManagedElsewhere,
        /// The kubelet's service is not installed in a known way.
        UnknownLayout,
        /// The kubelet is older than 1.30.
        UnsupportedKubelet,
        /// containerd is older than 1.7, or there is none.
        UnsupportedRuntime,
        /// The ConfigMap does not have the digest of the spec.
        DigestDiffers,
        /// The configuration contains a setting that the agent does not write.
        NotAllowed,
        /// A file of the node cannot be parsed.
        Unreadable,
        /// The kubelet or containerd of the node rejects the configuration.
        PreflightFailed,
        /// containerd cannot pull the pause image of the configuration, without which no pod starts.
        PauseImageNotPulled,
    }
}
