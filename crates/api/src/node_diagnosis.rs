//! What the agent of a node reads about the network, the services and the logs of Windows at a request.

use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use winpool_facts::named_enum;

/// The maximum number of ports in an answer.
pub const MAX_PORTS: usize = 128;
/// How long before and after its time a request is answered, and how long its answer stays.
const VALID: SignedDuration = SignedDuration::from_mins(15);

/// A request for a diagnosis, as the annotation of a pool: `<node>@<RFC 3339 time>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagnosisRequest {
    /// The name of the node.
    pub node: String,
    /// The time of the request.
    pub at: Timestamp,
}

impl FromStr for DiagnosisRequest {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (node, at) = text.trim().split_once('@').filter(|(node, _)| !node.is_empty()).ok_or(())?;
        let at: Timestamp = at.parse().map_err(drop)?;
        // As it is stored.
        Ok(Self { node: node.to_owned(), at: Timestamp::from_second(at.as_second()).map_err(drop)? })
    }
}

impl DiagnosisRequest {
    /// Until when the request is answered, if it is at this time.
    pub fn valid_until(&self, now: Timestamp) -> Option<Timestamp> {
        (now.duration_since(self.at).abs() < VALID).then_some(self.at + VALID)
    }
}

/// What the agent has read at a request. A part that could not be read is absent. Credentials in texts are replaced, and it has at
/// most 16 KiB.
// A member without a value is written as null, which removes it: the agent sends merge patches.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeDiagnosis {
    /// The request that it answers: spec.diagnose.
    pub requested_at: Time,
    /// When it was read, by the node's clock.
    pub read_at: Time,
    /// The networks of the host network service (HNS).
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub networks: Option<Vec<HnsNetwork>>,
    /// The addresses of the endpoints of HNS on this node, and those that more than one endpoint has as often as they occur.
    #[serde(default)]
    #[schemars(length(max = 160), inner(length(max = 64)))]
    pub endpoints: Option<Vec<String>>,
    /// The networks whose addresses the endpoints do not translate (ExceptionList). Example: 10.0.0.0/8.
    #[serde(default)]
    #[schemars(length(max = 32), inner(length(max = 64)))]
    pub exceptions: Option<Vec<String>>,
    /// The number of load balancers of HNS, of which kube-proxy creates some for each Service.
    #[serde(default)]
    pub load_balancers: Option<u32>,
    /// The IPv4 routes that lead to a gateway.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub routes: Option<Vec<RouteState>>,
    /// The TCP ports that programs listen on.
    #[serde(default)]
    #[schemars(length(max = MAX_PORTS))]
    pub ports: Option<Vec<u32>>,
    /// The connected adapters of the network, with the size of their packets.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub adapters: Option<Vec<AdapterState>>,
    /// The services of kubelet, container runtime and kube-proxy, of the host compute service and of HNS.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub services: Vec<ServiceRun>,
    /// The log of a container that needs the most space, by which one is found that is not rotated.
    #[serde(default)]
    pub largest_log: Option<ContainerLog>,
    /// The ends of the logs of kubelet, containerd, kube-proxy and nssm.
    #[serde(default)]
    #[schemars(length(max = 4))]
    pub logs: Vec<LogEnd>,
}

/// A network of HNS.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct HnsNetwork {
    /// The name, such as cbr0.
    #[schemars(length(max = 128))]
    pub name: String,
    /// The type, such as L2Bridge or Overlay.
    #[serde(rename = "type")]
    #[schemars(length(max = 32))]
    pub type_: String,
}

/// A route.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RouteState {
    /// The network that it leads to. Example: 0.0.0.0/0.
    #[schemars(length(max = 64))]
    pub destination: String,
    /// The address of the gateway. Example: 10.1.0.1.
    #[schemars(length(max = 64))]
    pub next_hop: String,
    /// The adapter. Example: vEthernet (Ethernet).
    #[schemars(length(max = 128))]
    pub adapter: String,
}

/// An adapter.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AdapterState {
    /// The name. Example: vEthernet (Ethernet).
    #[schemars(length(max = 128))]
    pub name: String,
    /// The size of the largest IPv4 packet that is sent through it, in bytes. Example: 1500.
    pub mtu: u32,
}

/// A service of Windows.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRun {
    /// The name, such as kubelet.
    #[schemars(length(max = 256))]
    pub name: String,
    /// The state. Pending: it is starting or stopping.
    pub state: ServiceRunState,
}

named_enum! {
    /// The state of a service.
    #[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)] // explained at the field
    pub enum ServiceRunState {
        Running,
        Pending,
        Stopped,
    }
}

/// The log of a container.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ContainerLog {
    /// Where it is, such as C:\var\log\pods\shop_web-1_4c1b\web\0.log.
    #[schemars(length(max = 512))]
    pub path: String,
    /// The size in MiB.
    pub mebibytes: u32,
    /// At which size the kubelet begins a new file, in MiB.
    #[serde(default)]
    pub maximum_mebibytes: Option<u32>,
}

/// The end of a log.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LogEnd {
    /// The program that writes it, such as kubelet.
    #[schemars(length(max = 64))]
    pub service: String,
    /// The path, or the event log.
    #[schemars(length(max = 260))]
    pub place: String,
    /// The last lines, the oldest first.
    #[schemars(length(max = 64), inner(length(max = 2048)))]
    pub lines: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_node_and_a_time() {
        let of = |text: &str| text.parse().ok().map(|DiagnosisRequest { node, at }| format!("{node} {at}"));
        for (text, expected) in [
            ("win-1@2026-11-27T03:00:00Z", Some("win-1 2026-11-27T03:00:00Z")),
            (" win-1.example@2026-11-27T04:00:00.5+01:00", Some("win-1.example 2026-11-27T03:00:00Z")),
            ("win-1", None),
            ("@2026-11-27T03:00:00Z", None),
            ("win-1@2026-11-27", None),
            ("win-1@now", None),
            ("", None),
        ] {
            assert_eq!(of(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_request_is_valid_for_fifteen_minutes() {
        let request: DiagnosisRequest = "win-1@2026-11-27T03:00:00Z".parse().unwrap();
        for (now, expected) in [
            ("2026-11-27T03:00:00Z", true),
            ("2026-11-27T03:14:59Z", true),
            ("2026-11-27T03:15:00Z", false),
            // The clock of the person is ahead.
            ("2026-11-27T02:46:00Z", true),
            ("2026-11-27T02:45:00Z", false),
        ] {
            let until = request.valid_until(now.parse().unwrap()).map(|until| until.to_string());
            assert_eq!(until.as_deref(), expected.then_some("2026-11-27T03:15:00Z"), "{now}");
        }
    }
}
