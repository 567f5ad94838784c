//! Truncates a status to the bounds of its schema in the CustomResourceDefinition.
//!
//! An API server rejects the whole status if one value is out of bounds, and the previous status would remain. A status
//! contains data of other objects: names, versions, and lists of any length.
//!
//! The bounds come from the published schema, with the semantics of an API server: lengths count Unicode characters, an
//! integer is within the range of its format, and the items of a list of type `map` have unique keys
//! (kubernetes/kube-openapi, `pkg/validation/validate/values.go`, and
//! kubernetes/apiextensions-apiserver, `pkg/apiserver/schema/listtype/validation.go`, 1.34).

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::LazyLock,
};

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use regex::bytes::RegexBuilder;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{WindowsNodePool, WindowsNodePoolStatus, WindowsRuntimeProfile, WindowsRuntimeProfileStatus, schema};

/// The status of a winpool resource.
pub trait Status: Serialize + DeserializeOwned + Default {
    /// Its published schema.
    fn schema() -> &'static JSONSchemaProps;

    /// Records the number of omitted entries by the path of their list.
    fn omit(&mut self, omitted: BTreeMap<String, u32>);
}

impl Status for WindowsNodePoolStatus {
    fn schema() -> &'static JSONSchemaProps {
        static SCHEMA: LazyLock<JSONSchemaProps> = LazyLock::new(|| status_schema(WindowsNodePool::crd()));
        &SCHEMA
    }

    fn omit(&mut self, omitted: BTreeMap<String, u32>) {
        self.omitted.extend(omitted);
    }
}

impl Status for WindowsRuntimeProfileStatus {
    fn schema() -> &'static JSONSchemaProps {
        static SCHEMA: LazyLock<JSONSchemaProps> = LazyLock::new(|| status_schema(WindowsRuntimeProfile::crd()));
        &SCHEMA
    }

    /// Does nothing: the total of its only list is in another field.
    fn omit(&mut self, _: BTreeMap<String, u32>) {}
}

fn status_schema(crd: CustomResourceDefinition) -> JSONSchemaProps {
    let versions = schema::finish(crd).spec.versions;
    let root = versions.into_iter().next().and_then(|version| version.schema?.open_api_v3_schema);
    root.and_then(|root| root.properties?.remove("status")).unwrap_or_default()
}

/// The status as an API server accepts it: strings and lists are truncated, integers are clamped, and values that
/// cannot be made valid are removed. A status within its bounds is unchanged.
pub fn bounded<S: Status>(status: S) -> S {
    let mut truncation = Truncation::default();
    let value = serde_json::to_value(&status).ok().and_then(|value| truncation.value(S::schema(), value, ""));
    let mut status: S = value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
    status.omit(truncation.omitted);
    status
}

/// A text of at most `max` characters. The middle is replaced by the number of omitted characters if it fits, because
/// messages end with the command to run.
pub fn shortened(text: &str, max: usize) -> String {
    let length = text.chars().count();
    if length <= max {
        return text.to_owned();
    }
    let note = format!(" ...({} characters omitted)... ", length.saturating_sub(max));
    // The number includes the characters that the note replaces.
    let kept = max.saturating_sub(note.len() + 2);
    let note = format!(" ...({} characters omitted)... ", length - kept);
    if kept < note.len() {
        let dots = "...".chars().take(max);
        return text.chars().take(max.saturating_sub(3)).chain(dots).collect();
    }
    let tail = kept / 2;
    text.chars().take(kept - tail).chain(note.chars()).chain(text.chars().skip(length - tail)).collect()
}

/// Truncates values.
#[derive(Default)]
struct Truncation {
    /// The number of omitted entries by the path of their list or map.
    omitted: BTreeMap<String, u32>,
}

impl Truncation {
    /// The value within the bounds of its schema. `None` if it cannot be made valid.
    fn value(&mut self, schema: &JSONSchemaProps, value: Value, path: &str) -> Option<Value> {
        match (value, schema.type_.as_deref()) {
            (Value::String(text), Some("string")) => string(schema, text).map(Value::String),
            (Value::String(text), None) if is_int_or_string(schema) => string(schema, text).map(Value::String),
            (value @ Value::Number(_), Some("integer")) => integer(schema, &value),
            (value @ Value::Number(_), None) if is_int_or_string(schema) => integer(schema, &value),
            (value @ Value::Number(_), Some("number")) => Some(value),
            (value @ Value::Bool(_), Some("boolean")) => Some(value),
            (Value::Array(items), Some("array")) => self.list(schema, items, path).map(Value::Array),
            (Value::Object(fields), Some("object")) => self.object(schema, fields, path).map(Value::Object),
            (value, None) if !is_int_or_string(schema) => Some(value),
            _ => None,
        }
    }

    fn list(&mut self, schema: &JSONSchemaProps, items: Vec<Value>, path: &str) -> Option<Vec<Value>> {
        let before = items.len();
        let mut fitted: Vec<Value> = match &schema.items {
            Some(JSONSchemaPropsOrArray::Schema(of_items)) => {
                items.into_iter().filter_map(|item| self.value(of_items, item, path)).collect()
            }
            _ => items,
        };
        let invalid = before - fitted.len();
        let mut seen = BTreeSet::new();
        fitted.retain(|item| unique_key(schema, item).is_none_or(|key| seen.insert(key)));
        let excess = fitted.len() - cap(fitted.len(), schema.max_items);
        fitted.truncate(fitted.len() - excess);
        self.omit(path, invalid + excess);
        is_at_least(fitted.len(), schema.min_items).then_some(fitted)
    }

    fn object(
        &mut self,
        schema: &JSONSchemaProps,
        fields: Map<String, Value>,
        path: &str,
    ) -> Option<Map<String, Value>> {
        let additional = match &schema.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(additional)) => Some(additional.as_ref()),
            _ => None,
        };
        let open = schema.x_kubernetes_preserve_unknown_fields == Some(true);
        let known = |name: &str| schema.properties.as_ref().and_then(|fields| fields.get(name)).or(additional);
        let mut fitted = Map::new();
        let mut excess = 0;
        for (name, value) in fields {
            let value = match known(&name) {
                Some(of_field) => self.value(of_field, value, &join(path, &name)),
                None => open.then_some(value),
            };
            let Some(value) = value else { continue };
            if cap(fitted.len() + 1, schema.max_properties) == fitted.len() {
                excess += 1;
            } else {
                fitted.insert(name, value);
            }
        }
        self.omit(path, excess);
        let complete = schema.required.iter().flatten().all(|name| fitted.contains_key(name));
        (complete && is_at_least(fitted.len(), schema.min_properties)).then_some(fitted)
    }

    fn omit(&mut self, path: &str, count: usize) {
        if count > 0 {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let total = self.omitted.entry(path.to_owned()).or_default();
            *total = total.saturating_add(count);
        }
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

fn is_int_or_string(schema: &JSONSchemaProps) -> bool {
    schema.x_kubernetes_int_or_string == Some(true)
}

/// The length, at most `max`.
fn cap(length: usize, max: Option<i64>) -> usize {
    max.and_then(|max| usize::try_from(max).ok()).map_or(length, |max| length.min(max))
}

fn is_at_least(length: usize, min: Option<i64>) -> bool {
    min.and_then(|min| usize::try_from(min).ok()).is_none_or(|min| length >= min)
}

/// The key that must be unique in a list.
fn unique_key(schema: &JSONSchemaProps, item: &Value) -> Option<String> {
    match schema.x_kubernetes_list_type.as_deref()? {
        "set" => Some(item.to_string()),
        "map" => {
            let keys = schema.x_kubernetes_list_map_keys.iter().flatten();
            Some(keys.map(|key| item.get(key).unwrap_or(&Value::Null).to_string()).collect::<Vec<_>>().join(","))
        }
        _ => None,
    }
}

fn string(schema: &JSONSchemaProps, text: String) -> Option<String> {
    let max = schema.max_length.and_then(|max| usize::try_from(max).ok());
    // Enumerated, formatted and patterned strings cannot be truncated.
    let exact = schema.enum_.is_some() || schema.format.is_some() || schema.pattern.is_some();
    let text = match max {
        Some(max) if !exact => shortened(&text, max),
        Some(max) if text.chars().count() > max => return None,
        _ => text,
    };
    let is_enumerated = schema.enum_.as_ref().is_none_or(|values| values.iter().any(|value| value.0 == *text));
    let is_formatted = schema.format.as_deref() != Some("date-time") || text.parse::<Timestamp>().is_ok();
    let matches_pattern = schema.pattern.as_deref().is_none_or(|pattern| {
        let pattern = RegexBuilder::new(pattern).unicode(false).build();
        pattern.is_ok_and(|pattern| pattern.is_match(text.as_bytes()))
    });
    let is_long_enough = is_at_least(text.chars().count(), schema.min_length);
    (is_enumerated && is_formatted && matches_pattern && is_long_enough).then_some(text)
}

/// An integer clamped to its range. `None` for other numbers.
fn integer(schema: &JSONSchemaProps, value: &Value) -> Option<Value> {
    let number = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))?;
    let range = range(schema);
    let number = number.min(*range.end()).max(*range.start());
    i64::try_from(number).ok().map(Value::from)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "bounds of integers are whole, and the range of the format is kept"
)]
fn range(schema: &JSONSchemaProps) -> RangeInclusive<i128> {
    let (min, max) = match schema.format.as_deref() {
        Some("int32") => (i128::from(i32::MIN), i128::from(i32::MAX)),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    };
    let min = schema.minimum.map_or(min, |bound| min.max(bound.ceil() as i128));
    let max = schema.maximum.map_or(max, |bound| max.min(bound.floor() as i128));
    min..=max
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn truncate(schema: Value, value: Value) -> (Option<Value>, BTreeMap<String, u32>) {
        let mut truncation = Truncation::default();
        let schema = serde_json::from_value(schema).unwrap();
        let value = truncation.value(&schema, value, "at");
        (value, truncation.omitted)
    }

    #[test]
    fn values_are_truncated_to_each_bound_of_a_schema() {
        let text = |more: Value| {
            let mut schema = json!({"type": "string"});
            schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            schema
        };
        let integer = |format: &str| json!({"type": "integer", "format": format, "minimum": 0});
        let list = |more: Value| {
            let mut schema = json!({"type": "array", "items": {"type": "string", "minLength": 1}});
            schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            schema
        };
        let keyed = json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        });
        let fields = json!({
            "type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}},
        });
        let map = |max: u32| {
            let of_entries = json!({"type": "string", "maxLength": 2});
            json!({"type": "object", "maxProperties": max, "additionalProperties": of_entries})
        };
        let table = [
            (text(json!({"maxLength": 3})), json!("äöü"), Some(json!("äöü")), 0),
            (text(json!({"maxLength": 3})), json!("äöüß"), Some(json!("...")), 0),
            (text(json!({"maxLength": 5})), json!("äöüßäöüß"), Some(json!("äö...")), 0),
            (text(json!({"minLength": 1})), json!(""), None, 0),
            (text(json!({"enum": ["a", "b"]})), json!("a"), Some(json!("a")), 0),
            (text(json!({"enum": ["a", "b"]})), json!("c"), None, 0),
            (text(json!({"maxLength": 2, "pattern": "^a+$"})), json!("aa"), Some(json!("aa")), 0),
            (text(json!({"maxLength": 2, "pattern": "^a+$"})), json!("aaa"), None, 0),
            (text(json!({"pattern": "^a+$"})), json!("b"), None, 0),
            (
                text(json!({"format": "date-time"})),
                json!("2026-06-01T12:00:00Z"),
                Some(json!("2026-06-01T12:00:00Z")),
                0,
            ),
            (text(json!({"format": "date-time"})), json!("yesterday"), None, 0),
            (text(json!({})), json!(7), None, 0),
            (text(json!({})), Value::Null, None, 0),
            (integer("int32"), json!(u32::MAX), Some(json!(i32::MAX)), 0),
            (integer("int64"), json!(u64::MAX), Some(json!(i64::MAX)), 0),
            (integer("int32"), json!(-1), Some(json!(0)), 0),
            (integer("int32"), json!(1.5), None, 0),
            (json!({"type": "integer", "minimum": 2, "maximum": 5}), json!(9), Some(json!(5)), 0),
            (list(json!({"maxItems": 2})), json!(["a", "", "b", "c"]), Some(json!(["a", "b"])), 2),
            (list(json!({"minItems": 1})), json!([""]), None, 1),
            (list(json!({"x-kubernetes-list-type": "set"})), json!(["a", "b", "a"]), Some(json!(["a", "b"])), 0),
            (list(json!({})), json!(["a", "b", "a"]), Some(json!(["a", "b", "a"])), 0),
            (
                keyed,
                json!([{"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 2, "c": 3}]),
                Some(json!([{"a": 1, "b": 2}, {"a": 1}])),
                0,
            ),
            (fields.clone(), json!({"a": 1, "b": 1, "c": 1}), Some(json!({"a": 1})), 0),
            (fields, json!({"a": "one"}), None, 0),
            (map(2), json!({"a": "b", "c": "d", "e": "f"}), Some(json!({"a": "b", "c": "d"})), 1),
            (json!({"x-kubernetes-int-or-string": true, "maxLength": 3}), json!("12345"), Some(json!("...")), 0),
            (json!({"x-kubernetes-int-or-string": true}), json!(5), Some(json!(5)), 0),
        ];
        for (schema, value, expected, omitted) in table {
            let (fitted, omissions) = truncate(schema.clone(), value.clone());
            assert_eq!(fitted, expected, "{value} under {schema}");
            assert_eq!(omissions.get("at").copied().unwrap_or_default(), omitted, "{value} under {schema}");
        }
    }

    #[test]
    fn a_shortened_text_keeps_both_ends_and_has_the_number_of_omitted_characters() {
        let long = format!("begin{}; kubectl get nodes", "ß".repeat(40_000));
        let cut = shortened(&long, 200);
        assert!((198..=200).contains(&cut.chars().count()), "{cut}");
        assert!(cut.starts_with("beginß") && cut.ends_with("ß; kubectl get nodes"), "{cut}");
        let kept = cut.chars().filter(|letter| *letter == 'ß').count();
        assert!(cut.contains(&format!(" ...({} characters omitted)... ", 40_000 - kept)), "{cut}");
        for max in 0..300 {
            for length in [max, max + 1, max + 7, max + 5_000] {
                let cut = shortened(&"ß".repeat(length), max);
                let kept = cut.chars().count();
                assert!((max.saturating_sub(2)..=max).contains(&kept), "{length} characters to {max}: {cut}");
            }
        }
    }

    #[test]
    fn a_status_within_its_bounds_is_unchanged() {
        let status = json!({
            "observedGeneration": 3, "windowsBuild": "10.0.20348",
            "kubelets": [{"version": "v1.34.1", "nodes": 2}],
            "runtimeClasses": [{"name": "windows-ltsc2022", "state": "Applied"}],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "AsSpecified", "message": "as it should be",
                "observedGeneration": 3, "lastTransitionTime": "2026-06-01T12:00:00Z",
            }],
            "columns": {"nodes": "2/2"},
        });
        let status: WindowsNodePoolStatus = serde_json::from_value(status).unwrap();
        assert_eq!(bounded(status.clone()), status);
        let status = WindowsRuntimeProfileStatus { observed_generation: Some(1), ..Default::default() };
        assert_eq!(bounded(status.clone()), status);
    }

    #[test]
    fn omitted_entries_are_counted() {
        let row = |number: usize| crate::KubeletCount { version: format!("v1.34.{number}"), nodes: 1 };
        let status = bounded(WindowsNodePoolStatus { kubelets: (0..100).map(row).collect(), ..Default::default() });
        assert_eq!(status.kubelets.len() + status.omitted["kubelets"] as usize, 100);
        assert!(status.kubelets.len() < 100);
    }
}
