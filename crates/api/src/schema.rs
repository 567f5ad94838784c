//! Schemas that several types share, and the postprocessing of generated CRDs.

use derive_more::Display;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, de::Unexpected};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    conditions::CONDITIONS,
    hex,
    names::annotation,
    pattern::{ENDPOINT, LABEL_VALUE, Pattern, QUANTITY, THRESHOLD},
};

/// A Kubernetes quantity such as `500m` or `2Gi`, a percentage (for thresholds), or a plain number.
///
/// The text is kept as written; the checks parse it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(try_from = "Value")]
pub struct QuantityText(pub String);

impl From<&str> for QuantityText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl TryFrom<Value> for QuantityText {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(number.to_string())),
            other => Err(unexpected(&other, "a quantity such as 500m, 2Gi or 10%")),
        }
    }
}

/// The message of serde for a value of an integer-or-string that is neither, or not a valid one.
pub fn unexpected(value: &Value, expected: &str) -> String {
    let found = match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => {
            number.as_i64().map_or(Unexpected::Float(number.as_f64().unwrap_or_default()), Unexpected::Signed)
        }
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    };
    format!("invalid value: {found}, expected {expected}")
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

fn quantity(Pattern { pattern, .. }: Pattern) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "maxLength": 32,
        "pattern": pattern,
    })
}

/// A map from resource to quantity, atomic.
pub fn resources(_: &mut SchemaGenerator) -> Schema {
    quantities(QUANTITY)
}

/// A map from eviction signal to threshold, atomic.
pub fn thresholds(_: &mut SchemaGenerator) -> Schema {
    quantities(THRESHOLD)
}

fn quantities(pattern: Pattern) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 8,
        "x-kubernetes-map-type": "atomic",
        "additionalProperties": quantity(pattern),
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
            "pattern": LABEL_VALUE.pattern,
        },
    })
}

/// A map of feature gates.
pub fn feature_gates(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "maxProperties": 64, "additionalProperties": {"type": "boolean"}})
}

/// An object with any fields.
pub fn any_fields(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "maxProperties": 64, "x-kubernetes-preserve-unknown-fields": true})
}

/// A list of label values.
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

/// A list of object names.
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
        "items": {"type": "string", "maxLength": 512, "pattern": ENDPOINT.pattern},
    })
}

/// Conditions as in Kubernetes, keyed by type.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    conditions_of_types("What the condition is about.")
}

/// The conditions of a pool, whose types the description lists.
pub fn pool_conditions(_: &mut SchemaGenerator) -> Schema {
    let types = CONDITIONS.iter().map(|type_| format!("{}: {}.", type_.name, type_.meaning));
    conditions_of_types(&format!(
        "What the condition is about. When it is True: {}",
        types.collect::<Vec<_>>().join(" ")
    ))
}

fn conditions_of_types(types: &str) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "maxLength": 316, "description": types},
                "status": {
                    "type": "string", "enum": ["True", "False", "Unknown"],
                    "description": "Whether the condition holds. Unknown means that there is no evidence.",
                },
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "The generation of the spec that the condition is for.",
                },
                "lastTransitionTime": {
                    "type": "string", "format": "date-time",
                    "description": "When the status of the condition changed last, such as 2026-08-01T12:00:00Z.",
                },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "description": "Why the condition has its status, in one word that does not change between releases, such as \
                                    AsSpecified. winpool explain REASON prints its meaning.",
                },
                "message": {
                    "type": "string", "maxLength": 32768,
                    "description": "What is wrong and where, and what to do, for people.",
                },
            },
        },
    })
}

/// Adapts a generated CRD to API servers, and adds the digest of its specification.
///
/// No field is nullable: null would be stored instead of the default. Formats are those of Kubernetes. Status has no
/// defaults, because it is always written as a whole.
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
                never_observed(status);
            }
        }
    }
    let digest = Sha256::digest(serde_json::json!(crd.spec).to_string());
    crd.metadata.annotations.get_or_insert_default().insert(annotation::SCHEMA.to_owned(), hex(&digest[..8]));
    crd
}

/// Before its first reconcile an object has observed no generation. Without this, kstatus takes it for current. The resources
/// of Flux have the same default (fluxcd/helm-controller, `api/v2/helmrelease_types.go`).
fn never_observed(status: &mut JSONSchemaProps) {
    let is_observed = status.properties.as_ref().is_some_and(|fields| fields.contains_key("observedGeneration"));
    status.default = is_observed.then(|| JSON(serde_json::json!({"observedGeneration": -1})));
}

/// Changes a schema and all schemas in it.
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

/// Removes the line breaks of the source code from descriptions.
fn one_paragraph(schema: &mut JSONSchemaProps) {
    schema.description = schema.description.take().map(|text| text.replace('\n', " "));
}

fn never_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.enum_.iter_mut().for_each(|values| values.retain(|value| !value.0.is_null()));
}

/// Replaces the formats of Rust's unsigned integers, which Kubernetes does not know. `minimum` remains.
fn known_format(schema: &mut JSONSchemaProps) {
    if matches!(schema.format.as_deref(), Some("uint8" | "uint32")) {
        schema.format = Some("int32".to_owned());
    }
}

/// Restores the types of int-or-string, which the generator removes and tools need.
fn int_or_string(schema: &mut JSONSchemaProps) {
    if schema.x_kubernetes_int_or_string == Some(true) {
        let of_type = |name: &str| JSONSchemaProps { type_: Some(name.to_owned()), ..Default::default() };
        schema.any_of = Some(vec![of_type("integer"), of_type("string")]);
    }
}
