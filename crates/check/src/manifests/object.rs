//! Objects stored as compact text, because a decoded object takes ten times the memory.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Clone, Debug)]
pub struct Object {
    kind: Box<str>,
    api_version: Box<str>,
    json: Box<str>,
}

impl Object {
    /// Its kind; empty if there is none.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The group of its API version; empty for the core.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    pub fn contains(&self, text: &str) -> bool {
        self.json.contains(text)
    }

    pub fn value(&self) -> Value {
        // Never fails: the text was written from a value within the depth limit of the reader.
        serde_json::from_str(&self.json).unwrap_or_default()
    }
}

impl From<Value> for Object {
    fn from(value: Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().into();
        Self { kind: text("kind"), api_version: text("apiVersion"), json: value.to_string().into() }
    }
}

/// A document of a file, whose decoded value is dropped after reading.
pub(super) struct Document {
    /// The object, or the items of a list.
    pub objects: Vec<Object>,
    pub is_list: bool,
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

impl From<Value> for Document {
    fn from(mut value: Value) -> Self {
        let items = items(&mut value);
        let is_list = items.is_some();
        let objects = items.unwrap_or_else(|| vec![value]).into_iter().map(Object::from).collect();
        Self { objects, is_list }
    }
}

/// The items of a list of objects, such as a `List` or a `PodList`; the API server omits their kind and version in lists
/// of one kind.
fn items(list: &mut Value) -> Option<Vec<Value>> {
    let kind = list["kind"].as_str()?.strip_suffix("List")?.to_owned();
    let is_list = list["items"].as_array().is_some_and(|items| kind.is_empty() || items.iter().all(Value::is_object));
    let mut items = list.get_mut("items").filter(|_| is_list)?.as_array_mut().map(std::mem::take)?;
    for item in items.iter_mut().filter_map(Value::as_object_mut).filter(|_| !kind.is_empty()) {
        item.entry("kind").or_insert_with(|| kind.as_str().into());
        item.entry("apiVersion").or_insert_with(|| list["apiVersion"].clone());
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_preserves_its_objects() {
        let (one, other) = (json!({"kind": "A", "spec": {"b": [1, "x"]}}), json!({"kind": "B", "apiVersion": "v1"}));
        let table = [
            (one.clone(), vec![one.clone()]),
            (json!({"kind": "List", "items": [one, other]}), vec![one.clone(), other.clone()]),
            (json!({"kind": "List", "items": "none"}), vec![json!({"kind": "List", "items": "none"})]),
            (json!({"kind": "PodList", "items": ["none"]}), vec![json!({"kind": "PodList", "items": ["none"]})]),
            (
                json!({"kind": "PodList", "apiVersion": "v1", "items": [{"a": 1}, {"kind": "B"}]}),
                vec![json!({"kind": "Pod", "apiVersion": "v1", "a": 1}), json!({"kind": "B", "apiVersion": "v1"})],
            ),
            (json!("text"), vec![json!("text")]),
        ];
        for (document, expected) in table {
            let objects = Document::from(document).objects;
            assert_eq!(objects.iter().map(Object::value).collect::<Vec<_>>(), expected);
        }
        let object = Object::from(other);
        assert_eq!((object.kind(), object.api_version()), ("B", "v1"));
    }
}
