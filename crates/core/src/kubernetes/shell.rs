//! Text in commands and scripts for the POSIX shell.
//!
//! Source: POSIX.1-2017, Shell Command Language, 2.2.2: single quotes preserve every character but the single quote.

/// A word whose value is the text, for every text without U+0000, which no argument can contain.
pub fn shell_quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\0', "").replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_word_has_the_value_of_its_text() {
        let table = [
            ("os=windows:NoSchedule", "os=windows:NoSchedule"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$HOME `id` \"x\"", "'$HOME `id` \"x\"'"),
            ("a\nb;rm -r", "'a\nb;rm -r'"),
            ("memory.available<5%", "'memory.available<5%'"),
            ("\u{2019}é~", "'\u{2019}é~'"),
            ("a\\b!", "'a\\b!'"),
            ("#", "'#'"),
        ];
        for (text, expected) in table {
            assert_eq!(shell_quoted(text), expected);
        }
    }

    proptest! {
        #[test]
        fn outside_of_quotes_there_is_only_an_escaped_quote(text in "[^\0]*") {
            let word = shell_quoted(&text);
            if let Some(inner) = word.strip_prefix('\'') {
                let inner = inner.strip_suffix('\'').unwrap();
                prop_assert_eq!(inner.replace(r"'\''", ""), text.replace('\'', ""));
                prop_assert_eq!(inner.matches('\'').count(), 3 * text.matches('\'').count());
            } else {
                prop_assert_eq!(word, text);
            }
        }
    }
}
