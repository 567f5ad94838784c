//! Fits a status into the schema of its CustomResourceDefinition.
//!
//! An API server refuses a status as a whole when one value in it is out of bounds, and so everything that the status
//! reports would stay as it was. What is reported comes from objects of others: names, versions, lists of any length.
//!
//! The bounds are read from the schema that is shipped, and mean what an API server takes them to mean: lengths count
//! Unicode characters, an integer is within the range of its format, and the items of a list of type `map` have
//! different keys (kubernetes/kube-openapi, `pkg/validation/validate/values.go`, and
//! kubernetes/apiextensions-apiserver, `pkg/apiserver/schema/listtype/validation.go`, 1.20 to 1.34).

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

/// The status of one of our resources.
pub trait Status: Serialize + DeserializeOwned + Default {
    /// Its schema, as it is shipped.
    fn schema() -> &'static JSONSchemaProps;

    /// Records how many entries were left out of which list.
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

    /// The one list of names has the total beside it.
    fn omit(&mut self, _: BTreeMap<String, u32>) {}
}

fn status_schema(crd: CustomResourceDefinition) -> JSONSchemaProps {
    let versions = schema::finish(crd).spec.versions;
    let root = versions.into_iter().next().and_then(|version| version.schema?.open_api_v3_schema);
    root.and_then(|root| root.properties?.remove("status")).unwrap_or_default()
}

/// The status as an API server accepts it: texts and lists are truncated, integers are brought into their range, and
/// what no truncation can make valid is left out. A status within its bounds stays as it is.
pub fn bounded<S: Status>(status: S) -> S {
    let mut fit = Fit::default();
    let value = serde_json::to_value(&status).ok().and_then(|value| fit.value(S::schema(), value, ""));
    let mut status: S = value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
    status.omit(fit.omitted);
    status
}

/// A text of at most so many characters. The middle is left out, because messages end with the command to run; the
/// number of characters that are missing is in its place, if there is room for it.
pub fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let note = format!(" ...({} characters omitted)... ", length.saturating_sub(most));
    // The note itself takes room: the number in it is that of all characters that are missing.
    let kept = most.saturating_sub(note.len() + 2);
    let note = format!(" ...({} characters omitted)... ", length - kept);
    if kept < note.len() {
        let dots = "...".chars().take(most);
        return text.chars().take(most.saturating_sub(3)).chain(dots).collect();
    }
    let tail = kept / 2;
    text.chars().take(kept - tail).chain(note.chars()).chain(text.chars().skip(length - tail)).collect()
}

/// A value on its way into its bounds.
#[derive(Default)]
struct Fit {
    /// How many entries were left out, by the path of their list or map.
    omitted: BTreeMap<String, u32>,
}

impl Fit {
    /// The value within the bounds of its schema; `None` if nothing of it is.
    fn value(&mut self, schema: &JSONSchemaProps, value: Value, path: &str) -> Option<Value> {
        match (value, schema.type_.as_deref()) {
            (Value::String(text), Some("string")) => within(schema, text).map(Value::String),
            (Value::String(text), None) if is_int_or_string(schema) => within(schema, text).map(Value::String),
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
        let unfit = before - fitted.len();
        let mut seen = BTreeSet::new();
        fitted.retain(|item| identity(schema, item).is_none_or(|identity| seen.insert(identity)));
        let excess = fitted.len() - cap(fitted.len(), schema.max_items);
        fitted.truncate(fitted.len() - excess);
        self.omit(path, unfit + excess);
        is_at_least(fitted.len(), schema.min_items).then_some(fitted)
    }

    fn object(
        &mut self,
        schema: &JSONSchemaProps,
        fields: Map<String, Value>,
        path: &str,
    ) -> Option<Map<String, Value>> {
        let of_others = match &schema.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(of_others)) => Some(of_others.as_ref()),
            _ => None,
        };
        let open = schema.x_kubernetes_preserve_unknown_fields == Some(true);
        let known = |name: &str| schema.properties.as_ref().and_then(|fields| fields.get(name)).or(of_others);
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

/// A length of at most this bound.
fn cap(length: usize, most: Option<i64>) -> usize {
    most.and_then(|most| usize::try_from(most).ok()).map_or(length, |most| length.min(most))
}

fn is_at_least(length: usize, least: Option<i64>) -> bool {
    least.and_then(|least| usize::try_from(least).ok()).is_none_or(|least| length >= least)
}

/// What must be different in all items of a list, if anything must.
fn identity(schema: &JSONSchemaProps, item: &Value) -> Option<String> {
    match schema.x_kubernetes_list_type.as_deref()? {
        "set" => Some(item.to_string()),
        "map" => {
            let keys = schema.x_kubernetes_list_map_keys.iter().flatten();
            Some(keys.map(|key| item.get(key).unwrap_or(&Value::Null).to_string()).collect::<Vec<_>>().join(","))
        }
        _ => None,
    }
}

fn within(schema: &JSONSchemaProps, text: String) -> Option<String> {
    let most = schema.max_length.and_then(|most| usize::try_from(most).ok());
    // A truncated word, date or pattern would be another one.
    let exact = schema.enum_.is_some() || schema.format.is_some() || schema.pattern.is_some();
    let text = match most {
        Some(most) if !exact => shortened(&text, most),
        Some(most) if text.chars().count() > most => return None,
        _ => text,
    };
    let is_word = schema.enum_.as_ref().is_none_or(|words| words.iter().any(|word| word.0 == *text));
    let is_formatted = schema.format.as_deref() != Some("date-time") || text.parse::<Timestamp>().is_ok();
    let is_spelled = schema.pattern.as_deref().is_none_or(|pattern| {
        let pattern = RegexBuilder::new(pattern).unicode(false).build();
        pattern.is_ok_and(|pattern| pattern.is_match(text.as_bytes()))
    });
    let is_long_enough = is_at_least(text.chars().count(), schema.min_length);
    (is_word && is_formatted && is_spelled && is_long_enough).then_some(text)
}

/// An integer brought into its range; `None` for a number that is none.
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
    let (least, most) = match schema.format.as_deref() {
        Some("int32") => (i128::from(i32::MIN), i128::from(i32::MAX)),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    };
    let least = schema.minimum.map_or(least, |bound| least.max(bound.ceil() as i128));
    let most = schema.maximum.map_or(most, |bound| most.min(bound.floor() as i128));
    least..=most
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fit(schema: Value, value: Value) -> (Option<Value>, BTreeMap<String, u32>) {
        let mut fit = Fit::default();
        let schema = serde_json::from_value(schema).unwrap();
        let value = fit.value(&schema, value, "at");
        (value, fit.omitted)
    }

    #[test]
    fn each_bound_of_a_schema_is_kept() {
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
        let map = |most: u32| {
            let of_entries = json!({"type": "string", "maxLength": 2});
            json!({"type": "object", "maxProperties": most, "additionalProperties": of_entries})
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
            let (fitted, left_out) = fit(schema.clone(), value.clone());
            assert_eq!(fitted, expected, "{value} under {schema}");
            assert_eq!(left_out.get("at").copied().unwrap_or_default(), omitted, "{value} under {schema}");
        }
    }

    #[test]
    fn a_text_that_is_too_long_keeps_both_ends_and_says_how_much_is_missing() {
        let long = format!("begin{}; kubectl get nodes", "ß".repeat(40_000));
        let cut = shortened(&long, 200);
        assert!((198..=200).contains(&cut.chars().count()), "{cut}");
        assert!(cut.starts_with("beginß") && cut.ends_with("ß; kubectl get nodes"), "{cut}");
        let kept = cut.chars().filter(|letter| *letter == 'ß').count();
        assert!(cut.contains(&format!(" ...({} characters omitted)... ", 40_000 - kept)), "{cut}");
        for most in 0..300 {
            for length in [most, most + 1, most + 7, most + 5_000] {
                let cut = shortened(&"ß".repeat(length), most);
                let kept = cut.chars().count();
                assert!((most.saturating_sub(2)..=most).contains(&kept), "{length} characters to {most}: {cut}");
            }
        }
    }

    #[test]
    fn a_status_within_its_bounds_stays_as_it_is() {
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
    fn entries_that_are_left_out_are_counted() {
        let row = |number: usize| crate::api::KubeletCount { version: format!("v1.34.{number}"), nodes: 1 };
        let status = bounded(WindowsNodePoolStatus { kubelets: (0..100).map(row).collect(), ..Default::default() });
        assert_eq!(status.kubelets.len() + status.omitted["kubelets"] as usize, 100);
        assert!(status.kubelets.len() < 100);
    }
}
