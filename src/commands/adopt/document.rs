//! A YAML document with comments.

use serde_json::{Value, json};
use winpool_api::Taint;
use winpool_core::foreign_text::escaped;

use crate::commands::output;

/// The longest line of a comment.
const WIDTH: usize = 118;

/// A YAML document with comments, written from top to bottom.
#[derive(Debug, Default)]
pub struct CommentedYaml(String);

impl CommentedYaml {
    /// A comment above the next field, in as many lines as needed. `indent` is a number of spaces. It may have text of nodes and
    /// files, whose characters that a terminal interprets are escaped.
    pub fn comment(&mut self, indent: usize, text: &str) {
        let start = format!("{}#", " ".repeat(indent));
        let mut line = start.clone();
        for word in escaped(text).split_whitespace() {
            if line.len() > start.len() && line.len() + 1 + word.len() > WIDTH {
                self.line(&std::mem::replace(&mut line, start.clone()));
            }
            line = format!("{line} {word}");
        }
        self.line(&line);
    }

    /// Fields of an object.
    pub fn fields(&mut self, indent: usize, fields: &Value) {
        let spaces = " ".repeat(indent);
        output::yaml(fields).lines().for_each(|line| self.line(&format!("{spaces}{line}")));
    }

    /// A field with a string in quotes, because a YAML parser may read it as a number.
    pub fn quoted(&mut self, indent: usize, name: &str, value: &str) {
        self.line(&format!("{}{name}: {}", " ".repeat(indent), json!(value)));
    }

    /// The name of a field whose value follows.
    pub fn name(&mut self, indent: usize, name: &str) {
        self.line(&format!("{}{name}:", " ".repeat(indent)));
    }

    /// An item of a list of taints.
    pub fn taint(&mut self, indent: usize, Taint { key, value, effect }: &Taint) {
        // Keys and values of labels need quotes only if they look like another type.
        let scalar = |text: &str| output::yaml(&json!(text)).trim_end().to_owned();
        let value = if value.is_empty() { String::new() } else { format!(", value: {}", scalar(value)) };
        let item = format!("- {{ key: {}{value}, effect: {} }}", scalar(key), effect.name());
        self.line(&format!("{}{item}", " ".repeat(indent)));
    }

    /// The first field of an item of a list, whose other fields follow with two more spaces.
    pub fn item(&mut self, indent: usize, fields: &Value) {
        self.fields(indent, &json!([fields]));
    }

    pub fn text(self) -> String {
        self.0
    }

    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_has_no_character_that_a_terminal_or_a_parser_interprets() {
        let mut document = CommentedYaml::default();
        document.comment(2, "From label \u{1b}[31mred\u{1b}[0m\nspec: {} of\u{202e} win-1\u{85}a: b\u{2028}c: d.");
        let expected = "  # From label \\u{1b}[31mred\\u{1b}[0m spec: {} of\\u{202e} win-1\\u{85}a: b c: d.\n";
        assert_eq!(document.text(), expected);
    }
}
