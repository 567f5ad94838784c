//! The part of a resource that its schema accepts, so that the other rules can check it and one problem hides no other.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use winpool_core::{is_within, join};

use super::{schema::Schema, strict};

#[derive(Debug)]
pub struct ValidPart {
    pub fields: Map<String, Value>,
    /// The original paths of items whose index changed because an item before them was removed, by their new path.
    moved: BTreeMap<String, String>,
}

impl ValidPart {
    /// The valid fields of the object at a path; required fields may be missing.
    pub fn of(schema: &Schema, object: &Value, path: &str) -> Self {
        let mut moved = BTreeMap::new();
        let fields = object.as_object().map(|fields| valid_fields(schema, fields, [path, path], &mut moved));
        Self { fields: fields.unwrap_or_default(), moved }
    }

    /// The original path of a path in the valid part.
    pub fn original_path(&self, path: &str) -> String {
        // The longest path is the innermost, and its original path includes the moves around it.
        let moved = self.moved.iter().filter(|(new, _)| is_within(path, new)).max_by_key(|(new, _)| new.len());
        moved.map_or_else(|| path.to_owned(), |(new, original)| format!("{original}{}", &path[new.len()..]))
    }
}

/// The valid part of a value. The first of its two paths is the new one, the second the original one.
fn valid_part(schema: &Schema, value: &Value, paths: [&str; 2], moved: &mut BTreeMap<String, String>) -> Option<Value> {
    match value {
        Value::Object(fields) if !schema.properties.is_empty() || schema.additional_properties.is_some() => {
            valid_object(schema, fields, paths, moved)
        }
        Value::Array(items) if !items.is_empty() => {
            let valid = valid_items(schema, items, paths, moved);
            (!valid.is_empty()).then_some(Value::Array(valid))
        }
        value => strict::problems(schema, value, "").is_empty().then(|| value.clone()),
    }
}

fn valid_object(
    schema: &Schema,
    fields: &Map<String, Value>,
    paths: [&str; 2],
    moved: &mut BTreeMap<String, String>,
) -> Option<Value> {
    let valid = valid_fields(schema, fields, paths, moved);
    let is_removed = |name: &String| schema.field(name).is_some() && !valid.contains_key(name);
    // CEL rules relate fields, and cannot be evaluated on a part of them.
    let has_rules = schema.rules.is_some() && !schema.properties.is_empty();
    let is_invalid = valid.is_empty() && !fields.is_empty()
        || schema.required.iter().any(is_removed)
        || has_rules && fields.keys().any(is_removed);
    (!is_invalid).then_some(Value::Object(valid))
}

fn valid_fields(
    schema: &Schema,
    fields: &Map<String, Value>,
    [new, original]: [&str; 2],
    moved: &mut BTreeMap<String, String>,
) -> Map<String, Value> {
    let mut valid = Map::new();
    for (name, value) in fields {
        let paths = [join(new, name), join(original, name)];
        let part = match schema.field(name) {
            Some(known) => valid_part(known, value, [&paths[0], &paths[1]], moved),
            None => schema.allows_unknown_fields.then(|| value.clone()),
        };
        valid.extend(part.map(|value| (name.clone(), value)));
    }
    valid
}

fn valid_items(
    schema: &Schema,
    items: &[Value],
    [new, original]: [&str; 2],
    moved: &mut BTreeMap<String, String>,
) -> Vec<Value> {
    let mut valid = Vec::new();
    let Some(item_schema) = schema.items.as_deref() else { return valid };
    for (index, item) in items.iter().enumerate() {
        let paths = [format!("{new}[{}]", valid.len()), format!("{original}[{index}]")];
        // The moves in an item that is removed do not apply: the next item gets its index.
        let mut moved_inside = BTreeMap::new();
        if let Some(item) = valid_part(item_schema, item, [&paths[0], &paths[1]], &mut moved_inside) {
            valid.push(item);
            moved.append(&mut moved_inside);
            let [new, original] = paths;
            moved.extend((new != original).then_some((new, original)));
        }
    }
    valid
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifests::schema;

    fn valid_part(kind: &str, spec: &Value) -> ValidPart {
        ValidPart::of(&schema::of(kind).unwrap().properties["spec"], spec, "spec")
    }

    #[test]
    fn an_invalid_value_is_removed_with_what_depends_on_it() {
        let table = [
            (json!({"maxPods": "x", "featureGates": {"A": true, "B": 1}}), json!({"featureGates": {"A": true}})),
            (
                json!({"maxPods": 60, "imageGC": {"highThresholdPercent": 500, "lowThresholdPercent": 5}}),
                json!({"maxPods": 60}),
            ),
            (json!({"maxPods": 60, "noSuchField": 1}), json!({"maxPods": 60})),
            (json!({"systemReserved": {}, "kubeReserved": {"cpu": 1.5}}), json!({"systemReserved": {}})),
        ];
        for (kubelet, expected) in table {
            let part = valid_part("WindowsRuntimeProfile", &json!({"kubelet": kubelet.clone()}));
            assert_eq!(part.fields["kubelet"], expected, "{kubelet}");
        }
    }

    #[test]
    fn moved_items_keep_their_original_path() {
        let taint = |key: Value| json!({"key": key, "effect": "NoSchedule"});
        let class = |name: Value, tolerations: Value| json!({"name": name, "tolerations": tolerations});
        let part = valid_part(
            "WindowsNodePool",
            &json!({
                "windowsVersion": 1809,
                "taints": [taint(json!("a")), taint(json!(5)), taint(json!("b"))],
                "runtimeClasses": [
                    class(json!(5), json!([{"key": 1}, {"key": 2}, {"key": "a"}])),
                    class(json!("b"), json!([{"key": "a"}, {"key": "b"}])),
                    class(json!("c"), json!([{"key": 1}, {"key": "b"}])),
                ],
            }),
        );
        assert_eq!(part.fields.get("windowsVersion"), None);
        assert_eq!(part.fields["taints"][1]["key"], "b");
        let table = [
            ("spec.taints[0].key", "spec.taints[0].key"),
            ("spec.taints[1].key", "spec.taints[2].key"),
            ("spec.taints[1]", "spec.taints[2]"),
            ("spec.runtimeClasses[0].tolerations[0].key", "spec.runtimeClasses[1].tolerations[0].key"),
            ("spec.runtimeClasses[1].name", "spec.runtimeClasses[2].name"),
            ("spec.runtimeClasses[1].tolerations[0].key", "spec.runtimeClasses[2].tolerations[1].key"),
            ("spec.mode", "spec.mode"),
        ];
        for (new, original) in table {
            assert_eq!(part.original_path(new), original);
        }
    }
}
