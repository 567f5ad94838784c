//! The differences of existing and desired RuntimeClasses, and the restoration of adopted ones.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use serde_json::{Map, Value, json};
use winpool_api::{Taint, TaintEffect, TaintKey, names::label};
use winpool_core::{Named, kind::Kind, kubernetes::quantity::Quantity};
use winpool_workload::Scheduling;

use super::desired::{DesiredClass, object};
use crate::{
    operation::{Action, Write},
    pool::RuntimeClassView,
};

impl DesiredClass<'_> {
    /// The differences of the existing class, such as `no toleration for os=windows:NoSchedule`. Extra tolerations of
    /// an unmanaged class are not a difference, nor is a toleration of the same taint in another form.
    pub fn differences(&self, existing: &RuntimeClassView) -> Vec<String> {
        let mut differences = Vec::new();
        let selector = existing.selector();
        if selector != self.selector {
            let [present, desired] = [&selector, &self.selector].map(labels_text);
            differences.push(format!("nodeSelector {present} instead of {desired}"));
        }
        let tolerations = existing.tolerations();
        let scheduling = Scheduling::of_class(&existing.object);
        let tolerates = |toleration: &core::Toleration| {
            let taint = taint_of(toleration).filter(|_| !existing.is_managed());
            taint.is_some_and(|taint| scheduling.tolerates_without_limit(&taint))
        };
        let is_missing = |toleration: &&core::Toleration| !tolerations.contains(toleration) && !tolerates(toleration);
        let missing = self.tolerations.iter().filter(is_missing);
        differences.extend(missing.map(|toleration| format!("no toleration for {}", toleration_text(toleration))));
        if existing.is_managed() {
            let extra = tolerations.iter().filter(|toleration| !self.tolerations.contains(toleration));
            differences.extend(extra.map(|toleration| format!("extra toleration for {}", toleration_text(toleration))));
            let labelled = existing.label(label::POOL) == Some(self.pool);
            differences.extend((!labelled).then(|| format!("label {} is not {}", label::POOL, self.pool)));
            if differences.is_empty() && tolerations != self.tolerations {
                differences.push("different order of tolerations".to_owned());
            }
        }
        if existing.overhead() != *self.overhead {
            differences.push("different overhead".to_owned());
        }
        differences
    }

    /// Removes keys that other clients added to the overhead of the class.
    pub fn strip(&self, existing: &RuntimeClassView) -> Option<Write> {
        strip(existing, |key| self.overhead.contains_key(key))
    }
}

/// Removes keys from the overhead of a class. An apply does not remove those of other managers; it replaces the other fields
/// as a whole (`node/v1/types.go` of kubernetes/api: nodeSelector and tolerations are atomic).
fn strip(existing: &RuntimeClassView, keeps: impl Fn(&str) -> bool) -> Option<Write> {
    let overhead = existing.overhead();
    let removed: Map<_, _> = overhead.into_keys().filter(|key| !keeps(key)).map(|key| (key, Value::Null)).collect();
    if removed.is_empty() {
        return None;
    }
    let body = json!({"overhead": {"podFixed": removed}});
    let object = object(existing.name(), Some(existing));
    Some(Write::merge(Action::StripRuntimeClass, object, &existing.resource_version, body))
}

/// Restores the state of a class before its adoption with these tolerations in addition: first removes keys from its
/// overhead, then applies the rest. `None` if the class was not adopted.
pub fn restored(class: &RuntimeClassView, kept: Vec<core::Toleration>) -> Option<(Option<Write>, Write)> {
    let mut before = class.before_adoption()?;
    let mut tolerations = before["scheduling"]["tolerations"].as_array().cloned().unwrap_or_default();
    let kept: Vec<_> =
        kept.into_iter().map(|toleration| json!(toleration)).filter(|it| !tolerations.contains(it)).collect();
    if !kept.is_empty() {
        tolerations.extend(kept);
        before["scheduling"]["tolerations"] = json!(tolerations);
    }
    let strip = strip(class, |key| before["overhead"]["podFixed"].get(key).is_some());
    let mut body = Kind::RUNTIME_CLASS.object(json!({"name": class.name()}));
    body["handler"] = json!(class.object.handler);
    for field in ["overhead", "scheduling"] {
        if !before[field].is_null() {
            body[field] = before[field].clone();
        }
    }
    let change = "restore the state before the adoption".to_owned();
    let object = object(class.name(), Some(class));
    Some((strip, Write::apply(Action::ApplyRuntimeClass, object, Some(&class.resource_version), body, change)))
}

impl RuntimeClassView {
    /// The overhead and the scheduling before the class was adopted.
    fn before_adoption(&self) -> Option<Value> {
        serde_json::from_str::<Value>(self.adopted()?).ok().filter(Value::is_object)
    }

    /// The selector before the class was adopted.
    pub(super) fn former_selector(&self) -> Option<BTreeMap<String, String>> {
        let selector = self.before_adoption()?["scheduling"]["nodeSelector"].take();
        Some(serde_json::from_value(selector).unwrap_or_default())
    }

    /// The labels of the nodes that the class selects.
    pub fn selector(&self) -> BTreeMap<String, String> {
        self.object.scheduling.as_ref().and_then(|scheduling| scheduling.node_selector.clone()).unwrap_or_default()
    }

    pub(super) fn tolerations(&self) -> Vec<core::Toleration> {
        self.object.scheduling.as_ref().and_then(|scheduling| scheduling.tolerations.clone()).unwrap_or_default()
    }

    /// The taints that the class does not tolerate.
    pub(super) fn untolerated(&self, taints: &[Taint]) -> Vec<TaintKey> {
        let scheduling = Scheduling::of_class(&self.object);
        taints.iter().filter(|taint| !scheduling.tolerates(taint)).map(TaintKey::from).collect()
    }

    pub(super) fn overhead(&self) -> BTreeMap<String, Quantity> {
        let amounts = self.object.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.as_ref());
        let parsed = amounts.into_iter().flatten().map(|(name, amount)| Some((name.clone(), amount.0.parse().ok()?)));
        parsed.flatten().collect()
    }
}

fn labels_text(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if labels.is_empty() { "(none)".to_owned() } else { labels.join(",") }
}

/// The taint that a toleration with operator Equal and an effect tolerates.
fn taint_of(toleration: &core::Toleration) -> Option<Taint> {
    let effect = TaintEffect::named(toleration.effect.as_ref()?)?;
    let value = toleration.value.clone().unwrap_or_default();
    let is_equal = toleration.operator.as_deref() == Some("Equal");
    toleration.key.clone().filter(|_| is_equal).map(|key| Taint { key, value, effect })
}

fn toleration_text(toleration: &core::Toleration) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let key = TaintKey { key: text(&toleration.key), effect: text(&toleration.effect) };
    key.with_value(&text(&toleration.value))
}
