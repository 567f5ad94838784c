//! Which renderings only a new version of winpool changed: those stay away from existing nodes and machines until a person
//! lets them go on.
//!
//! With a rendering, winpool records the digest of what people wrote for it. If that is the same as now and the content
//! is another one, only winpool has changed. A profile counts by its uid and generation, because another version of winpool
//! may read other values from it and another schema may have other defaults.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use winpool_api::hex;
use winpool_core::Objects;
use winpool_render::{
    Variant,
    settings::{FileSettings, canonical, differences},
};

use super::{ConfigMapView, Consent, NodeConfigView, Pool, ProfileView, Snapshot, Spec, snapshot};

/// The length of the digest of inputs, in hexadecimal digits.
const DIGEST_LENGTH: usize = 10;

/// What people wrote for the renderings of a pool.
#[derive(Clone, Debug)]
pub struct RenderingInputs(Value);

impl RenderingInputs {
    /// The inputs of a pool; `None` if its profile is not stored in a cluster.
    pub fn of(spec: &Spec, profile: &ProfileView) -> Option<Self> {
        let inputs = json!({
            "profile": [profile.uid, profile.generation],
            "taints": spec.taints,
            "attempt": attempt(spec).unwrap_or(1),
        });
        (!profile.uid.is_empty()).then_some(Self(inputs))
    }

    /// The inputs of a pool, if its profile is in the snapshot.
    pub fn in_snapshot(snapshot: &Snapshot, spec: &Spec) -> Option<Self> {
        Self::of(spec, snapshot.profiles.get(spec.profile.as_ref()?)?)
    }

    /// The digest of the inputs of the configuration for a variant.
    pub fn of_variant(&self, variant: &Variant) -> String {
        let Variant { kubelet, runtime, host } = variant;
        self.digest(&json!([kubelet.0, runtime.to_string(), host.0]))
    }

    /// The digest of the inputs of a template: the variant of its machines, and what else it contains.
    pub fn of_template(&self, variant: &Variant, others: &Value) -> String {
        self.digest(&json!([self.of_variant(variant), others]))
    }

    fn digest(&self, others: &Value) -> String {
        let digest = hex(&Sha256::digest(canonical(&json!([self.0, others]))));
        format!("{digest:.DIGEST_LENGTH$}")
    }
}

/// The attempt of the rollout; `None` if somebody else delivers.
fn attempt(spec: &Spec) -> Option<u32> {
    spec.rollout.map(|rules| rules.attempt).or(spec.cluster_api.as_ref().map(|rules| rules.attempt))
}

/// Whether existing nodes and machines may get the rendering with this name.
pub fn is_allowed(pool: &Pool, name: &str) -> bool {
    pool.consents.allow(Consent::Rendering(&[snapshot::digest_of_name(name)]))
}

/// Whether a ConfigMap is one that winpool rendered for a pool: its content is that of its name, and of the digest that agents
/// were assigned. A node can name any ConfigMap, and a name has only a part of the digest.
pub fn is_own(snapshot: &Snapshot, pool: &Pool, map: &ConfigMapView) -> bool {
    let has_agents = pool.spec.as_ref().is_ok_and(|spec| spec.rollout.is_some());
    let is_assigned = |node_configs: &Objects<NodeConfigView>| {
        let specs = node_configs.values().filter_map(|config| config.spec.as_ref());
        let mut assigned =
            specs.filter(|spec| spec.config == map.name).map(|spec| spec.digest == map.digest).peekable();
        (assigned.peek().is_some() || !has_agents) && assigned.all(|same| same)
    };
    !map.deleting
        && map.pool.as_ref() == Some(&pool.name)
        && map.name == snapshot::config_name(&pool.name, &map.digest)
        && snapshot.node_configs.as_ref().is_none_or(is_assigned)
}

/// A rendering that existing nodes or machines keep, and the one that they get when a person lets them.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldRendering {
    /// The name of the present ConfigMap or template.
    pub from: String,
    /// The name of the new one.
    pub to: String,
    pub differences: Vec<String>,
}

impl HeldRendering {
    pub fn new(from: &str, to: &str, before: &FileSettings, after: &FileSettings) -> Self {
        Self { from: from.to_owned(), to: to.to_owned(), differences: differences(before, after) }
    }

    /// The differences as changes of the present object, of this kind.
    pub fn changes<'h>(&'h self, kind: &'h str) -> impl Iterator<Item = String> + 'h {
        self.differences.iter().map(move |change| format!("{kind} {} → {}: {change}", self.from, self.to))
    }
}

/// How a person lets existing nodes and machines get the renderings with these names, as a sentence without its full stop.
pub fn remedy(pool: &Pool, spec: &Spec, names: &[&str]) -> String {
    let digests: Vec<&str> = names.iter().map(|name| snapshot::digest_of_name(name)).collect();
    let allow = format!("Allow it: {}", Consent::Rendering(&digests).command(&pool.name));
    match attempt(spec) {
        Some(attempt) => format!("{allow}, or set spec.delivery.rollout.attempt: {}", attempt.saturating_add(1)),
        None => allow,
    }
}
