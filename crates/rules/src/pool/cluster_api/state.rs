//! What is known of Cluster API in a cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use winpool_core::Objects;

use super::views::{
    ClusterView, GroupKind, Infrastructure, InfrastructureReference, KubeadmConfigView, MachineGroup, MachinePoolView,
    MachineSetView, MachineView, TemplateView,
};
use crate::pool::Pool;

/// What is known of Cluster API in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClusterApiState<T> {
    /// It is not read yet, or no pool uses it.
    #[default]
    Unknown,
    /// The cluster does not serve its resources.
    NotInstalled,
    /// It serves some of its kinds only in these versions, with their groups.
    Unsupported(Vec<String>),
    /// The cluster serves it: its stores, or its objects.
    Installed(T),
}

impl<T> ClusterApiState<T> {
    /// What is known of it, if it is installed.
    pub fn installed(&self) -> Option<&T> {
        match self {
            Self::Installed(known) => Some(known),
            Self::Unknown | Self::NotInstalled | Self::Unsupported(_) => None,
        }
    }

    /// What follows from it, if it is installed; `None` while that is unknown.
    pub fn and_then<U>(&self, known: impl FnOnce(&T) -> Option<U>) -> ClusterApiState<U> {
        match self {
            Self::Unknown => ClusterApiState::Unknown,
            Self::NotInstalled => ClusterApiState::NotInstalled,
            Self::Unsupported(versions) => ClusterApiState::Unsupported(versions.clone()),
            Self::Installed(installed) => known(installed).map_or(ClusterApiState::Unknown, ClusterApiState::Installed),
        }
    }
}

/// The objects of Cluster API, by `namespace/name`.
#[derive(Clone, Debug, Default)]
pub struct ClusterApiObjects {
    pub clusters: Objects<ClusterView>,
    pub deployments: Objects<MachineGroup>,
    pub pools: Objects<MachinePoolView>,
    pub sets: Objects<MachineSetView>,
    pub machines: Objects<MachineView>,
    pub templates: Objects<TemplateView>,
    pub configs: Objects<KubeadmConfigView>,
    /// What providers report about the machines of their templates; `None` while it is not read.
    pub infrastructure: Arc<BTreeMap<InfrastructureReference, Option<Infrastructure>>>,
}

impl ClusterApiObjects {
    /// The groups of a kind.
    pub fn groups(&self, kind: GroupKind) -> Vec<&MachineGroup> {
        match kind {
            GroupKind::Deployment => self.deployments.values().map(AsRef::as_ref).collect(),
            GroupKind::Pool => self.pools.values().map(|pool| &pool.0).collect(),
        }
    }

    /// The templates to which groups of a kind refer.
    pub fn bootstraps(&self, kind: GroupKind) -> Vec<&TemplateView> {
        match kind {
            GroupKind::Deployment => self.templates.values().map(AsRef::as_ref).collect(),
            GroupKind::Pool => self.configs.values().map(|config| &config.0).collect(),
        }
    }

    /// The template with this key to which groups of a kind refer.
    pub fn bootstrap(&self, kind: GroupKind, key: &str) -> Option<&TemplateView> {
        match kind {
            GroupKind::Deployment => self.templates.get(key).map(AsRef::as_ref),
            GroupKind::Pool => self.configs.get(key).map(|config| &config.0),
        }
    }
}

/// The templates of providers whose capacity matters: those of the groups that pools with `autoscaling` select.
pub fn described_infrastructure<'a>(
    pools: impl Iterator<Item = &'a Pool>,
    groups: impl IntoIterator<Item = &'a MachineGroup>,
) -> BTreeSet<InfrastructureReference> {
    let rules: Vec<_> = pools.filter_map(Pool::cluster_api).filter(|rules| rules.capacity.is_some()).collect();
    let selected = groups.into_iter().filter(|group| rules.iter().any(|rules| rules.selects(group)));
    selected.filter_map(|group| group.infrastructure.clone()).collect()
}
