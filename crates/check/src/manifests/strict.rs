//! Validation of resources against their schemas, as by an API server, with strict validation of field names.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Map, Value};
use winpool_api::pattern;
use winpool_core::{Problem, join, text::did_you_mean};

use super::schema::{self, ListType, Schema, ValueFormat, ValueType};

/// The problems of the status of a winpool resource; `None` for other kinds.
pub fn problems_of_status(kind: &str, status: &Value) -> Option<Vec<Problem>> {
    schema::of_status(kind).map(|schema| problems(schema, status, "status"))
}

pub fn problems(schema: &Schema, value: &Value, path: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    check(schema, value, path, &mut problems);
    problems
}

fn check(schema: &Schema, value: &Value, path: &str, problems: &mut Vec<Problem>) {
    if let Some((wrong, remedy)) = problem(schema, value) {
        problems.push(Problem::new(path, wrong, remedy));
        // The items of a list of the wrong length are checked, those of a value of the wrong type are not.
        if !is_of_type(schema, value) {
            return;
        }
    }
    match value {
        Value::Object(fields) => check_fields(schema, fields, path, problems),
        Value::Array(items) => {
            check_uniqueness(schema, items, path, problems);
            let Some(item_schema) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                check(item_schema, item, &format!("{path}[{index}]"), problems);
            }
        }
        _ => {}
    }
}

fn check_fields(schema: &Schema, fields: &Map<String, Value>, path: &str, problems: &mut Vec<Problem>) {
    for name in schema.required.iter().filter(|name| !fields.contains_key(*name)) {
        problems.push(Problem::new(join(path, name), "is required", remedy_of_missing(schema.field(name))));
    }
    for (name, value) in fields {
        match schema.field(name) {
            Some(known) => check(known, value, &join(path, name), problems),
            None if schema.allows_unknown_fields => {}
            None => {
                let known: Vec<_> = schema.properties.keys().map(String::as_str).collect();
                let similar = did_you_mean(name, known.iter().copied());
                let remedy = format!("{similar}write one of {}, or remove it", known.join(", "));
                problems.push(Problem::new(join(path, name), "unknown field", remedy));
            }
        }
    }
}

fn check_uniqueness(schema: &Schema, items: &[Value], path: &str, problems: &mut Vec<Problem>) {
    let identity = |item: &Value| match schema.list_type {
        ListType::Atomic => None,
        ListType::Set => Some(item.to_string()),
        ListType::Map => Some(schema.list_map_keys.iter().map(|key| format!("{},", item[key])).collect()),
    };
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        if identity(item).is_some_and(|identity| !seen.insert(identity)) {
            problems.push(Problem::new(format!("{path}[{index}]"), "is a duplicate", "remove it"));
        }
    }
}

fn remedy_of_missing(schema: Option<&Schema>) -> String {
    let Some(schema) = schema else { return "write it".to_owned() };
    let summary = schema.description.split_inclusive(". ").next().unwrap_or_default().trim_end();
    match (&schema.allowed[..], summary) {
        ([], "") => "write it".to_owned(),
        ([], summary) => format!("write it: {}", summary.trim_end_matches('.')),
        (allowed, _) => one_of(allowed),
    }
}

/// What is wrong with a value itself, and the remedy.
fn problem(schema: &Schema, value: &Value) -> Option<(String, String)> {
    if !is_of_type(schema, value) {
        let wrong = format!("must be {}, not {}", type_name(schema), display(value));
        return Some((wrong, remedy_of_type(schema, value)));
    }
    match value {
        Value::String(text) => problem_of_string(schema, text),
        Value::Number(_) => problem_of_number(schema, value),
        Value::Array(items) => problem_of_count(items.len(), [schema.min_items, schema.max_items], "items"),
        Value::Object(entries) => {
            problem_of_count(entries.len(), [schema.min_properties, schema.max_properties], "entries")
        }
        Value::Bool(_) | Value::Null => None,
    }
}

fn problem_of_number(schema: &Schema, value: &Value) -> Option<(String, String)> {
    let number = value.as_f64()?;
    if let Some(least) = schema.minimum.filter(|least| number < *least) {
        return Some((format!("{value} is less than {least}"), format!("write at least {least}")));
    }
    if let Some(greatest) = schema.maximum.filter(|greatest| number > *greatest) {
        return Some((format!("{value} is greater than {greatest}"), format!("write at most {greatest}")));
    }
    let fits = value.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
    (!fits && schema.format == Some(ValueFormat::Int32))
        .then(|| (format!("{value} does not fit in 32 bits"), format!("write at most {}", i32::MAX)))
}

fn problem_of_string(schema: &Schema, text: &str) -> Option<(String, String)> {
    if !schema.allowed.is_empty() && !schema.allowed.iter().any(|allowed| allowed == text) {
        let similar = did_you_mean(text, schema.allowed.iter().map(String::as_str));
        return Some((format!("unsupported value {text:?}"), format!("{similar}{}", one_of(&schema.allowed))));
    }
    let length = text.chars().count();
    if schema.min_length.is_some_and(|least| length < least) {
        return Some(("must not be empty".to_owned(), remedy_of_missing(Some(schema))));
    }
    if let Some(greatest) = schema.max_length.filter(|greatest| length > *greatest) {
        return Some((format!("has {length} characters"), format!("write at most {greatest}")));
    }
    if schema.format == Some(ValueFormat::DateTime) && text.parse::<Timestamp>().is_err() {
        return Some((format!("must be a time, not {text:?}"), "write it as 2026-06-01T12:00:00Z".to_owned()));
    }
    let pattern = schema.pattern.as_ref().filter(|pattern| !pattern.is_match(text.as_bytes()))?.as_str();
    Some(match pattern::ALL.iter().find(|known| known.pattern == pattern) {
        Some(known) => (format!("{text:?} is not {}", known.description), known.remedy.to_owned()),
        None => (format!("{text:?} does not match {pattern}"), "see the field in `kubectl explain`".to_owned()),
    })
}

fn problem_of_count(count: usize, [least, greatest]: [Option<usize>; 2], what: &str) -> Option<(String, String)> {
    let least = least.filter(|least| count < *least).map(|least| format!("write at least {least}"));
    let remedy = least.or_else(|| Some(format!("write at most {}", greatest.filter(|greatest| count > *greatest)?)));
    remedy.map(|remedy| (format!("has {count} {what}"), remedy))
}

fn is_of_type(schema: &Schema, value: &Value) -> bool {
    let is_integer = value.is_i64() || value.is_u64();
    match schema.value_type {
        None if schema.int_or_string => is_integer || value.is_string(),
        None => true,
        Some(ValueType::String) => value.is_string(),
        Some(ValueType::Integer) => is_integer,
        Some(ValueType::Boolean) => value.is_boolean(),
        Some(ValueType::Array) => value.is_array(),
        Some(ValueType::Object) => value.is_object(),
    }
}

fn type_name(schema: &Schema) -> &'static str {
    match schema.value_type {
        Some(ValueType::String) => "a string",
        Some(ValueType::Integer) => "an integer",
        Some(ValueType::Boolean) => "true or false",
        Some(ValueType::Array) => "a list",
        Some(ValueType::Object) => "an object",
        None => "an integer or a string",
    }
}

fn remedy_of_type(schema: &Schema, value: &Value) -> String {
    let is_valid = |value: &Value| is_of_type(schema, value) && problem(schema, value).is_none();
    let unquoted = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    if !schema.allowed.is_empty() {
        one_of(&schema.allowed)
    } else if unquoted.as_ref().is_some_and(is_valid) {
        "write it without quotes".to_owned()
    } else if (value.is_number() || value.is_boolean()) && is_of_type(schema, &Value::String(String::new())) {
        format!("write \"{value}\" in quotes")
    } else {
        format!("write {}", type_name(schema))
    }
}

fn one_of(values: &[String]) -> String {
    format!("write one of {}", values.join(", "))
}

/// A scalar, or the type of a value.
fn display(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use winpool_api::custom_resource_definitions;

    use super::*;
    use crate::manifests::schema;

    fn messages(kind: &str, spec: Value) -> Vec<String> {
        let schema = &schema::of(kind).unwrap().properties["spec"];
        problems(schema, &spec, "spec").iter().map(ToString::to_string).collect()
    }

    fn pool(spec: Value) -> Vec<String> {
        let mut whole = json!({"windowsVersion": "ltsc2022"});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        messages("WindowsNodePool", whole)
    }

    fn profile(spec: Value) -> Vec<String> {
        messages("WindowsRuntimeProfile", spec)
    }

    #[test]
    fn unknown_fields_are_reported() {
        let schema = json!({"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"key": {}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        let value =
            json!({"list": [{"key": 1}, {"kye": 2}], "map": {"any": "x"}, "open": {"any": {"thing": 1}}, "lits": []});
        let schema = serde_json::from_value(schema).unwrap();
        assert_eq!(
            problems(&schema, &value, "spec").iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "spec.list[1].kye: unknown field: did you mean key? Otherwise write one of key, or remove it",
                "spec.lits: unknown field: did you mean list? Otherwise write one of list, map, open, or remove it",
            ]
        );
    }

    #[test]
    fn each_keyword_has_a_message_and_a_remedy() {
        // Further ones are in the snapshots of the resources.
        let taints =
            |count: usize| (0..count).map(|n| json!({"key": format!("a{n}"), "effect": "NoExecute"})).collect();
        let taints = |count| Value::Array(taints(count));
        let labels: Map<_, _> = (0..33).map(|n| (format!("a{n}"), json!("b"))).collect();
        let logs = |files: Value| json!({"kubelet": {"containerLogs": {"maxFiles": files}}});
        let mirrors = json!([{"registry": "a", "endpoints": []}]);
        let table = [
            (
                pool(json!({"windowsVersion": ["1809"]})),
                "spec.windowsVersion: must be a string, not a list: write a string",
            ),
            (pool(json!({"mode": "Watch"})), "spec.mode: unsupported value \"Watch\": write one of Enforce, Observe"),
            (pool(json!({"mode": true})), "spec.mode: must be a string, not true: write one of Enforce, Observe"),
            (
                pool(json!({"paused": "true"})),
                "spec.paused: must be true or false, not \"true\": write it without quotes",
            ),
            (pool(json!({"paused": "yes"})), "spec.paused: must be true or false, not \"yes\": write true or false"),
            (pool(json!({"taints": taints(17)})), "spec.taints: has 17 items: write at most 16"),
            (pool(json!({"taints": {"key": "a"}})), "spec.taints: must be a list, not an object: write a list"),
            (pool(json!({"taints": [null]})), "spec.taints[0]: must be an object, not null: write an object"),
            (
                pool(json!({"taints": [{"key": "a"}]})),
                "spec.taints[0].effect: is required: write one of NoSchedule, PreferNoSchedule, NoExecute",
            ),
            (
                pool(json!({"profileRef": {}})),
                "spec.profileRef.name: is required: write it: The name of a WindowsRuntimeProfile, such as standard",
            ),
            (
                pool(json!({"profileRef": {"name": ""}})),
                "spec.profileRef.name: must not be empty: write it: The name of a WindowsRuntimeProfile, such as standard",
            ),
            (
                pool(json!({"profileRef": {"name": "é".repeat(254)}})),
                "spec.profileRef.name: has 254 characters: write at most 253",
            ),
            (pool(json!({"profileRef": {"name": "é".repeat(253)}})), ""),
            (pool(json!({"labels": labels})), "spec.labels: has 33 entries: write at most 32"),
            (pool(json!({"runtimeClasses": [{"name": "a", "overhead": {"cpu": 2}}]})), ""),
            (profile(logs(json!(-1))), "spec.kubelet.containerLogs.maxFiles: -1 is less than 2: write at least 2"),
            (
                profile(logs(json!(u64::MAX))),
                "spec.kubelet.containerLogs.maxFiles: 18446744073709551615 is greater than 100: write at most 100",
            ),
            (
                profile(logs(json!(2.5))),
                "spec.kubelet.containerLogs.maxFiles: must be an integer, not 2.5: write an integer",
            ),
            (
                profile(logs(json!("5"))),
                "spec.kubelet.containerLogs.maxFiles: must be an integer, not \"5\": write it without quotes",
            ),
            (
                profile(logs(json!("500"))),
                "spec.kubelet.containerLogs.maxFiles: must be an integer, not \"500\": write an integer",
            ),
            (
                profile(json!({"containerd": {"registryMirrors": mirrors}})),
                "spec.containerd.registryMirrors[0].endpoints: has 0 items: write at least 1",
            ),
            (profile(json!({"kubelet": {"extra": {"any": [null, {"thing": 1.5}]}}})), ""),
        ];
        for (messages, expected) in table {
            assert_eq!(messages.join("\n"), expected);
        }
    }

    #[test]
    fn the_formats_and_list_keys_of_a_status_are_checked() {
        let condition = |kind: &str, time: &str| json!({"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": time});
        let time = "2026-06-01T12:00:00Z";
        let conditions = |all: [Value; 2]| json!({"conditions": all});
        let pending = |count: i64| json!({"pending": {"count": count}});
        let table = [
            (conditions([condition("A", time), condition("B", time)]), ""),
            (
                conditions([condition("A", time), condition("A", time)]),
                "status.conditions[1]: is a duplicate: remove it",
            ),
            (
                conditions([condition("A", time), condition("B", "noon")]),
                "status.conditions[1].lastTransitionTime: must be a time, not \"noon\": write it as 2026-06-01T12:00:00Z",
            ),
            (pending(i64::from(i32::MAX)), ""),
            (pending(1 << 31), "status.pending.count: 2147483648 does not fit in 32 bits: write at most 2147483647"),
        ];
        for (status, expected) in table {
            let problems = problems_of_status("WindowsNodePool", &status).unwrap();
            assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), expected);
        }
        assert_eq!(problems_of_status("Node", &json!({})), None);
    }

    #[test]
    fn every_pattern_has_a_description() {
        fn patterns<'a>(schema: &'a Schema, found: &mut Vec<&'a str>) {
            found.extend(schema.pattern.iter().map(|pattern| pattern.as_str()));
            let inner = schema
                .properties
                .values()
                .chain(schema.items.as_deref())
                .chain(schema.additional_properties.as_deref());
            inner.for_each(|inner| patterns(inner, found));
        }
        let mut found = Vec::new();
        for (_, crd) in custom_resource_definitions() {
            patterns(schema::of(&crd.spec.names.kind).unwrap(), &mut found);
        }
        for pattern in &found {
            assert!(pattern::ALL.iter().any(|known| known.pattern == *pattern), "{pattern} has no description");
        }
        for known in pattern::ALL {
            assert!(found.contains(&known.pattern), "{known:?} is not used");
        }
    }
}
