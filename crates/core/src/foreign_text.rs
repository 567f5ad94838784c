//! Text that nodes, agents, pods, registries and API servers write, and its form in messages.

use std::{borrow::Cow, fmt};

use winpool_api::bounds::shortened;

/// The maximum number of characters that are displayed, unless the format has another precision.
const MAX: usize = 1024;

/// Text from outside. It is displayed in one line, without characters that a terminal or a reader interprets, and in at
/// most 1024 characters, or as many as the precision of the format: `{text:.128}`. It is compared as it was written.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ForeignText(String);

impl ForeignText {
    /// The text as it was written, for comparisons and lookups. It must not become part of a message.
    pub fn raw(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Into<String>> From<T> for ForeignText {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ForeignText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shortened(&escaped(&self.0), f.precision().unwrap_or(MAX)))
    }
}

/// As the debug format of a string, which is escaped too, and not bounded.
impl fmt::Debug for ForeignText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The text in one line: line breaks and tabs are spaces, and other characters that a terminal or a reader interprets are
/// escaped, such as `\u{1b}`. Text that has none is unchanged.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_interpreted) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => escaped.push(' '),
            char if is_interpreted(char) => escaped.extend(char.escape_unicode()),
            char => escaped.push(char),
        }
    }
    Cow::Owned(escaped)
}

/// As [`escaped`], with the line breaks of the text.
pub fn escaped_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// Whether a character is a control character, is invisible, or changes the direction of the text.
fn is_interpreted(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_displayed_without_characters_that_are_interpreted() {
        let table = [
            ("", ""),
            ("v1.34.1+rke2r1 \"C:\\k\" 10 % ü 漢字 🙂 {x}", "v1.34.1+rke2r1 \"C:\\k\" 10 % ü 漢字 🙂 {x}"),
            ("e\u{301}, combining", "e\u{301}, combining"),
            ("\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m"),
            ("one\ntwo\r\nthree\tfour\u{2028}five", "one two  three four five"),
            ("\u{0}\u{7}\u{8}\u{7f}\u{85}\u{9b}31m", "\\u{0}\\u{7}\\u{8}\\u{7f}\\u{85}\\u{9b}31m"),
            (
                "abc\u{202e}cba\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}",
                "abc\\u{202e}cba\\u{2066}\\u{2069}\\u{200e}\\u{200f}\\u{61c}",
            ),
            ("pa\u{200b}u\u{feff}se\u{ad}\u{e0041}", "pa\\u{200b}u\\u{feff}se\\u{ad}\\u{e0041}"),
        ];
        for (text, expected) in table {
            let text = ForeignText::from(text);
            assert_eq!(text.to_string(), expected);
            assert_eq!(ForeignText::from(expected).to_string(), expected, "an escaped text is unchanged");
        }
    }

    #[test]
    fn a_text_is_bounded_after_it_is_escaped() {
        let x = |count| "x".repeat(count);
        assert_eq!(ForeignText::from(x(1024)).to_string(), x(1024));
        let text = ForeignText::from(x(300));
        assert_eq!(text.to_string(), x(300));
        assert_eq!(format!("{text:.128}"), format!("{} ...(206 characters omitted)... {}", x(47), x(47)));
        assert_eq!(text.raw(), x(300));
        for hostile in ["\u{1b}", "x", "e\u{301}", "\u{e0041}"] {
            let text = ForeignText::from(hostile.repeat(10_000));
            assert!(text.to_string().chars().count() <= MAX, "{text}");
            assert!(format!("{text:.128}").chars().count() <= 128, "{text:.128}");
        }
    }

    #[test]
    fn lines_are_escaped_one_by_one() {
        assert_eq!(escaped_lines("a\tb\n\u{1b}c\n"), "a b\n\\u{1b}c\n");
    }
}
