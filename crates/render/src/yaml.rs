//! YAML files: a comment, then entries in the order in which they are set.
//!
//! Kubelets read YAML 1.1, in which `on`, `1_000` and `12:30` are not strings. All strings except constants are quoted,
//! so that the digest of a file does not depend on the quoting rules of the serializer's version.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_saphyr::{DoubleQuoted, LitString};

/// An object of Kubernetes without a namespace.
pub(super) fn object(api_version: &str, kind: &str, name: &str, spec: impl Serialize) -> String {
    let mut object = Document::new("");
    object.set("apiVersion", api_version);
    object.set("kind", kind);
    object.set("metadata", Strings(vec![("name", name.to_owned())]));
    object.set("spec", spec);
    object.finish()
}

/// A file of one mapping.
#[derive(Debug)]
pub(super) struct Document(String);

impl Document {
    pub(super) fn new(comment: &str) -> Self {
        Self(super::comment_lines(comment))
    }

    /// Appends an entry. Each entry of a block mapping is serialized separately.
    pub(super) fn set(&mut self, name: &str, value: impl Serialize) {
        let entry = serde_saphyr::to_string(&BTreeMap::from([(name, value)]));
        // Writing to a String does not fail, and every value here is a scalar, list or map.
        self.0 += &entry.unwrap_or_default();
    }

    /// Appends an entry whose value is a string.
    pub(super) fn set_string(&mut self, name: &str, value: &str) {
        self.set(name, DoubleQuoted(value));
    }

    /// Appends an entry of named strings, if there are any.
    pub(super) fn set_strings<'a>(&mut self, name: &str, values: impl Iterator<Item = (&'a str, String)>) {
        let values: Vec<_> = values.collect();
        if !values.is_empty() {
            self.set(name, Strings(values));
        }
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Named strings in their order.
pub(super) struct Strings<'a>(pub(super) Vec<(&'a str, String)>);

impl Serialize for Strings<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, DoubleQuoted(value))))
    }
}

/// Any value, with its strings in quotes.
pub(super) struct Quoted<'a>(pub(super) &'a Value);

impl Serialize for Quoted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) => DoubleQuoted(text).serialize(serializer),
            Value::Array(list) => serializer.collect_seq(list.iter().map(Quoted)),
            Value::Object(map) => serializer.collect_map(map.iter().map(|(name, value)| (name, Quoted(value)))),
            scalar => scalar.serialize(serializer),
        }
    }
}

/// Named values in their order.
#[derive(Default)]
pub(super) struct Fields<'a>(Vec<(&'a str, Field<'a>)>);

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Field<'a> {
    /// A constant, which needs no quotes.
    Constant(&'static str),
    Text(DoubleQuoted<String>),
    Lines(LitString),
    Number(i64),
    Flag(bool),
    Any(Quoted<'a>),
    Strings(Strings<'a>),
    Fields(Fields<'a>),
    List(Vec<Field<'a>>),
}

impl<'a> Fields<'a> {
    pub(super) fn with(self, name: &'a str, value: impl Into<Field<'a>>) -> Self {
        self.with_some(name, Some(value))
    }

    pub(super) fn with_some(mut self, name: &'a str, value: Option<impl Into<Field<'a>>>) -> Self {
        self.0.extend(value.map(|value| (name, value.into())));
        self
    }

    pub(super) fn non_empty(self) -> Option<Self> {
        Some(self).filter(|fields| !fields.0.is_empty())
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

macro_rules! field_of {
    ($($type:ty: $variant:ident,)*) => {
        $(impl<'a> From<$type> for Field<'a> {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

field_of! {
    &'static str: Constant,
    DoubleQuoted<String>: Text,
    LitString: Lines,
    u8: Number,
    u32: Number,
    i64: Number,
    bool: Flag,
    Quoted<'a>: Any,
    Strings<'a>: Strings,
    Fields<'a>: Fields,
    Vec<Field<'a>>: List,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn render(value: &Value) -> String {
        let mut document = Document::new("");
        document.set("x", Quoted(value));
        document.finish()
    }

    #[test]
    fn what_yaml_1_1_does_not_read_as_a_string_is_quoted_as_value_and_as_key() {
        let not_strings = "y N yes No on OFF True ~ Null 012 0o17 0x1f 0b11 1_000 1e3 1. .5 +1 -0 .inf .NaN 1:30 \
                           190:20:30.15 2026-08-01 2026-08-01T10:00:00Z 1809 << =";
        for text in not_strings.split(' ').chain(["", "2026-08-01 10:00:00"]) {
            assert_eq!(render(&json!(text)), format!("x: \"{text}\"\n"));
            assert_eq!(render(&json!({text: [text]})), format!("x:\n  \"{text}\":\n  - \"{text}\"\n"));
        }
    }

    #[test]
    fn collections_are_blocks_and_strings_are_neither_folded_nor_split() {
        let long = "word ".repeat(60);
        let table = [
            (json!("C:\\a\"b\n\u{7f}é"), "x: \"C:\\\\a\\\"b\\n\\x7Fé\"\n"),
            (json!(long), &*format!("x: \"{long}\"\n")),
            (json!(5), "x: 5\n"),
            (json!(true), "x: true\n"),
            (json!([]), "x: []\n"),
            (json!({}), "x: {}\n"),
            (json!(["a", 1]), "x:\n- \"a\"\n- 1\n"),
            (json!({"b": {"memory.available": 1, "no": 2}}), "x:\n  b:\n    memory.available: 1\n    \"no\": 2\n"),
            (json!([{"k": "v", "l": [1, {"m": 2}]}]), "x:\n- k: \"v\"\n  l:\n  - 1\n  - m: 2\n"),
        ];
        for (value, expected) in table {
            assert_eq!(render(&value), expected);
        }
    }

    #[test]
    fn a_document_is_its_comment_and_its_entries_in_order() {
        let mut document = Document::new("one\ntwo");
        document.set_string("z", "");
        document.set("a", 1);
        document.set_strings("m", [("memory", "1Gi".to_owned()), ("cpu", "500m".to_owned())].into_iter());
        document.set_strings("none", std::iter::empty());
        document.set("l", [Strings(vec![("k", "a".to_owned()), ("e", String::new())])]);
        let expected =
            "# one\n# two\nz: \"\"\na: 1\nm:\n  memory: \"1Gi\"\n  cpu: \"500m\"\nl:\n- k: \"a\"\n  e: \"\"\n";
        assert_eq!(document.finish(), expected);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[a-z0-9:._-]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("\\PC{1,8}|[a-z]{1,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read_back(value in any_value()) {
            let text = render(&value);
            let read: Value = serde_saphyr::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(&read["x"], &value, "{}", text);
        }
    }
}
