//! Indentation in quoted strings of several lines.
//!
//! YAML folds the lines of a quoted string, so the blanks at their beginning are no part of it. Programs that use libyaml
//! or go-yaml, such as kubectl, read strings whose lines are indented by tabs or not at all. The parser of this program
//! refuses them.

/// A text with every line inside a quoted string indented by spaces, deeper than the string begins. Lines keep their
/// numbers, and strings their values. Only for a text that cannot be read otherwise: quotes are found by their place.
pub fn reindented(text: &str) -> String {
    let mut scanner = Scanner::default();
    text.split_inclusive('\n').map(|line| scanner.line(line)).collect()
}

#[derive(Default)]
struct Scanner {
    /// The quoted string around the next line.
    open: Option<Quoted>,
    /// The column of the node whose block scalar has the next lines.
    block_scalar: Option<usize>,
    /// The number of flow collections around the next character.
    depth: usize,
}

#[derive(Clone, Copy)]
struct Quoted {
    quote: u8,
    column: usize,
}

impl Scanner {
    fn line(&mut self, line: &str) -> String {
        if let Some(quoted) = self.open {
            let content = line.trim_start_matches([' ', '\t']);
            if content.trim_end().is_empty() {
                return content.to_owned();
            }
            let indented = format!("{}{content}", " ".repeat(quoted.column + 1));
            if let Some(end) = end_of(quoted.quote, content.as_bytes(), 0) {
                self.open = None;
                self.scan(indented.as_bytes(), quoted.column + 1 + end, false);
            }
            return indented;
        }
        let indentation = line.len() - line.trim_start_matches(' ').len();
        if self.block_scalar.is_some_and(|column| indentation > column || line.trim().is_empty()) {
            return line.to_owned();
        }
        self.block_scalar = None;
        self.scan(line.as_bytes(), 0, true);
        line.to_owned()
    }

    /// Reads a line from a column; `at_start` is whether a node may begin there.
    fn scan(&mut self, line: &[u8], from: usize, mut at_start: bool) {
        let (mut at, mut node) = (from, 0);
        while let Some(&byte) = line.get(at) {
            let is_separated = line.get(at + 1).is_none_or(u8::is_ascii_whitespace);
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {}
                b'#' if at == 0 || line[at - 1].is_ascii_whitespace() => return,
                b'"' | b'\'' if at_start => match end_of(byte, line, at + 1) {
                    Some(end) => {
                        (at, at_start) = (end, false);
                        continue;
                    }
                    None => {
                        self.open = Some(Quoted { quote: byte, column: at });
                        return;
                    }
                },
                b'[' | b'{' if at_start => self.depth += 1,
                b']' | b'}' if self.depth > 0 => (self.depth, at_start) = (self.depth - 1, false),
                b',' if self.depth > 0 => at_start = true,
                b'-' | b'?' if at_start && is_separated => node = at,
                b':' if is_separated || (self.depth > 0 && !at_start) => at_start = true,
                b'!' | b'&' if at_start => {
                    while line.get(at + 1).is_some_and(|byte| !byte.is_ascii_whitespace()) {
                        at += 1;
                    }
                }
                b'|' | b'>' if at_start && self.depth == 0 => {
                    self.block_scalar = Some(node);
                    return;
                }
                _ if at_start => (node, at_start) = (at, false),
                _ => {}
            }
            at += 1;
        }
    }
}

/// The index after the closing quote of a string, from an index inside it.
fn end_of(quote: u8, line: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(&byte) = line.get(at) {
        match byte {
            b'\\' if quote == b'"' => at += 1,
            b'\'' if quote == b'\'' && line.get(at + 1) == Some(&b'\'') => at += 1,
            byte if byte == quote => return Some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_inside_quoted_strings_change() {
        let table = [
            ("a: \"x\n\ty\"\nb: 1\n", "a: \"x\n    y\"\nb: 1\n"),
            ("a:\n  b: 'it''s\n\n \t z\n'\n  c: d\n", "a:\n  b: 'it''s\n\n      z\n      '\n  c: d\n"),
            ("a: \"x\\\n\ty \\\" z\"\nb: \"c\"\n", "a: \"x\\\n    y \\\" z\"\nb: \"c\"\n"),
            ("- {a: \"x\n y\", b: 'z\n'}\n", "- {a: \"x\n       y\", b: 'z\n               '}\n"),
            ("a: |\n  \"x\n\n  y\nb: \"z\n\t\"\n", "a: |\n  \"x\n\n  y\nb: \"z\n    \"\n"),
            ("- >-\n  'x\n- y\n", "- >-\n  'x\n- y\n"),
            ("a: it's, \"fine\n  b\nc: d # \"no\n", "a: it's, \"fine\n  b\nc: d # \"no\n"),
            ("a: !tag \"x\ny\"\n", "a: !tag \"x\n         y\"\n"),
        ];
        for (text, expected) in table {
            assert_eq!(reindented(text), expected, "{text:?}");
        }
    }
}
