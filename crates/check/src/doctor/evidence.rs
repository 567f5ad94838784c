//! What is read of a cluster for a diagnosis. A part that could not be read is not an empty part.

use std::collections::BTreeMap;

use derive_more::Display;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    coordination::v1::Lease,
    core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod},
    discovery::v1::EndpointSlice,
    storage::v1::{CSINode, StorageClass},
};
use kube::core::DynamicObject;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use winpool_core::{Problem, decode, image::ImagePlatforms, kind::Kind};
use winpool_facts::named_enum;

/// What a diagnosis is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum DiagnosisSubject {
    #[display("pool {name}")]
    Pool { name: String },
    #[display("node {name}")]
    Node { name: String },
    #[display("pod {namespace}/{name}")]
    Pod { namespace: String, name: String },
}

impl EvidencePart {
    /// Its name in messages: that of the resource, as in a role, if it has objects.
    pub const fn resource(self) -> &'static str {
        match (self, self.kinds()) {
            (_, [kind, ..]) => kind.plural,
            (Self::Images, []) => "platforms of images",
            (Self::AccessReviews, []) => "permissions of ServiceAccounts",
            (_, []) => "logs of nodes",
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

    /// Both, if both were read.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Read { mut items, omitted }, Self::Read { items: more, omitted: is_cut }) => {
                items.extend(more);
                Self::Read { items, omitted: omitted || is_cut }
            }
            (unread @ Self::Unavailable(_), _) | (_, unread) => unread,
        }
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

/// What a registry has of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryImage {
    /// The image, as the pod names it.
    pub image: String,
    pub content: ImageContent,
}

/// The platforms of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ImageContent {
    /// Those for which it has an entry.
    Read(ImagePlatforms),
    /// They were not read, for this reason.
    Unread(String),
}

impl EvidenceLayer<Value> {
    /// The objects as their type, without those of another structure, and the problem of the first of these.
    fn decoded<T: DeserializeOwned>(self, part: &str) -> (EvidenceLayer<T>, Option<Problem>) {
        let (objects, omitted) = match self {
            Self::Read { items, omitted } => (items, omitted),
            Self::Unavailable(reason) => return (EvidenceLayer::Unavailable(reason), None),
        };
        let mut problem = None;
        let items = objects.into_iter().enumerate().filter_map(|(index, object)| {
            let wrong = |error: serde_json::Error| {
                let at = format!("{part}.read.items[{index}]");
                problem.get_or_insert(Problem::new(at, error.to_string(), "write the bundle again"));
            };
            serde_json::from_value(object).map_err(wrong).ok()
        });
        let items = items.collect();
        (EvidenceLayer::Read { items, omitted: omitted || problem.is_some() }, problem)
    }
}

/// The parts, with their names in a bundle and the kinds of their objects. What reads and writes their types is compiled with its
/// callers, which are not optimized for speed.
macro_rules! parts {
    ($($(#[$of:meta])* $field:ident: $type:ty = $part:ident $name:literal $kinds:expr,)*) => {
        named_enum! {
            /// What is read: objects, or what nodes and registries have.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            pub enum EvidencePart { $($part,)* }
        }

        impl EvidencePart {
            /// The kinds of its objects, the newest version first; none if it has no objects.
            pub const fn kinds(self) -> &'static [Kind] {
                match self { $(Self::$part => &$kinds,)* }
            }
        }

        /// What was read of a cluster: plain objects, without what a diagnosis does not need ([`super::reduced`]).
        #[derive(Clone, Debug, PartialEq)]
        pub struct Evidence {
            /// When it was read.
            pub at: Timestamp,
            pub subject: DiagnosisSubject,
            $($(#[$of])* pub $field: EvidenceLayer<$type>,)*
        }

        impl Evidence {
            /// Nothing but empty parts, without logs and images.
            pub fn empty(at: Timestamp, subject: DiagnosisSubject) -> Self {
                let empty = Self { at, subject, $($field: EvidenceLayer::default(),)* };
                Self {
                    node_logs: EvidenceLayer::Unavailable("give --node-logs".to_owned()),
                    images: EvidenceLayer::Unavailable("give --registry".to_owned()),
                    ..empty
                }
            }

            /// Why a part is missing or incomplete.
            pub fn missing(&self, part: EvidencePart) -> Option<Unavailable> {
                let missing = match part { $(EvidencePart::$part => self.$field.missing(),)* };
                missing.map(|reason| Unavailable { part, reason: reason.to_owned() })
            }

            /// Sets a part. Objects of another structure are omitted.
            #[inline]
            pub fn set(&mut self, part: EvidencePart, objects: EvidenceLayer<Value>) {
                match part { $(EvidencePart::$part => self.$field = objects.decoded($name).0,)* }
            }

            /// The parts as JSON, by name.
            #[inline]
            pub fn to_parts(&self) -> serde_json::Result<BTreeMap<&'static str, Value>> {
                Ok(BTreeMap::from([
                    (AT, serde_json::to_value(&self.at)?),
                    (SUBJECT, serde_json::to_value(&self.subject)?),
                    $(($name, serde_json::to_value(&self.$field)?),)*
                ]))
            }

            /// Reads what [`Self::to_parts`] has written; an error if a part is unknown or has another structure. Bundles of former
            /// versions have fewer parts.
            #[inline]
            pub fn from_parts(mut parts: BTreeMap<String, Value>) -> Result<Self, Problem> {
                let mut take = |name: &str| {
                    parts.remove(name).ok_or_else(|| Problem::new(name, "is required", "write the bundle again"))
                };
                let (at, subject) = (decode(AT, take(AT)?)?, decode(SUBJECT, take(SUBJECT)?)?);
                let mut layer = |name: &str| match parts.remove(name) {
                    Some(part) => decode::<EvidenceLayer<Value>>(name, part),
                    None => Ok(EvidenceLayer::Unavailable("the bundle does not have them".to_owned())),
                };
                let evidence = Self {
                    at,
                    subject,
                    $($field: match layer($name)?.decoded($name) {
                        (_, Some(problem)) => return Err(problem),
                        (layer, None) => layer,
                    },)*
                };
                let unknown = parts.into_keys().next();
                unknown.map_or(Ok(evidence), |name| Err(Problem::new(name, "is unknown", "remove it")))
            }

            $(
                pub fn $field(&self) -> Result<&[$type], Unavailable> {
                    self.$field.get(EvidencePart::$part)
                }
            )*
        }
    };
}

const AT: &str = "at";
const SUBJECT: &str = "subject";

parts! {
    pools: DynamicObject = Pools "pools" [Kind::POOL],
    /// The nodes that the diagnosis is about, and no others.
    nodes: Node = Nodes "nodes" [Kind::NODE],
    pods: Pod = Pods "pods" [Kind::POD],
    events: Event = Events "events" [Kind::EVENT],
    daemon_sets: DaemonSet = DaemonSets "daemonSets" [Kind::DAEMON_SET],
    leases: Lease = Leases "leases" [Kind::LEASE],
    endpoint_slices: EndpointSlice = EndpointSlices "endpointSlices" [Kind::ENDPOINT_SLICE, Kind { version: "v1beta1", ..Kind::ENDPOINT_SLICE }],
    claims: PersistentVolumeClaim = Claims "claims" [Kind::CLAIM],
    volumes: PersistentVolume = Volumes "volumes" [Kind::VOLUME],
    storage_classes: StorageClass = StorageClasses "storageClasses" [Kind::STORAGE_CLASS],
    csi_nodes: CSINode = CsiNodes "csiNodes" [Kind::CSI_NODE],
    /// The Machines of Cluster API in the namespace of the pool.
    machines: Value = Machines "machines" [Kind::MACHINE],
    machine_deployments: DynamicObject = MachineDeployments "machineDeployments" [Kind::MACHINE_DEPLOYMENT],
    machine_pools: DynamicObject = MachinePools "machinePools" [Kind::MACHINE_POOL],
    machine_sets: DynamicObject = MachineSets "machineSets" [Kind::MACHINE_SET],
    /// The WindowsNodeConfigs of the nodes, in which their agents answer.
    node_configs: DynamicObject = NodeConfigs "nodeConfigs" [Kind::NODE_CONFIG],
    node_logs: NodeLog = NodeLogs "nodeLogs" [],
    /// The images of the pods that are not ready ([`super::waiting_images`]).
    images: RegistryImage = Images "images" [],
    /// The GMSACredentialSpecs, if pods name some.
    credential_specs: Value = CredentialSpecs "credentialSpecs" [Kind::CREDENTIAL_SPEC, Kind { version: "v1alpha1", ..Kind::CREDENTIAL_SPEC }],
    /// Those with the webhook of windows-gmsa.
    mutating_webhooks: Value = MutatingWebhooks "mutatingWebhooks" [Kind::MUTATING_WEBHOOK],
    /// The answers to [`super::access_reviews`].
    access_reviews: Value = AccessReviews "accessReviews" [],
}
