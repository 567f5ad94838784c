//! The desired state of a RuntimeClass.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};
use winpool_api::{
    RuntimeClassScope, Taint, Toleration, TolerationOperator,
    names::{annotation, label},
};
use winpool_core::{
    kind::Kind,
    kubernetes::quantity::Quantity,
    node::{ARCHITECTURE, WindowsNode},
    release_labels,
};

use crate::{
    operation::{Action, Write, WriteTarget},
    pool::{Pool, RuntimeClass, RuntimeClassView, Snapshot, Spec},
    revert::FieldWrite,
};

/// A pool that names a class.
#[derive(Clone, Copy)]
pub struct ClassUser<'a> {
    pub pool: &'a Pool,
    pub spec: &'a Spec,
    pub class: &'a RuntimeClass,
}

impl ClassUser<'_> {
    /// Whether both pools can share a class.
    pub fn can_share(&self, other: &ClassUser) -> bool {
        [self, other].iter().all(|user| user.class.scope != RuntimeClassScope::Pool)
            && self.selector() == other.selector()
            && self.class.handler == other.class.handler
    }

    fn selector(&self) -> BTreeMap<String, String> {
        let build = self.spec.build;
        let scope = match self.class.scope {
            RuntimeClassScope::Build | RuntimeClassScope::Pool => (label::WINDOWS_BUILD.to_owned(), build.to_string()),
            RuntimeClassScope::Compatible => (release_labels::key_of(build), label::RUNS_VALUE.to_owned()),
        };
        let system = [(label::OS.to_owned(), "windows".to_owned()), (label::ARCH.to_owned(), ARCHITECTURE.to_owned())];
        let mut labels: BTreeMap<String, String> = system.into_iter().chain([scope]).collect();
        if self.class.scope == RuntimeClassScope::Pool {
            labels.insert(label::POOL.to_owned(), self.pool.name.clone());
        }
        labels
    }
}

/// The desired state of a RuntimeClass.
#[derive(Clone)]
pub struct DesiredClass<'a> {
    pub name: &'a str,
    /// The pool in the label of the class: the first of those that share it.
    pub pool: &'a str,
    pub handler: &'a str,
    pub overhead: Cow<'a, BTreeMap<String, Quantity>>,
    pub selector: BTreeMap<String, String>,
    pub tolerations: Vec<core::Toleration>,
    /// The state before the adoption, as JSON, if the class was adopted.
    pub adopted: Option<String>,
}

impl<'a> DesiredClass<'a> {
    /// The class that these pools share. The pool `first` takes precedence.
    pub fn new(first: ClassUser<'a>, users: &[ClassUser]) -> Self {
        let pool = &first.pool.name;
        Self {
            name: &first.class.name,
            pool,
            handler: &first.class.handler,
            overhead: Cow::Borrowed(&first.class.overhead),
            selector: first.selector(),
            tolerations: tolerations(users),
            adopted: None,
        }
    }

    /// Keeps the tolerations that a class had before it was adopted, and its state at that time.
    pub fn keep_adopted(&mut self, existing: &RuntimeClassView) {
        self.adopted = match existing.adopted() {
            Some(before) => Some(before.to_owned()),
            None if existing.is_managed() => None,
            None => Some(
                json!({"overhead": existing.object.overhead, "scheduling": existing.object.scheduling}).to_string(),
            ),
        };
        let before = self.adopted.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let tolerations = before.as_ref().and_then(|before| before["scheduling"]["tolerations"].as_array());
        let tolerations = tolerations.into_iter().flatten();
        self.add_tolerations(tolerations.filter_map(|toleration| serde_json::from_value(toleration.clone()).ok()));
    }

    /// Keeps the selector and all tolerations of the class.
    pub fn extend(&mut self, existing: &RuntimeClassView) {
        self.selector = existing.selector();
        self.add_tolerations(existing.tolerations());
    }

    /// Whether the class has the same overhead, and no other tolerations.
    pub fn has_all_of(&self, existing: &RuntimeClassView) -> bool {
        existing.overhead() == *self.overhead
            && existing.tolerations().iter().all(|toleration| self.tolerations.contains(toleration))
    }

    /// Keeps the overhead of the class, and all its tolerations in their order.
    pub fn keep_present(&mut self, existing: &RuntimeClassView) {
        self.overhead = Cow::Owned(existing.overhead());
        let missing = std::mem::replace(&mut self.tolerations, existing.tolerations());
        self.add_tolerations(missing);
    }

    /// Keeps the tolerations of the class for single taints of nodes that it selects. Without them its pods could not
    /// be scheduled there again.
    pub fn keep_tolerated(&mut self, existing: &RuntimeClassView, snapshot: &Snapshot) {
        if existing.tolerations().iter().any(|toleration| !self.tolerations.contains(toleration)) {
            self.add_tolerations(tolerated(existing, self.selector.clone(), snapshot));
        }
    }

    fn add_tolerations(&mut self, tolerations: impl IntoIterator<Item = core::Toleration>) {
        for toleration in tolerations {
            if !self.tolerations.contains(&toleration) {
                self.tolerations.push(toleration);
            }
        }
    }

    /// The object, for server-side apply.
    pub fn body(&self) -> Value {
        let labels = json!({label::MANAGED_BY: label::MANAGED_BY_VALUE, label::POOL: self.pool});
        let mut body = Kind::RUNTIME_CLASS.object(json!({"name": self.name, "labels": labels}));
        body["handler"] = json!(self.handler);
        body["scheduling"] = json!({"nodeSelector": self.selector});
        if !self.tolerations.is_empty() {
            body["scheduling"]["tolerations"] = json!(self.tolerations);
        }
        if let Some(before) = &self.adopted {
            body["metadata"]["annotations"] = json!({annotation::ADOPTED: before});
        }
        if !self.overhead.is_empty() {
            let amounts: BTreeMap<_, _> =
                self.overhead.iter().map(|(name, amount)| (name, amount.to_string())).collect();
            body["overhead"] = json!({"podFixed": amounts});
        }
        body
    }

    /// The field that an apply sets, for the detection of reverts.
    pub fn field_write(&self) -> FieldWrite {
        FieldWrite::scheduling(self.body()["scheduling"].to_string())
    }

    /// Applies an extended class. Another apply follows, so this one does not count for the detection of reverts.
    pub fn apply_extended(&self, existing: &RuntimeClassView) -> Write {
        self.apply(Some(existing), "add tolerations", Vec::new())
    }

    /// Applies the class to the observed version of the existing class, or creates it.
    pub fn apply(&self, existing: Option<&RuntimeClassView>, change: &str, fields: Vec<FieldWrite>) -> Write {
        let object = object(self.name, existing);
        let (version, change) = (existing.map(|class| class.resource_version.as_str()), change.to_owned());
        Write { fields, ..Write::apply(Action::ApplyRuntimeClass, object, version, self.body(), change) }
    }
}

/// The tolerations of a class for single taints of nodes that it selects, or would with another selector.
pub fn tolerated(
    class: &RuntimeClassView,
    selector: BTreeMap<String, String>,
    snapshot: &Snapshot,
) -> Vec<core::Toleration> {
    let selectors = [class.selector(), selector];
    let selected = |node: &&WindowsNode| {
        selectors.iter().any(|selector| selector.iter().all(|(key, value)| node.labels.get(key) == Some(value)))
    };
    let nodes = snapshot.nodes.values().map(AsRef::as_ref).filter(selected);
    let needed: Vec<_> = nodes
        .flat_map(|node| &node.taints)
        .map(|taint| toleration_of(&taint.key, taint.value.as_deref().unwrap_or_default(), &taint.effect))
        .collect();
    class.tolerations().into_iter().filter(|toleration| needed.contains(toleration)).collect()
}

/// The class with this name, as it exists.
pub fn object(name: &str, existing: Option<&RuntimeClassView>) -> WriteTarget {
    let uid = existing.and_then(|existing| existing.object.metadata.uid.clone());
    WriteTarget { uid, ..WriteTarget::new(Kind::RUNTIME_CLASS, name) }
}

/// The tolerations for the taints of the pools, and those in their specs.
fn tolerations(users: &[ClassUser]) -> Vec<core::Toleration> {
    let mut all: Vec<core::Toleration> = Vec::new();
    let mut tolerated: BTreeSet<&Taint> = BTreeSet::new();
    let mut add = |toleration: core::Toleration| {
        if !all.contains(&toleration) {
            all.push(toleration);
        }
    };
    for user in users {
        // Pools that share a class usually have the same taints.
        user.spec.taints.iter().chain(&user.spec.replaces_taints).filter(|taint| tolerated.insert(*taint)).for_each(
            |taint| {
                add(toleration_of(&taint.key, &taint.value, taint.effect.name()));
            },
        );
        user.class.tolerations.iter().for_each(|toleration| add(written(toleration)));
    }
    all
}

/// The toleration of exactly this taint.
fn toleration_of(key: &str, value: &str, effect: &str) -> core::Toleration {
    core::Toleration {
        key: Some(key.to_owned()),
        operator: Some(TolerationOperator::Equal.name().to_owned()),
        value: non_empty(value),
        effect: Some(effect.to_owned()),
        toleration_seconds: None,
    }
}

fn written(toleration: &Toleration) -> core::Toleration {
    core::Toleration {
        key: non_empty(&toleration.key),
        operator: Some(toleration.operator.name().to_owned()),
        value: non_empty(&toleration.value),
        effect: toleration.effect.map(|effect| effect.name().to_owned()),
        toleration_seconds: toleration.toleration_seconds,
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
