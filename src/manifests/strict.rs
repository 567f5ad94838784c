//! Fields that a schema does not know: a mistyped name would otherwise be dropped without a word.

use serde_json::Value;

use crate::domain::Problem;

/// Every field of `value` that the schema does not have. `path` is that of the value.
pub fn unknown_fields(schema: &Value, value: &Value, path: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    walk(schema, value, path, &mut problems);
    problems
}

fn walk(schema: &Value, value: &Value, path: &str, problems: &mut Vec<Problem>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                field(schema, name, value, path, problems);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(&schema["items"], item, &format!("{path}[{index}]"), problems);
            }
        }
        _ => {}
    }
}

fn field(schema: &Value, name: &str, value: &Value, path: &str, problems: &mut Vec<Problem>) {
    if let Some(known) = schema["properties"].get(name) {
        return walk(known, value, &format!("{path}.{name}"), problems);
    }
    let others = &schema["additionalProperties"];
    if others.is_object() {
        return walk(others, value, &format!("{path}[{name}]"), problems);
    }
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true || others == true;
    if let (Some(known), false) = (schema["properties"].as_object(), open) {
        let known: Vec<_> = known.keys().map(String::as_str).collect();
        let remedy = format!("write one of {}, or remove it", known.join(", "));
        problems.push(Problem::new(format!("{path}.{name}"), "there is no such field", remedy));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_the_schema_does_not_have_is_told() {
        let schema = json!({"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"key": {}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        let value =
            json!({"list": [{"key": 1}, {"kye": 2}], "map": {"any": "x"}, "open": {"any": {"thing": 1}}, "lits": []});
        let problems = unknown_fields(&schema, &value, "spec");
        assert_eq!(
            problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "spec.list[1].kye: there is no such field: write one of key, or remove it",
                "spec.lits: there is no such field: write one of list, map, open, or remove it",
            ]
        );
    }
}
