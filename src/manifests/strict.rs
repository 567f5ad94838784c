//! What an API server refuses by the schema of a resource, in words: and beside that the fields that the schema does
//! not have, for a mistyped name would otherwise be dropped without a word.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::schema::{self, Format, Kind, ListType, Schema};
use crate::domain::{Problem, join};

/// What an API server would refuse in the status of one of our resources, which stands under `kind`.
pub fn problems_of_status(kind: &str, status: &Value) -> Option<Vec<Problem>> {
    schema::of_status(kind).map(|schema| problems(schema, status, "status"))
}

/// Every field of `value` that the schema does not have, and every value that it refuses. `path` is that of the value.
pub fn problems(schema: &Schema, value: &Value, path: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    walk(schema, value, path, &mut problems);
    problems
}

fn walk(schema: &Schema, value: &Value, path: &str, problems: &mut Vec<Problem>) {
    if let Some((wrong, remedy)) = refusal(schema, value) {
        problems.push(Problem::new(path, wrong, remedy));
        // A list or map of the wrong length is looked through, a value of the wrong type is not.
        if !is_of_type(schema, value) {
            return;
        }
    }
    match value {
        Value::Object(fields) => object(schema, fields, path, problems),
        Value::Array(items) => {
            duplicates(schema, items, path, problems);
            let Some(of_items) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                walk(of_items, item, &format!("{path}[{index}]"), problems);
            }
        }
        _ => {}
    }
}

fn object(schema: &Schema, fields: &Map<String, Value>, path: &str, problems: &mut Vec<Problem>) {
    for name in schema.required.iter().filter(|name| !fields.contains_key(*name)) {
        problems.push(Problem::new(join(path, name), "it is missing", remedy_of_missing(schema.field(name))));
    }
    for (name, value) in fields {
        match schema.field(name) {
            Some(known) => walk(known, value, &join(path, name), problems),
            None if schema.open => {}
            None => {
                let known: Vec<_> = schema.properties.keys().map(String::as_str).collect();
                let remedy = format!("write one of {}, or remove it", known.join(", "));
                problems.push(Problem::new(join(path, name), "there is no such field", remedy));
            }
        }
    }
}

/// Items that a list must not have twice.
fn duplicates(schema: &Schema, items: &[Value], path: &str, problems: &mut Vec<Problem>) {
    let identity = |item: &Value| match schema.list_type {
        ListType::Atomic => None,
        ListType::Set => Some(item.to_string()),
        ListType::Map => Some(schema.list_map_keys.iter().map(|key| format!("{},", item[key])).collect()),
    };
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        if identity(item).is_some_and(|identity| !seen.insert(identity)) {
            problems.push(Problem::new(format!("{path}[{index}]"), "it is there already", "remove it"));
        }
    }
}

fn remedy_of_missing(schema: Option<&Schema>) -> String {
    let Some(schema) = schema else { return "write it".to_owned() };
    let what = schema.description.split_inclusive(". ").next().unwrap_or_default().trim_end();
    match (&schema.words[..], what) {
        ([], "") => "write it".to_owned(),
        ([], what) => format!("write it: {}", what.trim_end_matches('.')),
        (words, _) => one_of(words),
    }
}

/// What is wrong with a value itself, and what to write.
fn refusal(schema: &Schema, value: &Value) -> Option<(String, String)> {
    if !is_of_type(schema, value) {
        return Some((format!("{} is not {}", shown(value), noun(schema)), remedy_of_type(schema, value)));
    }
    match value {
        Value::String(text) => refusal_of_text(schema, text),
        Value::Number(number) => {
            let wide = number.as_i64().is_none_or(|number| i32::try_from(number).is_err());
            let number = number.as_f64()?;
            let (least, most) =
                (schema.minimum.filter(|least| number < *least), schema.maximum.filter(|most| number > *most));
            least
                .map(|least| (format!("{value} is less than {least}"), format!("write at least {least}")))
                .or_else(|| most.map(|most| (format!("{value} is more than {most}"), format!("write at most {most}"))))
                .or_else(|| {
                    let remedy = format!("write at most {}", i32::MAX);
                    (wide && schema.format == Some(Format::Int32))
                        .then(|| (format!("{value} has more than 32 bits"), remedy))
                })
        }
        Value::Array(items) => refusal_of_count(items.len(), [schema.min_items, schema.max_items], "items"),
        Value::Object(entries) => {
            refusal_of_count(entries.len(), [schema.min_properties, schema.max_properties], "entries")
        }
        Value::Bool(_) | Value::Null => None,
    }
}

fn refusal_of_text(schema: &Schema, text: &str) -> Option<(String, String)> {
    if !schema.words.is_empty() && !schema.words.iter().any(|word| word == text) {
        return Some((format!("{text:?} is not a value of this field"), one_of(&schema.words)));
    }
    let length = text.chars().count();
    if schema.min_length.is_some_and(|least| length < least) {
        return Some(("it is empty".to_owned(), remedy_of_missing(Some(schema))));
    }
    if let Some(most) = schema.max_length.filter(|most| length > *most) {
        return Some((format!("it has {length} characters"), format!("write at most {most}")));
    }
    if schema.format == Some(Format::DateTime) && text.parse::<Timestamp>().is_err() {
        return Some((format!("{text:?} is not a time"), "write it as 2026-06-01T12:00:00Z".to_owned()));
    }
    let pattern = schema.pattern.as_ref().filter(|pattern| !pattern.matches(text))?;
    let words = SPELLINGS.iter().find(|(known, ..)| *known == pattern.as_str());
    let (what, remedy) =
        words.map_or(("spelled so", "write what `kubectl explain` says of the field"), |row| (row.1, row.2));
    Some((format!("{text:?} is not {what}"), remedy.to_owned()))
}

fn refusal_of_count(count: usize, [least, most]: [Option<usize>; 2], what: &str) -> Option<(String, String)> {
    let wrong = format!("it has {count} {what}");
    let bound = least.filter(|least| count < *least).map(|least| format!("write at least {least}"));
    let bound = bound.or_else(|| most.filter(|most| count > *most).map(|most| format!("write at most {most}")));
    bound.map(|remedy| (wrong, remedy))
}

/// What each pattern means: what a text that has it is, and how to write one.
const SPELLINGS: [(&str, &str, &str); 15] = [
    (
        r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
        "a key that Kubernetes accepts",
        "write a name of at most 63 letters, digits, '-', '_' or '.', with an optional DNS prefix: example.com/team",
    ),
    (
        r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
        "a value that Kubernetes accepts",
        "write at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit",
    ),
    (
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "the name of an object",
        "write lower-case letters, digits, '-' and '.', such as windows-ltsc2022",
    ),
    (
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
        "the name of a handler",
        "write lower-case letters, digits and '-', such as runhcs-wcow-process",
    ),
    (
        r"^[0-9]+(\.[0-9]{1,3})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$",
        "a quantity",
        "write an amount such as 500m or 2Gi",
    ),
    (
        r"^[0-9]+(\.[0-9]{1,3})?(%|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$",
        "a threshold",
        "write an amount such as 500Mi, or a share such as 10%",
    ),
    (
        r"^([a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+)?$",
        "an image repository",
        "write registry, path and no tag, such as registry.example/kubernetes/pause",
    ),
    (
        r"^([A-Za-z0-9_][A-Za-z0-9._-]*)?$",
        "an image tag",
        "write letters, digits, dots, dashes and underscores, such as 3.10.1",
    ),
    (
        r"^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]{1,5})?$",
        "a registry",
        "write its host, such as docker.io or registry.example:5000",
    ),
    (r#"^https?://[^\s"']+$"#, "the address of a registry", "write a plain address, such as https://mirror.example"),
    (
        r#"^(https?://[^\s"'@]+)?$"#,
        "the address of a proxy without credentials",
        "write a plain address, such as http://proxy.example:3128",
    ),
    (r"^([0-9]+(\.[0-9]+)?(h|m|s))+$", "a length of time", "write hours and minutes, such as 30m"),
    (r#"^([A-Za-z]:[\\/][^<>:"|?*]*)?$"#, "a path on Windows", r"write drive and path, such as D:\containerd"),
    (
        r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)?$",
        "an IP address",
        "write an address such as 10.244.1.2",
    ),
    (r#"^[^\s"']*$"#, "a text without spaces and quotes", "remove spaces and quotes"),
];

fn is_of_type(schema: &Schema, value: &Value) -> bool {
    let is_integer = value.is_i64() || value.is_u64();
    match schema.kind {
        None if schema.int_or_string => is_integer || value.is_string(),
        None => true,
        Some(Kind::String) => value.is_string(),
        Some(Kind::Integer) => is_integer,
        Some(Kind::Boolean) => value.is_boolean(),
        Some(Kind::Array) => value.is_array(),
        Some(Kind::Object) => value.is_object(),
    }
}

fn noun(schema: &Schema) -> &'static str {
    match schema.kind {
        Some(Kind::String) => "a text",
        Some(Kind::Integer) => "a whole number",
        Some(Kind::Boolean) => "true or false",
        Some(Kind::Array) => "a list",
        Some(Kind::Object) => "an object",
        None => "a whole number or a text",
    }
}

fn remedy_of_type(schema: &Schema, value: &Value) -> String {
    let bare = |value: Value| is_of_type(schema, &value) && refusal(schema, &value).is_none();
    let unquoted = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    if !schema.words.is_empty() {
        one_of(&schema.words)
    } else if unquoted.is_some_and(bare) {
        "write it without quotes".to_owned()
    } else if (value.is_number() || value.is_boolean()) && is_of_type(schema, &Value::String(String::new())) {
        "write it in quotes".to_owned()
    } else {
        format!("write {}", noun(schema))
    }
}

fn one_of(words: &[String]) -> String {
    format!("write one of {}", words.join(", "))
}

/// A value as a person would call it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{api::custom_resource_definitions, manifests::schema};

    fn told(kind: &str, spec: Value) -> Vec<String> {
        let schema = &schema::of(kind).unwrap().properties["spec"];
        problems(schema, &spec, "spec").iter().map(ToString::to_string).collect()
    }

    fn pool(spec: Value) -> Vec<String> {
        let mut whole = json!({"windowsVersion": "ltsc2022"});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        told("WindowsNodePool", whole)
    }

    fn profile(spec: Value) -> Vec<String> {
        told("WindowsRuntimeProfile", spec)
    }

    #[test]
    fn only_what_the_schema_does_not_have_is_told() {
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
                "spec.list[1].kye: there is no such field: write one of key, or remove it",
                "spec.lits: there is no such field: write one of list, map, open, or remove it",
            ]
        );
    }

    #[test]
    fn each_keyword_says_what_is_wrong_and_what_to_write() {
        let taints =
            |count: usize| (0..count).map(|n| json!({"key": format!("a{n}"), "effect": "NoExecute"})).collect();
        let taints = |count| Value::Array(taints(count));
        let labels: Map<_, _> = (0..33).map(|n| (format!("a{n}"), json!("b"))).collect();
        let class = |more: Value| json!({"runtimeClasses": [more]});
        let logs = |files: Value| json!({"kubelet": {"containerLogs": {"maxFiles": files}}});
        let mirror =
            |endpoints: Value| json!({"containerd": {"registryMirrors": [{"registry": "a", "endpoints": endpoints}]}});
        let table = [
            (pool(json!({"windowsVersion": 1809})), "spec.windowsVersion: 1809 is not a text: write it in quotes"),
            (pool(json!({"windowsVersion": ["1809"]})), "spec.windowsVersion: a list is not a text: write a text"),
            (
                pool(json!({"mode": "Watch"})),
                "spec.mode: \"Watch\" is not a value of this field: write one of Enforce, Observe",
            ),
            (pool(json!({"mode": true})), "spec.mode: true is not a text: write one of Enforce, Observe"),
            (pool(json!({"paused": "true"})), "spec.paused: \"true\" is not true or false: write it without quotes"),
            (pool(json!({"paused": "yes"})), "spec.paused: \"yes\" is not true or false: write true or false"),
            (pool(json!({"taints": taints(17)})), "spec.taints: it has 17 items: write at most 16"),
            (pool(json!({"taints": {"key": "a"}})), "spec.taints: an object is not a list: write a list"),
            (pool(json!({"taints": [null]})), "spec.taints[0]: nothing is not an object: write an object"),
            (
                pool(json!({"taints": [{"key": "a"}]})),
                "spec.taints[0].effect: it is missing: write one of NoSchedule, PreferNoSchedule, NoExecute",
            ),
            (pool(json!({"profileRef": {}})), "spec.profileRef.name: it is missing: write it: The profile's name"),
            (
                pool(json!({"profileRef": {"name": ""}})),
                "spec.profileRef.name: it is empty: write it: The profile's name",
            ),
            (
                pool(json!({"profileRef": {"name": "é".repeat(254)}})),
                "spec.profileRef.name: it has 254 characters: write at most 253",
            ),
            (pool(json!({"profileRef": {"name": "é".repeat(253)}})), ""),
            (pool(json!({"labels": labels})), "spec.labels: it has 33 entries: write at most 32"),
            (pool(json!({"labels": {"a": 1}})), "spec.labels.a: 1 is not a text: write it in quotes"),
            (
                pool(class(json!({"name": "a", "overhead": {"cpu": 1.5}}))),
                "spec.runtimeClasses[0].overhead.cpu: 1.5 is not a whole number or a text: write it in quotes",
            ),
            (pool(class(json!({"name": "a", "overhead": {"cpu": 2}}))), ""),
            (
                pool(class(json!({"name": "a", "overhead": {"cpu": "much"}}))),
                "spec.runtimeClasses[0].overhead.cpu: \"much\" is not a quantity: write an amount such as 500m or 2Gi",
            ),
            (
                profile(logs(json!(5000))),
                "spec.kubelet.containerLogs.maxFiles: 5000 is more than 100: write at most 100",
            ),
            (profile(logs(json!(-1))), "spec.kubelet.containerLogs.maxFiles: -1 is less than 2: write at least 2"),
            (
                profile(logs(json!(u64::MAX))),
                "spec.kubelet.containerLogs.maxFiles: 18446744073709551615 is more than 100: write at most 100",
            ),
            (
                profile(logs(json!(2.5))),
                "spec.kubelet.containerLogs.maxFiles: 2.5 is not a whole number: write a whole number",
            ),
            (
                profile(logs(json!("5"))),
                "spec.kubelet.containerLogs.maxFiles: \"5\" is not a whole number: write it without quotes",
            ),
            (
                profile(logs(json!("500"))),
                "spec.kubelet.containerLogs.maxFiles: \"500\" is not a whole number: write a whole number",
            ),
            (
                profile(mirror(json!([]))),
                "spec.containerd.registryMirrors[0].endpoints: it has 0 items: write at least 1",
            ),
            (
                profile(mirror(json!(["ftp://m"]))),
                "spec.containerd.registryMirrors[0].endpoints[0]: \"ftp://m\" is not the address of a registry: write a plain address, such as https://mirror.example",
            ),
            (profile(json!({"kubelet": {"extra": {"any": [null, {"thing": 1.5}]}}})), ""),
        ];
        for (told, expected) in table {
            assert_eq!(told.join("\n"), expected);
        }
    }

    #[test]
    fn a_status_is_held_to_its_formats_and_to_the_keys_of_its_lists() {
        let condition = |kind: &str, time: &str| json!({"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": time});
        let time = "2026-06-01T12:00:00Z";
        let conditions = |all: [Value; 2]| json!({"conditions": all});
        let pending = |count: i64| json!({"pending": {"count": count}});
        let table = [
            (conditions([condition("A", time), condition("B", time)]), ""),
            (
                conditions([condition("A", time), condition("A", time)]),
                "status.conditions[1]: it is there already: remove it",
            ),
            (
                conditions([condition("A", time), condition("B", "noon")]),
                "status.conditions[1].lastTransitionTime: \"noon\" is not a time: write it as 2026-06-01T12:00:00Z",
            ),
            (pending(i64::from(i32::MAX)), ""),
            (pending(1 << 31), "status.pending.count: 2147483648 has more than 32 bits: write at most 2147483647"),
        ];
        for (status, expected) in table {
            let told = problems_of_status("WindowsNodePool", &status).unwrap();
            assert_eq!(told.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), expected);
        }
        assert_eq!(problems_of_status("Node", &json!({})), None);
    }

    #[test]
    fn every_mistake_is_told_at_once() {
        let spec = json!({
            "windowsVersion": 1809, "mode": "Watch", "taints": [{"key": "a b", "effect": "Never"}, {"key": 5}],
            "paused": "yes", "profile": "standard",
        });
        let told = pool(spec);
        let paths: Vec<_> = told.iter().map(|line| line.split(": ").next().unwrap()).collect();
        let expected = [
            "spec.mode",
            "spec.paused",
            "spec.profile",
            "spec.taints[0].effect",
            "spec.taints[0].key",
            "spec.taints[1].effect",
            "spec.taints[1].key",
            "spec.windowsVersion",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn every_pattern_is_told_in_words() {
        fn patterns<'a>(schema: &'a Schema, found: &mut Vec<&'a str>) {
            found.extend(schema.pattern.iter().map(schema::Pattern::as_str));
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
            assert!(SPELLINGS.iter().any(|(known, ..)| known == pattern), "{pattern} has no words");
        }
        for (known, ..) in SPELLINGS {
            assert!(found.contains(&known), "{known} is nobody's pattern");
        }
    }
}
