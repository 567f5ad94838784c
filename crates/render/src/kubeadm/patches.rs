//! JSON patches that turn the specification of the platform team into winpool's, for a ClusterClass.
//!
//! A ClusterClass accepts `add`, `replace` and `remove`. It can append to a list that exists, and write whole values. Source:
//! kubernetes-sigs/cluster-api v1.14.0, `docs/book/src/tasks/experimental-features/cluster-class/write-clusterclass.md` and
//! `api/core/v1beta2/clusterclass_types.go`.

use serde_json::{Value, json};

use super::arguments::ARGUMENTS;

const SPEC: &str = "/spec/template/spec";

/// Patches, and what they assume about the template to which they are applied. Paths begin below `spec.template.spec`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonPatches {
    pub operations: Vec<Value>,
    /// Lists that must exist.
    pub appended: Vec<String>,
    /// Fields that must not exist, because they would be replaced.
    pub added: Vec<String>,
    /// Fields that must have the value of the known template, because they are replaced.
    pub replaced: Vec<String>,
}

impl JsonPatches {
    /// The patches for a template with a specification, so that it becomes another one.
    pub fn between(before: &Value, after: &Value) -> Self {
        let mut patches = Self::default();
        patches.compare("", before, after);
        patches
    }

    fn compare(&mut self, path: &str, before: &Value, after: &Value) {
        match (before, after) {
            _ if before == after => {}
            (Value::Object(before), Value::Object(after)) => {
                for (key, value) in after {
                    let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                    match before.get(key).filter(|value| !is_empty(value)) {
                        Some(before) => self.compare(&path, before, value),
                        None => self.write("add", path, value),
                    }
                }
            }
            (Value::Array(before), Value::Array(after)) => match appended(path, before, after) {
                Some(items) if items.is_empty() => {}
                Some(items) => {
                    let item = |item: &Value| json!({"op": "add", "path": format!("{SPEC}{path}/-"), "value": item});
                    self.operations.extend(items.into_iter().map(item));
                    self.appended.push(field(path));
                }
                None => self.write("replace", path.to_owned(), &json!(after)),
            },
            _ => self.write("replace", path.to_owned(), after),
        }
    }

    fn write(&mut self, op: &str, path: String, value: &Value) {
        self.operations.push(json!({"op": op, "path": format!("{SPEC}{path}"), "value": value}));
        let fields = if op == "add" { &mut self.added } else { &mut self.replaced };
        fields.push(field(&path));
    }
}

/// An empty list or map may not be stored, and nothing can be appended to it then.
fn is_empty(value: &Value) -> bool {
    value.is_null()
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(|map| map.is_empty())
}

/// The items to append, if that results in the other list. The arguments of the kubelet have no order.
fn appended<'a>(path: &str, before: &[Value], after: &'a [Value]) -> Option<Vec<&'a Value>> {
    if path == ARGUMENTS {
        let contains_all = before.iter().all(|item| after.contains(item));
        return contains_all.then(|| after.iter().filter(|item| !before.contains(item)).collect());
    }
    after.strip_prefix(before).map(|items| items.iter().collect())
}

/// `a.b` for the pointer `/a/b`.
fn field(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_extended_and_other_differences_are_written() {
        let before = json!({"files": [1], "users": [], "format": "cloud-config", "joinConfiguration": {"a": {"b": 1}}});
        let after = json!({
            "files": [1, 2, 3], "users": ["x"], "format": "cloud-config", "commands": ["c"],
            "joinConfiguration": {"a": {"b": 2, "c/d": 3}},
        });
        let patches = JsonPatches::between(&before, &after);
        let expected = [
            json!({"op": "add", "path": "/spec/template/spec/commands", "value": ["c"]}),
            json!({"op": "add", "path": "/spec/template/spec/files/-", "value": 2}),
            json!({"op": "add", "path": "/spec/template/spec/files/-", "value": 3}),
            json!({"op": "replace", "path": "/spec/template/spec/joinConfiguration/a/b", "value": 2}),
            json!({"op": "add", "path": "/spec/template/spec/joinConfiguration/a/c~1d", "value": 3}),
            json!({"op": "add", "path": "/spec/template/spec/users", "value": ["x"]}),
        ];
        assert_eq!(patches.operations, expected);
        assert_eq!(patches.appended, ["files"]);
        assert_eq!(patches.added, ["commands", "joinConfiguration.a.c~1d", "users"]);
        assert_eq!(patches.replaced, ["joinConfiguration.a.b"]);
    }

    #[test]
    fn arguments_are_added_in_any_order_and_replaced_if_one_changes() {
        let around = |list: Value| json!({"joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": list}}});
        let (a, b, c) =
            (json!({"name": "a", "value": ""}), json!({"name": "b", "value": ""}), json!({"name": "c", "value": ""}));
        let patches = JsonPatches::between(&around(json!([c, a])), &around(json!([a, b, c])));
        let path = format!("{SPEC}{ARGUMENTS}");
        assert_eq!(patches.operations, [json!({"op": "add", "path": format!("{path}/-"), "value": b})]);
        let changed = JsonPatches::between(&around(json!([a])), &around(json!([b])));
        assert_eq!(changed.operations, [json!({"op": "replace", "path": path, "value": [b]})]);
    }
}
