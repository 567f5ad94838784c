//! What is read of a cluster for a diagnosis. A part that could not be read is not an empty part.

use derive_more::Display;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    coordination::v1::Lease,
    core::v1::{Event, Node, Pod},
    discovery::v1::EndpointSlice,
};
use kube::core::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use winpool_api::named_enum;

use crate::kind::Kind;

/// What a diagnosis is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[allow(missing_docs)] // the names say it
pub enum DiagnosisSubject {
    #[display("pool {name}")]
    Pool { name: String },
    #[display("node {name}")]
    Node { name: String },
    #[display("pod {namespace}/{name}")]
    Pod { namespace: String, name: String },
}

named_enum! {
    /// A kind of objects that is read, or the logs of nodes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[allow(missing_docs)] // the names say it
    pub enum EvidencePart {
        Pools,
        Nodes,
        Pods,
        Events,
        DaemonSets,
        Leases,
        EndpointSlices,
        Machines,
        NodeLogs,
    }
}

impl EvidencePart {
    /// The kind of its objects.
    pub const fn kind(self) -> Option<Kind> {
        Some(match self {
            Self::Pools => Kind::POOL,
            Self::Nodes => Kind::NODE,
            Self::Pods => Kind::POD,
            Self::Events => Kind::EVENT,
            Self::DaemonSets => Kind::DAEMON_SET,
            Self::Leases => Kind::LEASE,
            Self::EndpointSlices => Kind::ENDPOINT_SLICE,
            Self::Machines => Kind::MACHINE,
            Self::NodeLogs => return None,
        })
    }

    /// The name of the resource, as in a role, or of the logs in messages.
    pub const fn resource(self) -> &'static str {
        match self.kind() {
            Some(kind) => kind.plural,
            None => "logs of nodes",
        }
    }
}

/// A part that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Display)]
#[display("{} are not read: {reason}", part.resource())]
pub struct Unavailable {
    pub part: EvidencePart,
    pub reason: String,
}

/// The objects of a part, if they could be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EvidenceLayer<T> {
    Read {
        items: Vec<T>,
        /// Whether there are more, which were not read.
        omitted: bool,
    },
    /// Nothing was read, for this reason.
    Unavailable(String),
}

impl<T> Default for EvidenceLayer<T> {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl<T> EvidenceLayer<T> {
    /// All objects of a part.
    pub fn of(items: Vec<T>) -> Self {
        Self::Read { items, omitted: false }
    }

    fn get(&self, part: EvidencePart) -> Result<&[T], Unavailable> {
        match self {
            Self::Read { items, .. } => Ok(items),
            Self::Unavailable(reason) => Err(Unavailable { part, reason: reason.clone() }),
        }
    }

    fn missing(&self) -> Option<&str> {
        match self {
            Self::Read { omitted: false, .. } => None,
            Self::Read { items, omitted: true } if items.is_empty() => Some("there are too many"),
            Self::Read { omitted: true, .. } => Some("there are too many, and only the first were read"),
            Self::Unavailable(reason) => Some(reason),
        }
    }
}

/// What was read of a log of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)] // the names say it
pub struct NodeLog {
    pub node: String,
    pub service: String,
    pub content: LogContent,
}

/// The lines of a log. They never exclude a symptom: a log begins at some time, its program may not write every failure, and a
/// part of it may be cut off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogContent {
    /// What was read, without credentials.
    Read {
        /// The event log or the file.
        place: String,
        /// The lines, the oldest first.
        lines: Vec<String>,
        /// Whether the log has more lines of this time, which were not read.
        cut: bool,
    },
    /// Nothing was read, for this reason.
    Unread(String),
}

/// What was read of a cluster: plain objects, without what a diagnosis does not need ([`super::reduced`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)] // the names say it
pub struct Evidence {
    /// When it was read.
    pub at: Timestamp,
    pub subject: DiagnosisSubject,
    pub pools: EvidenceLayer<DynamicObject>,
    /// The nodes that the diagnosis is about, and no others.
    pub nodes: EvidenceLayer<Node>,
    pub pods: EvidenceLayer<Pod>,
    pub events: EvidenceLayer<Event>,
    pub daemon_sets: EvidenceLayer<DaemonSet>,
    pub leases: EvidenceLayer<Lease>,
    pub endpoint_slices: EvidenceLayer<EndpointSlice>,
    /// The Machines of Cluster API in the namespace of the pool.
    pub machines: EvidenceLayer<Value>,
    pub node_logs: EvidenceLayer<NodeLog>,
}

impl Evidence {
    /// Nothing but empty parts, and no logs.
    pub fn empty(at: Timestamp, subject: DiagnosisSubject) -> Self {
        Self {
            at,
            subject,
            pools: EvidenceLayer::default(),
            nodes: EvidenceLayer::default(),
            pods: EvidenceLayer::default(),
            events: EvidenceLayer::default(),
            daemon_sets: EvidenceLayer::default(),
            leases: EvidenceLayer::default(),
            endpoint_slices: EvidenceLayer::default(),
            machines: EvidenceLayer::default(),
            node_logs: EvidenceLayer::Unavailable("give --node-logs".to_owned()),
        }
    }
}

macro_rules! parts {
    ($($field:ident: $type:ty = $part:ident),* $(,)?) => {
        impl Evidence {
            /// Why a part is missing or incomplete.
            pub fn missing(&self, part: EvidencePart) -> Option<Unavailable> {
                let missing = match part { $(EvidencePart::$part => self.$field.missing(),)* };
                missing.map(|reason| Unavailable { part, reason: reason.to_owned() })
            }

            $(
                #[doc = concat!("The ", stringify!($field), ".\n\n# Errors\nThey could not be read.")]
                pub fn $field(&self) -> Result<&[$type], Unavailable> {
                    self.$field.get(EvidencePart::$part)
                }
            )*
        }
    };
}

parts! {
    pools: DynamicObject = Pools,
    nodes: Node = Nodes,
    pods: Pod = Pods,
    events: Event = Events,
    daemon_sets: DaemonSet = DaemonSets,
    leases: Lease = Leases,
    endpoint_slices: EndpointSlice = EndpointSlices,
    machines: Value = Machines,
    node_logs: NodeLog = NodeLogs,
}
