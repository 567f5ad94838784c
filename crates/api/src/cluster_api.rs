//! `spec.delivery.clusterAPI` of a pool: the machines of Cluster API that become its nodes.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    pattern::{CONTAINERD_LINE, OBJECT_NAME},
    schema::QuantityText,
    selector::LabelSelector,
};

/// The machines of Cluster API that become nodes of the pool.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.machineDeployments) != has(self.machinePools)")
        .message("write either machineDeployments or machinePools")
)]
pub struct ClusterApi {
    /// The namespace of the Cluster and its machines. winpool creates its templates there. Example: default.
    #[schemars(length(min = 1, max = 63), regex(pattern = OBJECT_NAME.pattern))]
    pub namespace: String,
    /// The name of the Cluster. Example: prod.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_NAME.pattern))]
    pub cluster_name: String,
    /// Selects the MachineDeployments whose machines become nodes of the pool, by their labels. Example:
    /// {matchLabels: {winpool: web}}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_deployments: Option<LabelSelector>,
    /// Selects MachinePools instead, by their labels. Example: {matchLabels: {winpool: web}}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_pools: Option<LabelSelector>,
    /// The template of the platform team, with users, provider commands and files. winpool adds to a copy of it, and never
    /// changes it. Example: {kind: KubeadmConfigTemplate, name: base-windows}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_from: Option<TemplateReference>,
    /// The release line of containerd in the machine image. Required while no machine or node reports it, and
    /// recommended, because a new image may have another one. Example: "2.2".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 8), regex(pattern = CONTAINERD_LINE.pattern))]
    pub containerd_version: String,
    /// Manual: the new template exists, status names it, and a person or Git switches the reference. Automatic: winpool
    /// switches the reference of MachineDeployments and MachinePools with the annotation winpool.dev/manage-bootstrap: "true".
    /// Example: Manual.
    #[serde(default)]
    pub rotation: Rotation,
    /// The capacity of one machine, for an autoscaler that starts with no machine. winpool writes it with labels and taints
    /// as annotations on the MachineDeployments, but never their minimum and maximum size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
}

/// The template to add to.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct TemplateReference {
    /// KubeadmConfigTemplate. Example: KubeadmConfigTemplate.
    #[serde(default)]
    pub kind: TemplateKind,
    /// Its name, in spec.delivery.clusterAPI.namespace. Example: base-windows.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_NAME.pattern))]
    pub name: String,
}

/// The kind of the template to add to.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // explained at the field
pub enum TemplateKind {
    #[default]
    KubeadmConfigTemplate,
}

/// Who switches MachineDeployments to a new template.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // explained at the field
pub enum Rotation {
    #[default]
    Manual,
    Automatic,
}

/// The capacity of one machine.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Autoscaling {
    /// The processors. Example: "4".
    pub cpu: QuantityText,
    /// The memory. Example: 16Gi.
    pub memory: QuantityText,
    /// The disk for containers. Example: 120Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_disk: Option<QuantityText>,
}
