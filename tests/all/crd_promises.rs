//! The promise of docs/promises.md: no schema refuses, or loses, what an earlier release has stored. Rules in CEL are not compared here, but
//! by the upgrade on a real server in `e2e/tests/all/installation/upgrade.rs`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Map, Value, json};
use winpool_api::custom_resource_definitions;

/// What decides which values a schema accepts, besides the schemas inside it.
const KEPT: [&str; 14] = [
    "enum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "pattern",
    "required",
    "type",
    "x-kubernetes-int-or-string",
];

/// A schema without descriptions, defaults and rules.
fn essence(schema: &Value) -> Value {
    let mut kept: Map<String, Value> =
        KEPT.iter().filter_map(|key| Some(((*key).to_owned(), schema.get(*key)?.clone()))).collect();
    for part in ["items", "additionalProperties"] {
        kept.extend(schema.get(part).map(|inner| (part.to_owned(), essence(inner))));
    }
    let properties = schema["properties"].as_object().into_iter().flatten();
    let properties: Map<_, _> = properties.map(|(name, inner)| (name.clone(), essence(inner))).collect();
    if !properties.is_empty() {
        kept.insert("properties".to_owned(), properties.into());
    }
    kept.into()
}

/// Where `now` accepts less than `before`, with the paths.
fn narrowed(before: &Value, now: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut differs = |key: &str| found.push(format!("{path}: {key} was {}, and is {}", before[key], now[key]));
    for key in ["type", "x-kubernetes-int-or-string"] {
        if before[key] != now[key] {
            differs(key);
        }
    }
    for key in ["format", "pattern"] {
        if !now[key].is_null() && before[key] != now[key] {
            differs(key);
        }
    }
    for (prefix, less) in [("max", 1.0), ("min", -1.0)] {
        for key in KEPT.iter().filter(|key| key.starts_with(prefix)) {
            let bound = |schema: &Value| schema[*key].as_f64().map(|bound| bound * less);
            if bound(now).is_some_and(|now| bound(before).is_none_or(|before| now < before)) {
                differs(key);
            }
        }
    }
    let values = |schema: &Value, key: &str| schema[key].as_array().cloned();
    if let Some(now) = values(now, "enum")
        && values(before, "enum").is_none_or(|before| before.iter().any(|value| !now.contains(value)))
    {
        differs("enum");
    }
    let required = |schema: &Value| values(schema, "required").unwrap_or_default();
    if required(now).iter().any(|name| !required(before).contains(name)) {
        differs("required");
    }
    let parts = ["items", "additionalProperties"].map(|part| (part, before.get(part), now.get(part)));
    let properties = before["properties"].as_object().into_iter().flatten();
    let properties = properties.map(|(name, inner)| (name.as_str(), Some(inner), now["properties"].get(name)));
    for (name, before, now) in parts.into_iter().chain(properties) {
        match (before, now) {
            (Some(before), Some(now)) => found.extend(narrowed(before, now, &format!("{path}.{name}"))),
            (Some(_), None) => found.push(format!("{path}.{name} is gone")),
            (None, _) => {}
        }
    }
    found
}

#[test]
fn a_schema_is_narrowed_by_what_it_refuses_and_by_fields_that_it_loses() {
    let string = || json!({"type": "string", "maxLength": 9});
    let of = |inner: Value| json!({"type": "object", "properties": {"a": inner}});
    let table: &[(Value, Value, &[&str])] = &[
        (string(), string(), &[]),
        (string(), json!({"type": "string", "maxLength": 10}), &[]),
        (string(), json!({"type": "string"}), &[]),
        (string(), json!({"type": "string", "maxLength": 8}), &["x: maxLength was 9, and is 8"]),
        (string(), json!({"type": "integer"}), &[r#"x: type was "string", and is "integer""#]),
        (json!({"minimum": 2}), json!({"minimum": 1}), &[]),
        (json!({"minimum": 2}), json!({"minimum": 3}), &["x: minimum was 2, and is 3"]),
        (json!({}), json!({"maxItems": 3}), &["x: maxItems was null, and is 3"]),
        (json!({"enum": ["a"]}), json!({"enum": ["a", "b"]}), &[]),
        (json!({"enum": ["a", "b"]}), json!({"enum": ["b"]}), &[r#"x: enum was ["a","b"], and is ["b"]"#]),
        (json!({"pattern": "a"}), json!({}), &[]),
        (json!({"pattern": "a"}), json!({"pattern": "b"}), &[r#"x: pattern was "a", and is "b""#]),
        (json!({"required": ["a"]}), json!({"required": []}), &[]),
        (json!({}), json!({"required": ["a"]}), &[r#"x: required was null, and is ["a"]"#]),
        (of(string()), json!({"type": "object"}), &["x.a is gone"]),
        (json!({"type": "object"}), of(string()), &[]),
        (of(of(json!({"maxItems": 2}))), of(of(json!({"maxItems": 1}))), &["x.a.a: maxItems was 2, and is 1"]),
        (
            json!({"items": {"maxLength": 2}}),
            json!({"items": {"maxLength": 1}}),
            &["x.items: maxLength was 2, and is 1"],
        ),
    ];
    for (before, now, expected) in table {
        assert_eq!(narrowed(before, now, "x"), *expected, "{before} {now}");
    }
}

fn schema(definition: &Value) -> Value {
    essence(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
}

/// The schemas of today, by file.
fn now() -> Map<String, Value> {
    let definitions = custom_resource_definitions().into_iter();
    definitions.map(|(file, definition)| (file.to_owned(), schema(&json!(definition)))).collect()
}

/// What git prints; `None` if it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/schemas.json")
}

/// The schemas of the last release before this commit; until there is one, those that are recorded.
fn before() -> Map<String, Value> {
    let Some(tag) = git(&["describe", "--tags", "--abbrev=0", "--match=v*", "HEAD^"]) else {
        if env::var_os("WINPOOL_RENEW_GOLDEN").is_some() {
            fs::write(recorded(), format!("{:#}\n", Value::from(now()))).unwrap();
        }
        return serde_json::from_str(&fs::read_to_string(recorded()).unwrap()).unwrap();
    };
    let of = |file: &String| {
        let text = git(&["show", &format!("{}:crds/{file}", tag.trim())])?;
        Some((file.clone(), schema(&serde_saphyr::from_str(&text).unwrap())))
    };
    now().keys().filter_map(of).collect()
}

#[test]
fn no_schema_accepts_less_than_that_of_the_last_release() {
    let (before, now) = (before(), now());
    assert!(before.len() >= 3, "{before:?}");
    for (file, before) in &before {
        let narrowed = narrowed(before, now.get(file).unwrap_or(&Value::Null), "");
        assert!(narrowed.is_empty(), "crds/{file}: docs/promises.md forbids this:\n{}", narrowed.join("\n"));
    }
}
