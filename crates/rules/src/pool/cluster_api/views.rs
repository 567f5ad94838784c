//! Cluster API's objects as observed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::{DynamicObject, ObjectMeta};
use serde::Deserialize;
use serde_json::Value;
use winpool_api::names::{annotation, label, manager};
use winpool_core::{
    ForeignText, ResourceVersion, bounded::bounded, kind::Kind, named, node::last_other_writer, object_key,
};
use winpool_facts::{
    ContainerRuntime, ContainerdVersion,
    cluster_api::{self, DEPLOYMENT_NAME, POOL_NAME, TOPOLOGY_OWNED, capacity},
};

/// A group of machines of one template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// A MachineDeployment, which refers to a KubeadmConfigTemplate.
    Deployment,
    /// A MachinePool, which refers to a KubeadmConfig.
    Pool,
}

impl GroupKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Deployment, Self::Pool];

    /// Its row.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Deployment => Kind::MACHINE_DEPLOYMENT,
            Self::Pool => Kind::MACHINE_POOL,
        }
    }

    /// As Cluster API spells it.
    pub const fn name(self) -> &'static str {
        self.kind().name
    }

    /// The kind of object that it refers to.
    pub const fn bootstrap(self) -> Kind {
        match self {
            Self::Deployment => Kind::KUBEADM_CONFIG_TEMPLATE,
            Self::Pool => Kind::KUBEADM_CONFIG,
        }
    }
}

/// A Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    key: String,
    /// Whether its controllers are paused.
    pub paused: bool,
}

/// A MachineDeployment or MachinePool.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // fields without a comment are as in Cluster API
pub struct MachineGroup {
    key: String,
    pub kind: GroupKind,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: ResourceVersion,
    pub labels: BTreeMap<String, String>,
    /// The labels of its machines.
    pub machine_labels: BTreeMap<String, String>,
    /// Whether it has more labels than are kept.
    pub oversized: bool,
    /// The annotations for the autoscaler, and winpool's.
    pub annotations: BTreeMap<String, String>,
    pub cluster: String,
    /// Whether its controllers are paused.
    pub paused: bool,
    /// Whether a topology controls it.
    pub topology_owned: bool,
    /// Whether its owner lets winpool switch its reference.
    pub managed: bool,
    /// The Kubernetes version of its machines.
    pub version: String,
    /// The kind of the bootstrap object that it refers to; empty without one.
    pub bootstrap_kind: String,
    /// Its name.
    pub bootstrap: String,
    pub infrastructure: Option<InfrastructureReference>,
    pub replicas: u32,
    /// The last field manager of the reference other than winpool.
    pub other_writer: Option<ForeignText>,
}

/// A reference to the template of machines at a provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // as in Kubernetes
pub struct InfrastructureReference {
    pub namespace: String,
    pub group: String,
    pub kind: String,
    pub name: String,
}

/// What a provider reports about the machines of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Infrastructure {
    /// `status.capacity`.
    pub capacity: BTreeMap<String, String>,
}

/// A MachineSet: machines of one template of a MachineDeployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSetView {
    key: String,
    /// The MachineDeployment, as `namespace/name`.
    pub deployment: String,
    /// The KubeadmConfigTemplate, as `namespace/name`.
    pub template: String,
    /// The machines that exist.
    pub replicas: u32,
}

/// A Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineView {
    key: String,
    pub kind: GroupKind,
    /// The MachineDeployment or MachinePool, as `namespace/name`.
    pub group: String,
    /// The name of its node.
    pub node: Option<String>,
    /// The version of containerd that its node reports.
    pub containerd: Option<ContainerdVersion>,
}

/// A KubeadmConfigTemplate, or a KubeadmConfig of winpool.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // fields without a comment are as in Kubernetes
pub struct TemplateView {
    key: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The pool whose template it is.
    pub pool: Option<String>,
    pub created: Option<Timestamp>,
    pub deleting: bool,
    /// Whether it was changed after it was created.
    pub edited: bool,
    /// The KubeadmConfigSpec.
    pub spec: Value,
}

/// The text of a field; empty if it has none.
fn text(field: &Value) -> String {
    field.as_str().unwrap_or_default().to_owned()
}

fn number(field: &Value) -> Option<u32> {
    field.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// `namespace/name`.
pub fn key_of(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

fn has_annotation(metadata: &ObjectMeta, key: &str) -> bool {
    metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(key))
}

impl ClusterView {
    /// Reads an object.
    pub fn from_object(object: &DynamicObject) -> Self {
        let paused = object.data["spec"]["paused"] == true;
        Self {
            key: object_key(&object.metadata),
            paused: paused || has_annotation(&object.metadata, cluster_api::PAUSED),
        }
    }
}

impl MachineGroup {
    /// Reads an object.
    pub fn from_object(kind: GroupKind, object: DynamicObject) -> Self {
        let DynamicObject { metadata, data, .. } = object;
        let (spec, machine) = (&data["spec"], &data["spec"]["template"]["spec"]);
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let reference = Some(&machine["infrastructureRef"]).filter(|reference| reference.is_object());
        let infrastructure = reference.map(|reference| InfrastructureReference {
            namespace: namespace.clone(),
            group: text(&reference["apiGroup"]),
            kind: text(&reference["kind"]),
            name: text(&reference["name"]),
        });
        let managed = metadata
            .annotations
            .iter()
            .flatten()
            .any(|(key, value)| key == annotation::MANAGE_BOOTSTRAP && value == "true");
        let own = [annotation::AUTOSCALING, annotation::RENDERED_FROM];
        let is_read = |key: &str| own.contains(&key) || capacity::ALL.contains(&key);
        let topology_owned = metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(TOPOLOGY_OWNED));
        let (labels, many) = bounded(metadata.labels.clone().unwrap_or_default());
        let machine_labels = BTreeMap::deserialize(&spec["template"]["metadata"]["labels"]).unwrap_or_default();
        let (machine_labels, many_of_machines) = bounded(machine_labels);
        Self {
            key: object_key(&metadata),
            kind,
            name: metadata.name.clone().unwrap_or_default(),
            paused: spec["paused"] == true || has_annotation(&metadata, cluster_api::PAUSED),
            topology_owned,
            labels,
            machine_labels,
            oversized: many || many_of_machines,
            other_writer: {
                let writers = metadata.managed_fields.iter().flatten().filter(|entry| owns_reference(entry));
                last_other_writer(writers, manager::MACHINES)
            },
            annotations: metadata.annotations.into_iter().flatten().filter(|(key, _)| is_read(key)).collect(),
            namespace,
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.into(),
            cluster: text(&spec["clusterName"]),
            managed,
            version: text(&machine["version"]),
            bootstrap_kind: text(&machine["bootstrap"]["configRef"]["kind"]),
            bootstrap: text(&machine["bootstrap"]["configRef"]["name"]),
            infrastructure,
            replicas: number(&data["status"]["replicas"]).or(number(&spec["replicas"])).unwrap_or_default(),
        }
    }
}

/// Whether an entry of the managed fields has the name in the reference to the bootstrap object. That of a client which writes in
/// v1beta1, where references are atomic, has it as a whole, without fields.
fn owns_reference(entry: &ManagedFieldsEntry) -> bool {
    let path = "/f:spec/f:template/f:spec/f:bootstrap/f:configRef";
    let reference = entry.fields_v1.as_ref().and_then(|fields| fields.0.pointer(path)?.as_object());
    reference.is_some_and(|fields| fields.is_empty() || fields.contains_key("f:name"))
}

impl MachineSetView {
    /// Reads an object.
    pub fn from_object(object: &DynamicObject) -> Self {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let template = &object.data["spec"]["template"]["spec"]["bootstrap"]["configRef"];
        Self {
            key: object_key(&object.metadata),
            deployment: key_of(namespace, label_of(&object.metadata, DEPLOYMENT_NAME)),
            template: key_of(namespace, template["name"].as_str().unwrap_or_default()),
            replicas: number(&object.data["status"]["replicas"]).unwrap_or_default(),
        }
    }
}

fn label_of<'a>(metadata: &'a ObjectMeta, key: &str) -> &'a str {
    metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

impl MachineView {
    /// Reads an object.
    pub fn from_object(object: &DynamicObject) -> Self {
        let (node, reported) = (&object.data["status"]["nodeRef"], &object.data["status"]["nodeInfo"]);
        let (kind, group) = match label_of(&object.metadata, DEPLOYMENT_NAME) {
            "" => (GroupKind::Pool, label_of(&object.metadata, POOL_NAME)),
            deployment => (GroupKind::Deployment, deployment),
        };
        let containerd = match ContainerRuntime::read(&text(&reported["containerRuntimeVersion"])) {
            Some(ContainerRuntime::Containerd(version)) => Some(version),
            _ => None,
        };
        Self {
            key: object_key(&object.metadata),
            kind,
            group: key_of(object.metadata.namespace.as_deref().unwrap_or_default(), group),
            node: Some(text(&node["name"])).filter(|name| !name.is_empty()),
            containerd,
        }
    }
}

impl TemplateView {
    /// Reads a KubeadmConfigTemplate or a KubeadmConfig.
    pub fn from_object(kind: GroupKind, object: DynamicObject) -> Self {
        let path = match kind {
            GroupKind::Deployment => "/spec/template/spec",
            GroupKind::Pool => "/spec",
        };
        let spec = object.data.pointer(path).cloned().unwrap_or_default();
        let metadata = object.metadata;
        Self {
            key: object_key(&metadata),
            pool: metadata.labels.as_ref().and_then(|labels| labels.get(label::POOL).cloned()),
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            // Cluster API itself writes the discovery of the cluster into a KubeadmConfig.
            edited: kind == GroupKind::Deployment && metadata.generation.is_some_and(|generation| generation > 1),
            spec,
        }
    }
}

/// A MachinePool.
#[derive(Clone, Debug, PartialEq)]
pub struct MachinePoolView(pub MachineGroup);

/// A KubeadmConfig of winpool.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeadmConfigView(pub TemplateView);

named!(
    ClusterView: key, MachineGroup: key, MachinePoolView: 0.key, MachineSetView: key, MachineView: key, TemplateView: key,
    KubeadmConfigView: 0.key
);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_reference_is_owned_by_who_wrote_its_name_or_all_of_it() {
        let cases = [
            (json!({"f:name": {}}), true),
            (json!({"f:apiGroup": {}, "f:kind": {}, "f:name": {}}), true),
            (json!({}), true),
            (json!({".": {}, "f:apiGroup": {}, "f:kind": {}}), false),
            (json!(null), false),
        ];
        for (fields, owned) in cases {
            let fields = json!({"f:spec": {"f:template": {"f:spec": {"f:bootstrap": {"f:configRef": fields}}}}});
            let entry = serde_json::from_value(json!({"manager": "gitops", "fieldsV1": fields})).unwrap();
            assert_eq!(owns_reference(&entry), owned, "{fields}");
        }
    }
}
