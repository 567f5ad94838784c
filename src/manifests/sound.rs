//! What is left of a resource without what its schema refuses, so that one mistake hides no other: the rules that no
//! schema can say judge the rest.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{schema::Schema, strict};
use crate::domain::{is_within, join};

/// The sound fields of an object.
#[derive(Debug)]
pub struct Sound {
    /// The fields.
    pub fields: Map<String, Value>,
    /// Where items were written that moved up because one before them is left out, by where they are now.
    moved: BTreeMap<String, String>,
}

impl Sound {
    /// The sound fields of the object at a path; whether they are all that it needs, is not asked.
    pub fn of(schema: &Schema, object: &Value, path: &str) -> Self {
        let mut moved = BTreeMap::new();
        let fields = object.as_object().map(|fields| sound_fields(schema, fields, [path, path], &mut moved));
        Self { fields: fields.unwrap_or_default(), moved }
    }

    /// The path in the whole value, of a path in its sound part.
    pub fn written(&self, path: &str) -> String {
        // The longest is the innermost; it has the moves of those around it in it.
        let moved = self.moved.iter().filter(|(now, _)| is_within(path, now)).max_by_key(|(now, _)| now.len());
        moved.map_or_else(|| path.to_owned(), |(now, written)| format!("{written}{}", &path[now.len()..]))
    }
}

/// The sound part of a value. Of its two paths the first is where it is now, the second where it was written.
fn part(schema: &Schema, value: &Value, paths: [&str; 2], moved: &mut BTreeMap<String, String>) -> Option<Value> {
    match value {
        Value::Object(fields) if !schema.properties.is_empty() || schema.additional_properties.is_some() => {
            object(schema, fields, paths, moved)
        }
        Value::Array(items) if !items.is_empty() => {
            let sound = list(schema, items, paths, moved);
            (!sound.is_empty()).then_some(Value::Array(sound))
        }
        value => strict::problems(schema, value, "").is_empty().then(|| value.clone()),
    }
}

fn object(
    schema: &Schema,
    fields: &Map<String, Value>,
    paths: [&str; 2],
    moved: &mut BTreeMap<String, String>,
) -> Option<Value> {
    let sound = sound_fields(schema, fields, paths, moved);
    let lost = |name: &String| schema.field(name).is_some() && !sound.contains_key(name);
    // Where a rule ties the fields together, those that are left say nothing alone.
    let tied = schema.rules.is_some() && !schema.properties.is_empty();
    let emptied = sound.is_empty() && !fields.is_empty();
    let broken = emptied || schema.required.iter().any(lost) || tied && fields.keys().any(lost);
    (!broken).then_some(Value::Object(sound))
}

fn sound_fields(
    schema: &Schema,
    fields: &Map<String, Value>,
    [now, written]: [&str; 2],
    moved: &mut BTreeMap<String, String>,
) -> Map<String, Value> {
    let mut sound = Map::new();
    for (name, value) in fields {
        let paths = [join(now, name), join(written, name)];
        let kept = match schema.field(name) {
            Some(known) => part(known, value, [&paths[0], &paths[1]], moved),
            None => schema.open.then(|| value.clone()),
        };
        sound.extend(kept.map(|value| (name.clone(), value)));
    }
    sound
}

fn list(
    schema: &Schema,
    items: &[Value],
    [now, written]: [&str; 2],
    moved: &mut BTreeMap<String, String>,
) -> Vec<Value> {
    let mut sound = Vec::new();
    let Some(of_items) = schema.items.as_deref() else { return sound };
    for (index, item) in items.iter().enumerate() {
        let paths = [format!("{now}[{}]", sound.len()), format!("{written}[{index}]")];
        // What moved in an item that is left out is nowhere: the next item takes its place.
        let mut inside = BTreeMap::new();
        if let Some(item) = part(of_items, item, [&paths[0], &paths[1]], &mut inside) {
            sound.push(item);
            moved.append(&mut inside);
            let [now, written] = paths;
            moved.extend((now != written).then_some((now, written)));
        }
    }
    sound
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifests::schema;

    fn sound(kind: &str, spec: &Value) -> Sound {
        Sound::of(&schema::of(kind).unwrap().properties["spec"], spec, "spec")
    }

    #[test]
    fn what_is_refused_is_left_out_with_what_it_belongs_to() {
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
            let found = sound("WindowsRuntimeProfile", &json!({"kubelet": kubelet.clone()}));
            assert_eq!(found.fields["kubelet"], expected, "{kubelet}");
        }
    }

    #[test]
    fn items_that_move_up_are_told_where_they_are_written() {
        let taint = |key: Value| json!({"key": key, "effect": "NoSchedule"});
        let class = |name: Value, tolerations: Value| json!({"name": name, "tolerations": tolerations});
        let found = sound(
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
        assert_eq!(found.fields.get("windowsVersion"), None);
        assert_eq!(found.fields["taints"][1]["key"], "b");
        let table = [
            ("spec.taints[0].key", "spec.taints[0].key"),
            ("spec.taints[1].key", "spec.taints[2].key"),
            ("spec.taints[1]", "spec.taints[2]"),
            ("spec.runtimeClasses[0].tolerations[0].key", "spec.runtimeClasses[1].tolerations[0].key"),
            ("spec.runtimeClasses[1].name", "spec.runtimeClasses[2].name"),
            ("spec.runtimeClasses[1].tolerations[0].key", "spec.runtimeClasses[2].tolerations[1].key"),
            ("spec.mode", "spec.mode"),
        ];
        for (now, written) in table {
            assert_eq!(found.written(now), written);
        }
    }
}
