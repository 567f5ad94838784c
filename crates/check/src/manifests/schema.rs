//! The schemas of winpool's resources, with the keywords of structural schemas that they use.
//!
//! A schema with any other keyword is rejected, so that no keyword is ignored.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use regex::bytes::{Regex, RegexBuilder};
use serde::{
    Deserialize,
    de::{Error, IgnoredAny},
};
use serde_json::{Value, json};

/// The schema of a value. Bounds are inclusive, lengths are in characters.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Schema {
    /// The type; `None` for any type, and for integers or strings.
    #[serde(rename = "type")]
    pub value_type: Option<ValueType>,
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub int_or_string: bool,
    /// The allowed values of a string; empty for all.
    #[serde(rename = "enum")]
    pub allowed: Vec<String>,
    #[serde(deserialize_with = "pattern")]
    pub pattern: Option<Regex>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub min_length: Option<usize>,
    pub max_length: Option<usize>,
    pub min_items: Option<usize>,
    pub max_items: Option<usize>,
    pub min_properties: Option<usize>,
    pub max_properties: Option<usize>,
    pub properties: BTreeMap<String, Self>,
    pub required: Vec<String>,
    pub items: Option<Box<Self>>,
    /// The schema of the entries of a map.
    pub additional_properties: Option<Box<Self>>,
    /// Whether fields without a schema are allowed.
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub allows_unknown_fields: bool,
    pub description: String,
    pub format: Option<ValueFormat>,
    /// Whether the items of a list must be unique.
    #[serde(rename = "x-kubernetes-list-type")]
    pub list_type: ListType,
    /// The fields that identify the items of a list of type map.
    #[serde(rename = "x-kubernetes-list-map-keys")]
    pub list_map_keys: Vec<String>,
    /// The CEL rules, which the rules implement too.
    #[serde(rename = "x-kubernetes-validations")]
    pub rules: Option<IgnoredAny>,

    // Keywords without effect on validation. The Rust types set defaults, and anyOf repeats x-kubernetes-int-or-string.
    title: Ignored,
    default: Ignored,
    any_of: Ignored,
    #[serde(rename = "x-kubernetes-map-type")]
    map_type: Ignored,
}

/// A format that an API server checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueFormat {
    Int32,
    Int64,
    /// A time in RFC 3339 format.
    DateTime,
}

/// What identifies the items of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListType {
    /// Their index: items may be equal.
    #[default]
    Atomic,
    /// Their values.
    Set,
    /// Some of their fields.
    Map,
}

/// A known keyword that is not evaluated.
type Ignored = Option<IgnoredAny>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueType {
    String,
    Integer,
    Boolean,
    Array,
    /// An object or a map.
    Object,
}

/// A pattern as an API server evaluates it: with ASCII classes, and not anchored.
fn pattern<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Regex>, D::Error> {
    let text = String::deserialize(deserializer)?;
    RegexBuilder::new(&text).unicode(false).build().map(Some).map_err(D::Error::custom)
}

/// The schema of a winpool kind, with metadata and spec.
pub fn of(kind: &str) -> Option<&'static Schema> {
    SCHEMAS.get(kind).map(|(schema, _)| schema)
}

/// The schema of the status of a winpool kind.
pub fn of_status(kind: &str) -> Option<&'static Schema> {
    SCHEMAS.get(kind).map(|(_, status)| status)
}

/// By kind: the schema of metadata and spec, and the schema of the status.
static SCHEMAS: LazyLock<HashMap<String, (Schema, Schema)>> = LazyLock::new(|| {
    let crds = winpool_api::custom_resource_definitions().into_iter();
    crds.filter_map(|(_, crd)| Some((crd.spec.names.kind.clone(), read(json!(crd)).ok()?))).collect()
});

fn read(mut crd: Value) -> Result<(Schema, Schema), serde_json::Error> {
    let root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
    let mut schema = Schema::deserialize(root)?;
    let status = schema.properties.remove("status").unwrap_or_default();
    schema.properties.insert("metadata".to_owned(), metadata()?);
    // The other fields of an object are checked without a schema.
    schema.allows_unknown_fields = true;
    Ok((schema, status))
}

/// The types of the evaluated fields of metadata; their syntax is checked without a schema.
fn metadata() -> Result<Schema, serde_json::Error> {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    serde_json::from_value(json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"name": {"type": "string"}, "labels": texts, "annotations": texts},
    }))
}

impl Schema {
    /// The schema of a field or of an entry of a map.
    pub fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.additional_properties.as_deref())
    }

    /// An object as the API server stores it: without nulls in known fields, and with whole numbers as integers.
    ///
    /// Source: `pkg/apiserver/schema/defaulting/prunenulls.go` of kubernetes/apiextensions-apiserver (0.20) for nulls;
    /// kubectl makes JSON of YAML, in which 5.0 is 5.
    pub fn stored(&self, value: Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.into_iter().filter(|(name, value)| !value.is_null() || self.field(name).is_none());
                let stored = |name: &str, value| self.field(name).unwrap_or(&ANYTHING).stored(value);
                Value::Object(fields.map(|(name, value)| (name.clone(), stored(&name, value))).collect())
            }
            Value::Array(items) => {
                let of_items = self.items.as_deref().unwrap_or(&ANYTHING);
                Value::Array(items.into_iter().map(|item| of_items.stored(item)).collect())
            }
            Value::Number(number) => match number.as_f64() {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
                Some(whole) if number.is_f64() && whole.fract() == 0.0 && whole.abs() < 1e15 => json!(whole as i64),
                _ => Value::Number(number),
            },
            other => other,
        }
    }
}

/// The schema that accepts everything.
static ANYTHING: LazyLock<Schema> = LazyLock::new(Schema::default);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_of_both_kinds_use_known_keywords_only() {
        for (_, crd) in winpool_api::custom_resource_definitions() {
            let kind = crd.spec.names.kind.clone();
            read(json!(crd)).unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert!(of(&kind).is_some_and(|schema| schema.properties.contains_key("spec")), "{kind}");
            let has_conditions = of_status(&kind).map(|schema| schema.properties.contains_key("conditions"));
            assert_eq!(has_conditions, Some(kind != "WindowsNodeConfig"), "{kind}");
        }
        for other in [
            json!({"multipleOf": 2}),
            json!({"items": {"nullable": true}}),
            json!({"type": "number"}),
            json!({"format": "uuid"}),
        ] {
            assert!(serde_json::from_value::<Schema>(other.clone()).is_err(), "{other}");
        }
    }

    #[test]
    fn nulls_are_dropped_and_whole_numbers_become_integers() {
        let schema = of("WindowsRuntimeProfile").unwrap();
        let written =
            json!({"spec": {"pauseImage": null, "kubelet": {"maxPods": 60.0, "extra": {"a": null, "b": 1.5}}}});
        let stored = json!({"spec": {"kubelet": {"maxPods": 60, "extra": {"a": null, "b": 1.5}}}});
        assert_eq!(schema.stored(written), stored);
    }
}
