//! Pieces of schema that several types share, and what is done to a generated CRD before it is shipped.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// An amount as Kubernetes writes it, `500m` or `2Gi`, or for thresholds a percentage; a plain number is taken too.
///
/// It is kept as it was written: what it means is decided where it is checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuantityText(pub String);

impl fmt::Display for QuantityText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<&str> for QuantityText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl<'de> Deserialize<'de> for QuantityText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = QuantityText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 500m, 2Gi or 10%")
            }
            fn visit_str<E>(self, text: &str) -> Result<QuantityText, E> {
                Ok(QuantityText(text.to_owned()))
            }
            fn visit_u64<E>(self, number: u64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }
            fn visit_i64<E>(self, number: i64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }
            fn visit_f64<E>(self, number: f64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for QuantityText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        quantity(QUANTITY)
    }
}

/// How Kubernetes writes a quantity that is not negative.
const QUANTITY: &str = r"^[0-9]+(\.[0-9]{1,3})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$";
/// A quantity, or a percentage.
const THRESHOLD: &str = r"^[0-9]+(\.[0-9]{1,3})?(%|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$";

fn quantity(pattern: &str) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "maxLength": 32,
        "pattern": pattern,
    })
}

/// A map from resource to quantity, replaced as a whole.
pub fn resources(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 8,
        "x-kubernetes-map-type": "atomic",
        "additionalProperties": quantity(QUANTITY),
    })
}

/// A map from eviction signal to threshold, replaced as a whole.
pub fn thresholds(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 8,
        "x-kubernetes-map-type": "atomic",
        "additionalProperties": quantity(THRESHOLD),
    })
}

/// A map of labels.
pub fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
        },
    })
}

/// A map from feature gate to whether it is on.
pub fn feature_gates(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "maxProperties": 64, "additionalProperties": {"type": "boolean"}})
}

/// An object of fields that this schema does not know.
pub fn any_fields(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "maxProperties": 64, "x-kubernetes-preserve-unknown-fields": true})
}

/// Label values in a list.
pub fn label_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "maxLength": 63},
    })
}

/// A list of short texts.
pub fn short_texts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 8, "items": {"type": "string", "maxLength": 512}})
}

/// A list of names of objects.
pub fn object_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 8, "items": {"type": "string", "maxLength": 253}})
}

/// A list of addresses.
pub fn addresses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 8,
        "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "maxLength": 512, "pattern": "^https?://[^\\s\"']+$"},
    })
}

/// Conditions as Kubernetes' own types have them, keyed by type.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768},
            },
        },
    })
}

/// A generated CRD as it is shipped: what the generator writes and an API server dislikes is put right.
///
/// No field takes a null (it would be stored instead of the default). The formats are those that Kubernetes knows.
/// Status has no defaults: it is always written as a whole.
pub fn finish(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        if let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            visit(root, &|schema| {
                one_paragraph(schema);
                never_null(schema);
                known_format(schema);
                int_or_string(schema);
            });
            if let Some(status) = root.properties.as_mut().and_then(|properties| properties.get_mut("status")) {
                visit(status, &|schema| schema.default = None);
            }
        }
    }
    crd
}

/// Does something to a schema and to every schema in it.
fn visit(schema: &mut JSONSchemaProps, change: &impl Fn(&mut JSONSchemaProps)) {
    change(schema);
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(|field| visit(field, change));
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        visit(items, change);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        visit(values, change);
    }
}

/// A description is wrapped by who shows it, not where the source code had the end of a line.
fn one_paragraph(schema: &mut JSONSchemaProps) {
    schema.description = schema.description.take().map(|text| text.replace('\n', " "));
}

fn never_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.enum_.iter_mut().for_each(|values| values.retain(|value| !value.0.is_null()));
}

/// Rust's unsigned integers by the format that Kubernetes has; `minimum` says the rest.
fn known_format(schema: &mut JSONSchemaProps) {
    if matches!(schema.format.as_deref(), Some("uint8" | "uint32")) {
        schema.format = Some("int32".to_owned());
    }
}

/// The generator empties the alternatives of an integer or string; tools that read the schema need them.
fn int_or_string(schema: &mut JSONSchemaProps) {
    if schema.x_kubernetes_int_or_string == Some(true) {
        let of_type = |name: &str| JSONSchemaProps { type_: Some(name.to_owned()), ..Default::default() };
        schema.any_of = Some(vec![of_type("integer"), of_type("string")]);
    }
}
