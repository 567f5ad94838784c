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
    Any(&'a toml::Value),
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

    /// Sets the value at a path of keys, in place of one that is there.
    pub(super) fn set(&mut self, path: &[&'a str], value: Value<'a>) {
        let Some((key, table)) = path.split_last() else { return };
        let known = self.tables.iter().position(|known| known.path == table);
        let at = known.unwrap_or_else(|| {
            let inner = self.tables.iter().position(|known| known.path.starts_with(table));
            let at = inner.unwrap_or(self.tables.len());
            self.tables.insert(at, Table { path: table.to_vec(), entries: Vec::new() });
            at
        });
        let entries = &mut self.tables[at].entries;
        match entries.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => entries.push((key, value)),
        }
    }

    /// Merges tables into the document: tables are merged, every other value replaces the one that is there.
    ///
    /// # Errors
    /// The path of what is a table on one side and another value on the other.
    pub(super) fn merge(&mut self, tables: &'a toml::Table) -> Result<(), String> {
        self.merge_at(&mut Vec::new(), tables)
    }

    fn merge_at(&mut self, path: &mut Vec<&'a str>, tables: &'a toml::Table) -> Result<(), String> {
        for (name, value) in tables {
            path.push(name);
            match value {
                toml::Value::Table(inner) if !self.has_value(path) => self.merge_at(path, inner)?,
                value if !value.is_table() && !self.has_table(path) => self.set(path, Value::Any(value)),
                _ => return Err(path.join(".")),
            }
            path.pop();
        }
        Ok(())
    }

    fn has_value(&self, path: &[&str]) -> bool {
        let Some((key, table)) = path.split_last() else { return false };
        self.tables.iter().any(|known| known.path == table && known.entries.iter().any(|(name, _)| name == key))
    }

    fn has_table(&self, path: &[&str]) -> bool {
        self.tables.iter().any(|table| table.path.starts_with(path))
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
        Value::Any(any) => inline(text, any),
    }
}

/// A value of any type on one line.
fn inline(text: &mut String, value: &toml::Value) {
    match value {
        toml::Value::String(plain) => string(text, plain),
        toml::Value::Array(list) => {
            text.push('[');
            for (index, value) in list.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                inline(text, value);
            }
            text.push(']');
        }
        toml::Value::Table(table) => {
            text.push('{');
            for (index, (name, value)) in table.iter().enumerate() {
                text.push_str(if index == 0 { " " } else { ", " });
                key(text, name);
                text.push_str(" = ");
                inline(text, value);
            }
            text.push_str(" }");
        }
        // Writing to a String does not fail.
        scalar => drop(write!(text, "{scalar}")),
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

    #[test]
    fn merged_tables_keep_what_they_do_not_name_and_replace_what_they_do() {
        let over = "b = 7\n[a]\nx = [1, 2.5, 'C:\\y']\n[a.c]\nz = [{ k = true }, {}]\n[a.d]\n".parse().unwrap();
        let mut document = Document::new("");
        document.set(&["a", "x"], Value::Number(1));
        document.set(&["a", "y"], Value::Text("kept"));
        document.set(&["b"], Value::Texts(&["old", "list"]));
        document.merge(&over).unwrap();
        let expected = "\nb = 7\n\n[a]\nx = [1, 2.5, 'C:\\y']\ny = \"kept\"\n\n[a.c]\nz = [{ k = true }, { }]\n";
        assert_eq!(document.render(), expected);
        assert!(expected.parse::<toml::Table>().is_ok());
    }

    #[test]
    fn a_value_and_a_table_at_one_path_do_not_merge() {
        for (text, path) in [("a = 1", "a"), ("[a.x]\ny = 1", "a.x"), ("[a]\nz = 1", "")] {
            let over = text.parse().unwrap();
            let mut document = Document::new("");
            document.set(&["a", "x"], Value::Number(1));
            assert_eq!(document.merge(&over).err().unwrap_or_default(), path, "{text}");
        }
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
