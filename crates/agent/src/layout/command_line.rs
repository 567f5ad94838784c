//! Command lines of Windows services: splitting into arguments, and quoting.
//!
//! The rules are those of CommandLineToArgvW (Microsoft, "Parsing C++ command-line arguments"), which Go's
//! `commandLineToArgv` (`os/exec_windows.go`) also applies: `2n` backslashes before a quote are `n` backslashes, `2n +
//! 1` are `n` backslashes and a quote, and `""` between quotes is a quote that also ends the quotes. The name of the
//! program has no backslash escapes.

use std::{borrow::Cow, ops::Range};

/// An argument, and its place in the command line, with its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub value: String,
    pub range: Range<usize>,
}

/// All arguments of a command line. The first one is the program.
pub fn split(line: &str) -> Vec<Argument> {
    let program = program(line);
    let rest = arguments(line, program.range.end);
    std::iter::once(program).chain(rest).collect()
}

/// The program of a service's command line. A path with spaces does not need quotes, because Windows tries each prefix.
fn program(line: &str) -> Argument {
    let start = line.len() - line.trim_start_matches(is_blank).len();
    let text = &line[start..];
    if let Some(quoted) = text.strip_prefix('"') {
        let end = quoted.find('"').unwrap_or(quoted.len());
        let after = (start + 1 + end + 1).min(line.len());
        return Argument { value: quoted[..end].to_owned(), range: start..after };
    }
    let first = text.find(is_blank).unwrap_or(text.len());
    let end = unquoted_program(text).filter(|end| *end > first).unwrap_or(first);
    Argument { value: text[..end].to_owned(), range: start..start + end }
}

/// The end of a path without quotes that may contain spaces: after the first `.exe` before a blank, unless there is a
/// flag or a quote before it.
fn unquoted_program(text: &str) -> Option<usize> {
    const EXTENSION: &str = ".exe";
    let lower = text.to_ascii_lowercase();
    let ends = lower.match_indices(EXTENSION).map(|(at, _)| at + EXTENSION.len());
    let end = ends.into_iter().find(|end| text[*end..].chars().next().is_none_or(is_blank))?;
    let path = &text[..end];
    (!path.contains('"') && !path.contains(" -") && !path.contains(" /")).then_some(end)
}

/// The arguments from a byte of a command line on, none of which is the program.
pub fn arguments(line: &str, from: usize) -> Vec<Argument> {
    let mut found = Vec::new();
    let mut at = from;
    while let Some(blank) = line[at..].find(|c| !is_blank(c)) {
        let start = at + blank;
        let (value, end) = argument(line, start);
        found.push(Argument { value, range: start..end });
        at = end;
    }
    found
}

/// The argument that begins at a byte, and the byte after it.
fn argument(line: &str, start: usize) -> (String, usize) {
    let mut value = String::new();
    let mut backslashes = 0;
    let mut quoted = false;
    let mut characters = line[start..].char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        if c == '\\' {
            backslashes += 1;
            continue;
        }
        if c == '"' {
            value.extend(std::iter::repeat_n('\\', backslashes / 2));
            if backslashes % 2 == 1 {
                value.push('"');
            } else {
                if quoted && characters.next_if(|(_, next)| *next == '"').is_some() {
                    value.push('"');
                }
                quoted = !quoted;
            }
            backslashes = 0;
            continue;
        }
        value.extend(std::iter::repeat_n('\\', std::mem::take(&mut backslashes)));
        if is_blank(c) && !quoted {
            return (value, start + at);
        }
        value.push(c);
    }
    value.extend(std::iter::repeat_n('\\', backslashes));
    (value, line.len())
}

/// The argument in the notation of a command line.
pub fn quote(argument: &str) -> Cow<'_, str> {
    if !argument.is_empty() && !argument.contains(|c| is_blank(c) || c == '"') {
        return argument.into();
    }
    let mut text = "\"".to_owned();
    let mut backslashes = 0;
    for c in argument.chars() {
        match c {
            '\\' => backslashes += 1,
            '"' => {
                text.extend(std::iter::repeat_n('\\', backslashes + 1));
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        text.push(c);
    }
    text.extend(std::iter::repeat_n('\\', backslashes));
    text.push('"');
    text.into()
}

fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

/// The name of a file without its directory, in lower case.
pub fn file_name(path: &str) -> String {
    path.rsplit(['\\', '/']).next().unwrap_or(path).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(line: &str) -> Vec<String> {
        split(line).into_iter().map(|argument| argument.value).collect()
    }

    #[test]
    fn a_command_line_is_split_as_by_windows() {
        let table: &[(&str, &[&str])] = &[
            (r"C:\k\kubelet.exe --v=2", &[r"C:\k\kubelet.exe", "--v=2"]),
            (r#""C:\Program Files\k\kubelet.exe" --v=2"#, &[r"C:\Program Files\k\kubelet.exe", "--v=2"]),
            (
                r"C:\Program Files\containerd\containerd.exe --run-service",
                &[r"C:\Program Files\containerd\containerd.exe", "--run-service"],
            ),
            (
                r#""C:\k\kube-log-runner.exe" --log-file=C:/l C:\k\kubelet.exe --resolv-conf="""#,
                &[r"C:\k\kube-log-runner.exe", "--log-file=C:/l", r"C:\k\kubelet.exe", "--resolv-conf="],
            ),
            ("a  \t b", &["a", "b"]),
            (r#"a "b c" d"#, &["a", "b c", "d"]),
            (r#"a b\\\"c"#, &["a", r#"b\"c"#]),
            (r#"a "b\\" c"#, &["a", r"b\", "c"]),
            (r"a b\c \\server\d", &["a", r"b\c", r"\\server\d"]),
            (r#"a "b""c" d"#, &["a", r#"b"c d"#]),
            (r#"a "" b"#, &["a", "", "b"]),
            (r#"a --config="C:\Österreich Süd\config.yaml""#, &["a", r"--config=C:\Österreich Süd\config.yaml"]),
            (r#""C:\k\" x"#, &[r"C:\k\", "x"]),
            ("", &[""]),
        ];
        for (line, expected) in table {
            assert_eq!(values(line), *expected, "{line}");
        }
    }

    #[test]
    fn the_range_of_an_argument_includes_its_quotes() {
        let line = r#""C:\a b\k.exe"  --x="1 2" y"#;
        let ranges: Vec<&str> = split(line).into_iter().map(|argument| &line[argument.range]).collect();
        assert_eq!(ranges, [r#""C:\a b\k.exe""#, r#"--x="1 2""#, "y"]);
    }

    #[test]
    fn only_arguments_that_need_it_are_quoted() {
        let table = [
            ("--v=2", "--v=2"),
            ("--resolv-conf=", "--resolv-conf="),
            ("", r#""""#),
            (r"C:\a\", r"C:\a\"),
            (r"C:\a b\", r#""C:\a b\\""#),
            (r#"say "x""#, r#""say \"x\"""#),
        ];
        for (argument, expected) in table {
            assert_eq!(quote(argument), expected);
        }
    }

    proptest! {
        #[test]
        fn a_quoted_argument_is_read_back(all in prop::collection::vec("[a-zä\"\\\\ \t=-]{0,12}", 1..5)) {
            let line = all.iter().map(|argument| quote(argument)).collect::<Vec<_>>().join(" ");
            let read: Vec<_> = arguments(&line, 0).into_iter().map(|argument| argument.value).collect();
            prop_assert_eq!(read, all);
        }
    }
}
