//! The custom resources: their types, schema rules and printer columns.
//!
//! The group is `winpool.dev`, the version `v1alpha1`; all resources are cluster-scoped.
//! winpool-rules repeats the checks of the CEL rules for manifests in files.

#![warn(missing_docs)]

pub mod bounds;
mod cluster_api;
pub mod conditions;
mod delivery;
pub mod names;
mod node_config;
mod node_diagnosis;
mod node_facts;
pub mod pattern;
mod pool;
mod profile;
mod rollback;
mod schema;
mod selector;
mod taint;
mod toleration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use cluster_api::{Autoscaling, ClusterApi, Rotation, TemplateKind, TemplateReference};
pub use delivery::{Delivery, DeliveryMethod, DrainPolicy, DriftPolicy, MaintenanceWindow, NodeLimit, RolloutSettings};
pub use node_config::{
    ConfigReference, Disruption, NodeConfigPhase, RejectedConfig, WindowsNodeConfig, WindowsNodeConfigSpec,
    WindowsNodeConfigStatus,
};
pub use node_diagnosis::{
    AdapterState, ContainerLog, DiagnosisRequest, HnsNetwork, LogEnd, MAX_PORTS, NodeDiagnosis, RouteState, ServiceRun,
    ServiceRunState,
};
pub use node_facts::{DirectoryFacts, NetworkFacts, NodeFacts, ServiceFacts, ServiceStart};
pub use pool::{
    Applied, BuildCount, ClusterApiStatus, Columns, ConfigStatus, DeletionPolicy, KubeletCount, MachineGroupStatus,
    Mode, NextTemplate, NodeCounts, Pending, ProfileRef, RuntimeClassIsolation, RuntimeClassScope, RuntimeClassSpec,
    RuntimeClassState, RuntimeClassStatus, RuntimeClassUse, WindowsNodePool, WindowsNodePoolSpec,
    WindowsNodePoolStatus, WorkloadCounts,
};
pub use profile::{
    Cni, ContainerLogs, ContainerdSettings, ImageGarbageCollection, KubeProxyMode, KubeProxySettings, KubeletLogging,
    KubeletSettings, PauseImageSettings, PauseImageSource, PriorityClass, ProxySettings, RegistryMirror, UsedBy,
    WindowsRuntimeProfile, WindowsRuntimeProfileSpec, WindowsRuntimeProfileStatus,
};
pub use rollback::RollbackReason;
pub use schema::QuantityText;
pub use selector::{LabelSelector, SelectorOperator, SelectorRequirement};
pub use taint::{ParseTaintKeyError, Taint, TaintEffect, TaintKey};
pub use toleration::{Toleration, TolerationOperator};

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The CustomResourceDefinitions in `crds/`, each with its file name.
pub fn custom_resource_definitions() -> Vec<(&'static str, CustomResourceDefinition)> {
    vec![
        ("winpool.dev_windowsnodeconfigs.yaml", schema::finish(WindowsNodeConfig::crd())),
        ("winpool.dev_windowsnodepools.yaml", schema::finish(WindowsNodePool::crd())),
        ("winpool.dev_windowsruntimeprofiles.yaml", schema::finish(WindowsRuntimeProfile::crd())),
    ]
}
