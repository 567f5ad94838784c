//! YAML as kubelets of any age read it: stable bytes, keys in the order in which they are given.
//!
//! Kubelets read YAML 1.1, in which `on`, `1_000` and `12:30` are no texts, so every text is in double quotes and every
//! character outside ASCII escaped; what is left means the same to every reader.

use std::fmt::Write;

use serde_json::Value;

/// A document of one mapping.
#[derive(Debug, Default)]
pub(super) struct Document {
    text: String,
}

impl Document {
    pub(super) fn new(comment: &str) -> Self {
        let mut text = String::with_capacity(1024);
        for line in comment.lines() {
            text.extend(["# ", line, "\n"]);
        }
        Self { text }
    }

    /// A text.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.text.extend([name, ": "]);
        quoted(&mut self.text, value);
        self.text.push('\n');
    }

    /// A number, or true or false: anything that displays as YAML has it.
    pub(super) fn plain(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "{name}: {value}");
    }

    /// Displayed values by name, as texts. None: nothing is written.
    pub(super) fn texts<'a>(&mut self, name: &str, values: impl Iterator<Item = (&'a str, String)>) {
        for (index, (key, value)) in values.enumerate() {
            if index == 0 {
                self.text.extend([name, ":\n"]);
            }
            self.text.push_str("  ");
            self.text(key, &value);
        }
    }

    /// A list of objects whose values are texts. None: nothing is written.
    pub(super) fn objects<'a, const N: usize>(
        &mut self,
        name: &str,
        list: impl Iterator<Item = [(&'a str, &'a str); N]>,
    ) {
        for (index, object) in list.enumerate() {
            if index == 0 {
                self.text.extend([name, ":\n"]);
            }
            for (index, (key, value)) in object.into_iter().enumerate() {
                self.text.push_str(if index == 0 { "- " } else { "  " });
                self.text(key, value);
            }
        }
    }

    /// Any value, in block style.
    pub(super) fn value(&mut self, name: &str, value: &Value) {
        entry(&mut self.text, 0, name, value);
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

fn entry(text: &mut String, depth: usize, name: &str, value: &Value) {
    key(text, name);
    text.push(':');
    after_colon(text, depth, value);
}

/// The value behind a key that stands at a depth.
fn after_colon(text: &mut String, depth: usize, value: &Value) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                line(text, depth + 1);
                entry(text, depth + 1, name, value);
            }
            return end(text, depth);
        }
        Value::Array(list) if !list.is_empty() => {
            for value in list {
                line(text, depth);
                text.push('-');
                item(text, depth, value);
            }
            return end(text, depth);
        }
        scalar_or_empty => {
            text.push(' ');
            scalar(text, scalar_or_empty);
        }
    }
    end(text, depth);
}

/// What stands behind a dash: nested collections in flow style, which is rare and reads the same.
fn item(text: &mut String, depth: usize, value: &Value) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (index, (name, value)) in map.iter().enumerate() {
                if index == 0 {
                    text.push(' ');
                } else {
                    line(text, depth + 1);
                }
                key(text, name);
                text.push_str(": ");
                flow(text, value);
            }
        }
        value => {
            text.push(' ');
            flow(text, value);
        }
    }
}

fn flow(text: &mut String, value: &Value) {
    match value {
        Value::Array(list) => {
            text.push('[');
            for (index, value) in list.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                flow(text, value);
            }
            text.push(']');
        }
        Value::Object(map) => {
            text.push('{');
            for (index, (name, value)) in map.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                quoted(text, name);
                text.push_str(": ");
                flow(text, value);
            }
            text.push('}');
        }
        value => scalar(text, value),
    }
}

fn scalar(text: &mut String, value: &Value) {
    match value {
        Value::String(string) => quoted(text, string),
        Value::Object(_) => text.push_str("{}"),
        Value::Array(_) => text.push_str("[]"),
        plain => drop(write!(text, "{plain}")),
    }
}

fn line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

/// The line break behind an entry of the document; inside, the next entry brings its own.
fn end(text: &mut String, depth: usize) {
    if depth == 0 {
        text.push('\n');
    }
}

/// A key, plain where no reader can take it for anything but a text.
fn key(text: &mut String, name: &str) {
    const NOT_TEXTS: &[&str] = &["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let letters = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = letters && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte));
    match plain && !NOT_TEXTS.contains(&name.to_ascii_lowercase().as_str()) {
        true => text.push_str(name),
        false => quoted(text, name),
    }
}

fn quoted(text: &mut String, plain: &str) {
    text.push('"');
    for c in plain.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            ' '..='~' => text.push(c),
            c if u32::from(c) <= 0xFFFF => drop(write!(text, "\\u{:04X}", u32::from(c))),
            c => drop(write!(text, "\\U{:08X}", u32::from(c))),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn render(name: &str, value: &Value) -> String {
        let mut document = Document::default();
        document.value(name, value);
        document.finish()
    }

    #[test]
    fn collections_are_blocks_and_texts_are_quoted() {
        let table = [
            (json!("on"), "x: \"on\"\n"),
            (json!("C:\\a\"b\n\u{e9}\u{1F600}\u{7f}"), "x: \"C:\\\\a\\\"b\\n\\u00E9\\U0001F600\\u007F\"\n"),
            (json!(5), "x: 5\n"),
            (json!(true), "x: true\n"),
            (json!([]), "x: []\n"),
            (json!({}), "x: {}\n"),
            (json!(["a", 1]), "x:\n- \"a\"\n- 1\n"),
            (json!({"b": {"c": 1, "no": 2}}), "x:\n  b:\n    c: 1\n    \"no\": 2\n"),
            (json!([{"k": "v", "l": [1, {"m": 2}]}]), "x:\n- k: \"v\"\n  l: [1, {\"m\": 2}]\n"),
        ];
        for (value, expected) in table {
            assert_eq!(render("x", &value), expected);
        }
    }

    #[test]
    fn a_document_is_its_comment_and_its_entries_in_order() {
        let mut document = Document::new("one\ntwo");
        document.text("z", "");
        document.plain("a", 1);
        document.texts("m", [("memory", "1Gi".to_owned()), ("cpu", "500m".to_owned())].into_iter());
        document.texts("none", std::iter::empty());
        document.objects("l", [[("k", "a"), ("e", "b")], [("k", "c"), ("e", "")]].into_iter());
        let expected = "# one\n# two\nz: \"\"\na: 1\nm:\n  memory: \"1Gi\"\n  cpu: \"500m\"\n\
                        l:\n- k: \"a\"\n  e: \"b\"\n- k: \"c\"\n  e: \"\"\n";
        assert_eq!(document.finish(), expected);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
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
            let text = render("x", &value);
            let read: Value = serde_saphyr::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            prop_assert_eq!(&read["x"], &value, "{}", text);
            prop_assert!(text.is_ascii());
        }
    }
}
