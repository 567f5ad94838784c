//! The machines of Cluster API that become nodes of a pool: their templates, the references to them, and what an
//! autoscaler has to know.
//!
//! A template is named after the digest of its content and is never changed. A MachineDeployment replaces its machines when
//! its reference to a template changes. Source: kubernetes-sigs/cluster-api v1.14.0,
//! `docs/book/src/tasks/updating-machine-templates.md`.

mod annotations;
mod group;
pub mod hints;
mod plan;
mod rules;
mod state;
mod stored;
mod templates;
mod views;

pub use self::{
    group::{GroupPlan, Reference},
    plan::{ClusterApiPlan, Selected, are_elsewhere, has_left_objects, is_unknown, plan, removed},
    rules::{ClusterApiRules, MachineCapacity},
    state::{ClusterApiObjects, ClusterApiState, described_infrastructure},
    stored::{labels, secret_object, template_object},
    templates::{ClusterApiPool, DesiredTemplate, TemplateRenderer},
    views::{
        ClusterView, GroupKind, Infrastructure, InfrastructureReference, KubeadmConfigView, MachineGroup,
        MachinePoolView, MachineSetView, MachineView, TemplateView, key_of,
    },
};
