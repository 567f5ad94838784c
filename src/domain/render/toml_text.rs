//! TOML as a person would write it: stable bytes, keys in the order in which they are set.
//!
//! Only TOML 0.5 is written, because containerd 1.x reads it with parsers of that age: no escape that came later, and no
//! escape in a key where it can be helped.

use std::fmt::Write;

/// A value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Flag(bool),
    Number(i64),
    Text(&'a str),
    Texts(&'a [&'a str]),
}

/// A file: comment lines, then tables in the order of their first key, each before the tables inside it.
#[derive(Debug)]
pub(super) struct Document<'a> {
    comment: &'a str,
    tables: Vec<Table<'a>>,
}

#[derive(Debug)]
struct Table<'a> {
    path: Vec<&'a str>,
    entries: Vec<(&'a str, Value<'a>)>,
}

impl<'a> Document<'a> {
    /// An empty file with a comment of one or more lines at its head.
    pub(super) fn new(comment: &'a str) -> Self {
        Self { comment, tables: Vec::new() }
    }

    /// Sets the value at a path of keys. A path is set once.
    pub(super) fn set(&mut self, path: &[&'a str], value: Value<'a>) {
        let Some((key, table)) = path.split_last() else { return };
        let known = self.tables.iter().position(|known| known.path == table);
        let at = known.unwrap_or_else(|| {
            let inner = self.tables.iter().position(|known| known.path.starts_with(table));
            let at = inner.unwrap_or(self.tables.len());
            self.tables.insert(at, Table { path: table.to_vec(), entries: Vec::new() });
            at
        });
        self.tables[at].entries.push((key, value));
    }

    /// The text.
    pub(super) fn render(&self) -> String {
        let mut text = String::with_capacity(2048);
        for line in self.comment.lines() {
            text.extend(["# ", line, "\n"]);
        }
        for Table { path, entries } in &self.tables {
            text.push('\n');
            if !path.is_empty() {
                text.push('[');
                separated(&mut text, ".", path, key);
                text.push_str("]\n");
            }
            for (name, entry) in entries {
                key(&mut text, name);
                text.push_str(" = ");
                value(&mut text, *entry);
                text.push('\n');
            }
        }
        text
    }
}

fn separated<'a>(text: &mut String, separator: &str, parts: &[&'a str], write: impl Fn(&mut String, &'a str)) {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            text.push_str(separator);
        }
        write(text, part);
    }
}

fn value(text: &mut String, value: Value) {
    // Writing to a String does not fail.
    match value {
        Value::Flag(flag) => text.push_str(if flag { "true" } else { "false" }),
        Value::Number(number) => drop(write!(text, "{number}")),
        Value::Text(plain) => string(text, plain),
        Value::Texts(list) => {
            text.push('[');
            separated(text, ", ", list, string);
            text.push(']');
        }
    }
}

fn key(text: &mut String, key: &str) {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !key.is_empty() && key.chars().all(bare) {
        true => text.push_str(key),
        false => string(text, key),
    }
}

/// A string: in single quotes, where nothing is escaped, if it has backslashes and can be; else in double quotes.
fn string(text: &mut String, plain: &str) {
    let literal = plain.contains('\\') && !plain.contains(|c: char| c == '\'' || c.is_control());
    if literal {
        text.extend(["'", plain, "'"]);
        return;
    }
    text.push('"');
    for c in plain.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => drop(write!(text, "\\u{:04X}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn strings_read_well_and_are_escaped_where_they_must_be() {
        let table = [
            ("windows", r#""windows""#),
            (r"C:\Program Files\cni", r"'C:\Program Files\cni'"),
            (r"\\.\pipe\containerd-containerd", r"'\\.\pipe\containerd-containerd'"),
            ("c:/it's", r#""c:/it's""#),
            (r"C:\it's", r#""C:\\it's""#),
            ("a\"b", r#""a\"b""#),
            ("a\nb\u{1b}\u{7f}", "\"a\\u000Ab\\u001B\\u007F\""),
            ("Größe", r#""Größe""#),
            ("", r#""""#),
        ];
        for (plain, expected) in table {
            let mut text = String::new();
            string(&mut text, plain);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn keys_of_a_table_stand_together_and_before_those_of_tables_inside_it() {
        let mut document = Document::new("one\ntwo");
        document.set(&["a", "b.c", "x"], Value::Number(1));
        document.set(&["version"], Value::Number(2));
        document.set(&["a", "y"], Value::Texts(&["p", "q"]));
        document.set(&["a", "b.c", "z"], Value::Flag(true));
        let expected = "# one\n# two\n\nversion = 2\n\n[a]\ny = [\"p\", \"q\"]\n\n[a.\"b.c\"]\nx = 1\nz = true\n";
        assert_eq!(document.render(), expected);
    }

    proptest! {
        #[test]
        fn any_text_comes_back_as_key_and_as_value(name in any::<String>(), plain in any::<String>()) {
            let list = [plain.as_str(), name.as_str()];
            let mut document = Document::new("");
            document.set(&["table", &name, "key"], Value::Text(&plain));
            document.set(&["list"], Value::Texts(&list));
            let read = document.render().parse::<toml::Table>().unwrap();
            prop_assert_eq!(read["table"][&name]["key"].as_str(), Some(plain.as_str()));
            prop_assert_eq!(read["list"][0].as_str(), Some(plain.as_str()));
            prop_assert_eq!(read["list"][1].as_str(), Some(name.as_str()));
        }
    }
}
