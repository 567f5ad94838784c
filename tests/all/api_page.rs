//! docs/api.md: every field of the custom resources, generated from the schemas of their CRDs.

use std::{collections::BTreeMap, env, fs, path::Path};

use serde_json::{Value, json};
use winpool_api::custom_resource_definitions;

/// The longest line of the page, if it has spaces.
const WIDTH: usize = 120;

const INTRODUCTION: &str = "\
# API reference

Every field of the custom resources in the group `winpool.dev`, version `v1alpha1`. Generated from their schemas by
`UPDATE_DOCS=1 cargo test --test all api_page`.

A field is optional unless it is marked as required. The API server checks the rules in CEL; the operator checks the same, and
reports violations in the condition `SpecValid`. `kubectl explain windowsnodepool.spec` prints the fields that a cluster has. [Concepts](../README.md#concepts) explains what they are for, and [Status](status.md) the
conditions.

";

/// The schemas of the kinds in the order of the page, as the API server gets them.
fn kinds() -> Vec<Value> {
    let mut kinds: BTreeMap<String, Value> = BTreeMap::new();
    for (_, crd) in custom_resource_definitions() {
        kinds.insert(crd.spec.names.kind.clone(), json!(crd));
    }
    ["WindowsNodePool", "WindowsRuntimeProfile", "WindowsNodeConfig"].map(|kind| kinds.remove(kind).unwrap()).to_vec()
}

fn page() -> String {
    let kinds = kinds();
    let list: Vec<_> = kinds.iter().map(|crd| format!("- {}", link(kind_of(crd)))).collect();
    format!("{INTRODUCTION}{}\n{}", list.join("\n"), kinds.iter().map(chapter).collect::<String>())
}

fn kind_of(crd: &Value) -> &str {
    text(&crd["spec"]["names"]["kind"])
}

fn chapter(crd: &Value) -> String {
    let names = &crd["spec"]["names"];
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let kind = kind_of(crd);
    let short: Vec<_> = strings(&names["shortNames"]).iter().map(|name| code(name)).collect();
    let scope = text(&crd["spec"]["scope"]);
    let head = format!("\n## {kind}\n\n{}\n", wrapped(&escaped(text(&schema["description"])), ""));
    let known = format!("\n`{}`, scope {scope}, short name {}.\n", text(&names["plural"]), short.join(", "));
    let parts = ["spec", "status"].map(|part| section(&format!("{kind}.{part}"), &schema["properties"][part]));
    format!("{head}{known}{}{}", rules(schema), parts.concat())
}

/// The rules of an object, each as an item of a list.
fn rules(schema: &Value) -> String {
    let rules: String = checks(schema).0.iter().map(|rule| item(rule, "")).collect();
    if rules.is_empty() { rules } else { format!("\n{rules}") }
}

/// The section of an object, and those of the objects in it.
fn section(path: &str, schema: &Value) -> String {
    let fields = schema["properties"].as_object().unwrap();
    let required = strings(&schema["required"]);
    let description = match text(&schema["description"]) {
        "" => String::new(),
        text => format!("\n{}\n", wrapped(&escaped(text), "")),
    };
    let list = fields.iter().map(|(name, field)| entry(path, name, field, required.contains(&name.as_str())));
    let inner = fields.iter().filter_map(|(name, field)| {
        let (suffix, object) = object_in(field)?;
        Some(section(&format!("{path}.{name}{suffix}"), object))
    });
    let rules = rules(schema);
    format!("\n### {path}\n{description}{rules}\n{}{}", list.collect::<String>(), inner.collect::<String>())
}

/// The object with fields that a field is, or has in its list or map.
fn object_in(field: &Value) -> Option<(&'static str, &Value)> {
    let candidates = [("", field), ("[]", &field["items"]), ("{}", &field["additionalProperties"])];
    candidates.into_iter().find(|(_, schema)| schema["properties"].is_object())
}

fn entry(path: &str, name: &str, field: &Value, required: bool) -> String {
    let kind = match object_in(field) {
        Some((suffix, _)) => type_of(field, &format!("[object](#{})", anchor(&format!("{path}.{name}{suffix}")))),
        None => type_of(field, "object"),
    };
    let mut facts = vec![kind];
    facts.extend(required.then(|| "required".to_owned()));
    facts.extend(field.get("default").map(|default| format!("default {}", code(&default.to_string()))));
    // The checks of an object are in its own section.
    let (checks, short) = if field["properties"].is_object() { Default::default() } else { checks(field) };
    facts.extend(short);
    let id = format!("{}.{name}", path.replace("[]", "").replace("{}", "")).to_lowercase();
    let description = escaped(text(&field["description"]));
    let first = format!("<a id=\"{id}\"></a>**`{name}`** ({}): {description}", facts.join(", "));
    item(&first, "") + &checks.iter().map(|check| item(check, "  ")).collect::<String>()
}

/// The type in words; `object` is the word for an object.
fn type_of(schema: &Value, object: &str) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    match (text(&schema["type"]), text(&schema["format"])) {
        ("array", _) => format!("list of {}", plural(&type_of(&schema["items"], object))),
        ("object", _) if schema["additionalProperties"].is_object() => {
            format!("map of {}", plural(&type_of(&schema["additionalProperties"], object)))
        }
        ("object", _) => object.to_owned(),
        ("string", "date-time") => "time".to_owned(),
        (name, _) => name.to_owned(),
    }
}

fn plural(name: &str) -> String {
    match name {
        "integer or string" => "integers or strings".to_owned(),
        "object" | "string" | "integer" | "boolean" | "time" => format!("{name}s"),
        _ => name.replace("[object]", "[objects]"),
    }
}

/// What the API server checks: the long ones, each for a line of its own, and the short ones.
fn checks(schema: &Value) -> (Vec<String>, Vec<String>) {
    let (mut long, mut short) = (Vec::new(), Vec::new());
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| code(text(value))).collect();
        long.push(format!("One of {}.", values.join(", ")));
    }
    for (least, most, unit) in [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " entries"),
    ] {
        let number = |name: &str| schema[name].as_f64().map(|number| format!("{number}"));
        short.extend(match (number(least), number(most)) {
            (Some(least), Some(most)) => Some(format!("{least} to {most}{unit}")),
            (Some(least), None) => Some(format!("at least {least}{unit}")),
            (None, Some(most)) => Some(format!("at most {most}{unit}")),
            (None, None) => None,
        });
    }
    if let Some(keys) = schema["x-kubernetes-list-map-keys"].as_array() {
        let keys: Vec<_> = keys.iter().map(|key| code(text(key))).collect();
        short.push(format!("unique {}", keys.join(", ")));
    }
    if schema["x-kubernetes-list-type"] == "set" {
        short.push("unique items".to_owned());
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        short.push("any fields".to_owned());
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        long.push(format!("Pattern {}", code(pattern)));
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        long.push(format!("Rule: {}. CEL: {}", escaped(text(&rule["message"])), code(text(&rule["rule"]))));
    }
    for (of, each) in [("items", "Each item"), ("additionalProperties", "Each value")] {
        // The checks of an object with fields are in its own section.
        if schema[of].is_object() && !schema[of]["properties"].is_object() {
            let (inner_long, inner_short) = checks(&schema[of]);
            let inner = (!inner_short.is_empty()).then(|| inner_short.join(", ")).into_iter().chain(inner_long);
            long.extend(inner.map(|check| format!("{each}: {}", check.replacen("Pattern", "pattern", 1))));
        }
    }
    (long, short)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn code(text: &str) -> String {
    assert!(!text.contains('`'), "a backtick in {text}");
    format!("`{text}`")
}

/// Text that Markdown does not interpret.
fn escaped(text: &str) -> String {
    let escape = |one: char| if "\\<*_[`".contains(one) { format!("\\{one}") } else { one.to_string() };
    text.chars().map(escape).collect()
}

fn link(heading: &str) -> String {
    format!("[{heading}](#{})", anchor(heading))
}

/// The anchor of a heading that has letters and punctuation only.
fn anchor(heading: &str) -> String {
    heading.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
}

fn item(text: &str, indent: &str) -> String {
    let inner = format!("{indent}  ");
    format!("{indent}- {}\n", wrapped(text, &inner))
}

/// Lines of at most [`WIDTH`] characters, if the words permit it. No line but the first begins with a character that could begin
/// another block.
pub fn wrapped(text: &str, indent: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), indent.to_owned());
    let words: Vec<&str> = text.split(' ').collect();
    for (index, word) in words.iter().enumerate() {
        let safe = word.starts_with(|one: char| one.is_ascii_alphabetic() || "`(\"'&?!{".contains(one));
        if index > 0 && safe && line.len() + 1 + word.len() > WIDTH {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
        } else if index > 0 {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n").trim_start().to_owned()
}

#[test]
fn the_page_is_what_the_schemas_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/api.md");
    let expected = page();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "docs/api.md differs: write it with UPDATE_DOCS=1 cargo test --test all api_page");
}
