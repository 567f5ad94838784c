//! Text in PowerShell scripts.
//!
//! Source: PowerShell/PowerShell, `src/System.Management.Automation/engine/parser/CharTraits.cs` and `ScanStringLiteral`
//! in `tokenizer.cs`: a string in single quotes expands neither `$` nor backticks. It ends at one of `'` and U+2018 to
//! U+201B, unless two of them follow each other, which stand for the second.

use std::fmt::Write as _;

/// A PowerShell expression whose value is the text, for every text. It is valid as an argument of a command and in other
/// expressions, and has one line of printable ASCII characters.
///
/// Windows PowerShell 5.1 reads a script without a byte order mark in the code page of the system. There, one byte of a
/// character such as U+0451 is a quote (0x91 in code page 1252), which would end the string. All characters that are not
/// printable ASCII are therefore written as numbers.
///
/// Windows PowerShell 5.1 removes double quotes from the arguments of programs (not of functions and cmdlets). This is
/// not a part of the syntax of strings and is left to the caller.
pub fn quoted(text: &str) -> String {
    let mut parts = vec![String::from("'")];
    for character in text.chars() {
        match character {
            '\'' => literal(&mut parts).push_str("''"),
            ' '..='~' => literal(&mut parts).push(character),
            other => parts.push(number(other)),
        }
    }
    let is_one_literal = parts.len() == 1;
    parts.iter_mut().filter(|part| part.starts_with('\'')).for_each(|part| part.push('\''));
    let expression = parts.join(" + ");
    if is_one_literal { expression } else { format!("({expression})") }
}

/// The string literal at the end, without its last quote.
fn literal(parts: &mut Vec<String>) -> &mut String {
    if !parts.last().is_some_and(|last| last.starts_with('\'')) {
        parts.push("'".to_owned());
    }
    let last = parts.len().saturating_sub(1);
    &mut parts[last]
}

/// A character as an expression. Those beyond U+FFFF are two values of `[char]`, which is a UTF-16 code unit.
fn number(character: char) -> String {
    let mut text = String::new();
    for (index, unit) in character.encode_utf16(&mut [0; 2]).iter().enumerate() {
        // Writing to a String does not fail.
        let _ = write!(text, "{}[char]0x{unit:04X}", if index == 0 { "" } else { " + " });
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_without_special_characters_is_a_literal() {
        let table = [
            ("", "''"),
            ("windows", "'windows'"),
            (r"C:\k\kubelet.exe --v=2", r"'C:\k\kubelet.exe --v=2'"),
            ("$env:PATH $(Stop-Computer)", "'$env:PATH $(Stop-Computer)'"),
            ("a`nb", "'a`nb'"),
            ("say \"yes\"; exit # {0} | & @", "'say \"yes\"; exit # {0} | & @'"),
            ("--%", "'--%'"),
        ];
        for (text, expected) in table {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn a_quote_does_not_end_the_literal() {
        let table = [
            ("it's", "'it''s'"),
            ("'", "''''"),
            ("'; Stop-Computer; '", "'''; Stop-Computer; '''"),
            ("a\u{2018}b\u{2019}", "('a' + [char]0x2018 + 'b' + [char]0x2019)"),
            ("\u{201a}\u{201b}", "('' + [char]0x201A + [char]0x201B)"),
            ("\u{201c}\u{201d}", "('' + [char]0x201C + [char]0x201D)"),
        ];
        for (text, expected) in table {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn characters_that_depend_on_lines_or_the_code_page_are_numbers() {
        let table = [
            ("a\nb", "('a' + [char]0x000A + 'b')"),
            ("\r\n", "('' + [char]0x000D + [char]0x000A)"),
            ("\0\u{7f}\u{85}", "('' + [char]0x0000 + [char]0x007F + [char]0x0085)"),
            ("\u{2028}'", "('' + [char]0x2028 + '''')"),
            ("\u{451}", "('' + [char]0x0451)"),
            ("\u{1f600}x", "('' + [char]0xD83D + [char]0xDE00 + 'x')"),
        ];
        for (text, expected) in table {
            assert_eq!(quoted(text), expected);
        }
    }

    /// The value of an expression, as PowerShell computes it.
    fn value(expression: &str) -> Option<String> {
        let inner = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(expression);
        let (mut units, mut rest) = (Vec::new(), inner);
        loop {
            rest = if let Some(number) = rest.strip_prefix("[char]0x") {
                units.push(u16::from_str_radix(number.get(..4)?, 16).ok()?);
                &number[4..]
            } else {
                let mut characters = rest.strip_prefix('\'')?.chars();
                loop {
                    let character = characters.next()?;
                    if character == '\'' && !characters.as_str().starts_with('\'') {
                        break;
                    }
                    units.push(u16::try_from(u32::from(character)).ok()?);
                    if character == '\'' {
                        characters.next();
                    }
                }
                characters.as_str()
            };
            match rest.strip_prefix(" + ") {
                Some(next) => rest = next,
                None => return (rest.is_empty()).then(|| String::from_utf16(&units).ok()).flatten(),
            }
        }
    }

    proptest! {
        #[test]
        fn every_text_is_the_value_of_its_expression(
            text in prop_oneof![any::<String>(), "['\"`$\u{2018}-\u{201f}\r\n a()+]{0,12}"],
        ) {
            let expression = quoted(&text);
            prop_assert!(expression.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", expression);
            prop_assert_eq!(value(&expression), Some(text), "{}", expression);
        }
    }
}
