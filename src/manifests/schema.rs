//! The schemas of our own resources, in as much of the language of structural schemas as they use.
//!
//! Any other keyword is refused when the schema is read, so that none can be passed over in silence.

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

use crate::api;

/// What a value must be. Bounds are inclusive; lengths are in characters.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Schema {
    /// Its type; `None` where any will do, and for integers or strings.
    #[serde(rename = "type")]
    pub kind: Option<Kind>,
    /// Whether it is an integer or a string.
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub int_or_string: bool,
    /// The words that it may be.
    #[serde(rename = "enum")]
    pub words: Vec<String>,
    /// How it is spelled.
    pub pattern: Option<Pattern>,
    /// The least number.
    pub minimum: Option<f64>,
    /// The greatest number.
    pub maximum: Option<f64>,
    /// The fewest characters.
    pub min_length: Option<usize>,
    /// The most characters.
    pub max_length: Option<usize>,
    /// The fewest items.
    pub min_items: Option<usize>,
    /// The most items.
    pub max_items: Option<usize>,
    /// The fewest entries.
    pub min_properties: Option<usize>,
    /// The most entries.
    pub max_properties: Option<usize>,
    /// The fields.
    pub properties: BTreeMap<String, Self>,
    /// The fields that must be there.
    pub required: Vec<String>,
    /// What every item must be.
    pub items: Option<Box<Self>>,
    /// What every entry of a map must be.
    pub additional_properties: Option<Box<Self>>,
    /// Whether there may be fields that the schema does not have.
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub open: bool,
    /// What it is.
    pub description: String,
    /// What else a number or text must be.
    pub format: Option<Format>,
    /// Whether the items of a list must be different.
    #[serde(rename = "x-kubernetes-list-type")]
    pub list_type: ListType,
    /// The fields by which the items of a list of type map are told apart.
    #[serde(rename = "x-kubernetes-list-map-keys")]
    pub list_map_keys: Vec<String>,
    /// The rules that tie its parts together; [`crate::domain`] has them in words of its own.
    #[serde(rename = "x-kubernetes-validations")]
    pub rules: Option<IgnoredAny>,

    // Keywords that refuse nothing which the others let pass. The types fill in defaults; anyOf repeats
    // x-kubernetes-int-or-string.
    title: Silent,
    default: Silent,
    any_of: Silent,
    #[serde(rename = "x-kubernetes-map-type")]
    map_type: Silent,
}

/// A format that an API server checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A moment, as RFC 3339 has it.
    DateTime,
}

/// What tells the items of a list apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListType {
    /// Their places: they may be equal.
    #[default]
    Atomic,
    /// Their values.
    Set,
    /// Some of their fields.
    Map,
}

/// A keyword that is known and not looked at.
type Silent = Option<IgnoredAny>;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// A list.
    Array,
    /// Fields or a map.
    Object,
}

/// A pattern as an API server reads it: of ASCII alone, and found anywhere in a text.
#[derive(Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Whether a text has it.
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        RegexBuilder::new(&text).unicode(false).build().map(Self).map_err(D::Error::custom)
    }
}

/// The schema of a kind of ours: of its metadata and spec, which is what a person writes.
pub fn of(kind: &str) -> Option<&'static Schema> {
    SCHEMAS.get(kind).map(|(written, _)| written)
}

/// The schema of the status of a kind of ours, which the operator writes.
pub fn of_status(kind: &str) -> Option<&'static Schema> {
    SCHEMAS.get(kind).map(|(_, status)| status)
}

/// By kind: the schema of what a person writes, and that of the status.
static SCHEMAS: LazyLock<HashMap<String, (Schema, Schema)>> = LazyLock::new(|| {
    let crds = api::custom_resource_definitions().into_iter();
    crds.filter_map(|(_, crd)| Some((crd.spec.names.kind.clone(), read(json!(crd)).ok()?))).collect()
});

fn read(mut crd: Value) -> Result<(Schema, Schema), serde_json::Error> {
    let root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
    let mut schema = Schema::deserialize(root)?;
    let status = schema.properties.remove("status").unwrap_or_default();
    schema.properties.insert("metadata".to_owned(), metadata()?);
    Ok((schema, status))
}

/// What is read of the metadata of an object. Its spelling is checked elsewhere.
fn metadata() -> Result<Schema, serde_json::Error> {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    serde_json::from_value(json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"name": {"type": "string"}, "labels": texts, "annotations": texts},
    }))
}

impl Schema {
    /// What the value of a field or of an entry of a map must be, if the schema has it.
    pub fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.additional_properties.as_deref())
    }

    /// An object as the API server gets it and stores it: nulls in known fields are dropped, and a whole number has no
    /// fraction.
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

/// The schema that refuses nothing.
static ANYTHING: LazyLock<Schema> = LazyLock::new(Schema::default);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_of_both_kinds_use_no_other_keyword() {
        for (_, crd) in api::custom_resource_definitions() {
            let kind = crd.spec.names.kind.clone();
            read(json!(crd)).unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert!(of(&kind).is_some_and(|schema| schema.properties.contains_key("spec")), "{kind}");
            assert!(of_status(&kind).is_some_and(|schema| schema.properties.contains_key("conditions")), "{kind}");
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
    fn nulls_are_dropped_and_whole_numbers_have_no_fraction() {
        let schema = of("WindowsRuntimeProfile").unwrap();
        let written =
            json!({"spec": {"pauseImage": null, "kubelet": {"maxPods": 60.0, "extra": {"a": null, "b": 1.5}}}});
        let stored = json!({"spec": {"kubelet": {"maxPods": 60, "extra": {"a": null, "b": 1.5}}}});
        assert_eq!(schema.stored(written), stored);
    }
}
