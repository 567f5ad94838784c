//! Flags of the kubelet in a list of arguments: the command line of a service, or `kubeadm-flags.env`.
//!
//! The kubelet reads `--name=value` and `--name value`, also with `_` for `-`, and of several flags of the same name
//! the last one (kubernetes/component-base, `cli/flag/flags.go`; spf13/pflag). A name of one letter can have a single
//! dash.

use std::fmt;

use super::super::layout::command_line::{Argument, arguments, quote};

/// A flag with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagValue {
    /// The name without dashes.
    pub name: String,
    pub value: String,
}

impl fmt::Display for FlagValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}={}", self.name, self.value)
    }
}

/// The value that a flag has in a list of arguments.
pub fn value(arguments: &[Argument], name: &str) -> Option<String> {
    find(arguments, name).map(|(_, _, value)| value)
}

/// The text with a flag set. A flag of the same name is replaced in place; all other bytes are kept. The arguments begin
/// at byte `from`.
pub fn set(mut text: String, from: usize, flag: &FlagValue) -> String {
    let list = arguments(&text, from);
    let new = flag.to_string();
    match find(&list, &flag.name) {
        Some((_, _, value)) if value == flag.value => {}
        Some((first, last, _)) => text.replace_range(list[first].range.start..list[last].range.end, &quote(&new)),
        None => {
            let end = text.trim_end_matches([' ', '\t']).len().max(from);
            let separator = if end > from || from > 0 { " " } else { "" };
            text.insert_str(end, &format!("{separator}{}", quote(&new)));
        }
    }
    text
}

/// The text without the flags of a name. All other bytes are kept. The arguments begin at byte `from`.
pub fn remove(text: &str, from: usize, name: &str) -> String {
    let mut text = text.to_owned();
    while let Some((first, last)) = find(&arguments(&text, from), name).map(|(first, last, _)| (first, last)) {
        let list = arguments(&text, from);
        // The blanks before the flag go with it.
        let start = text[..list[first].range.start].trim_end_matches([' ', '\t']).len().max(from);
        text.replace_range(start..list[last].range.end, "");
    }
    text
}

/// The last flag of a name: its first and last argument, and its value.
fn find(arguments: &[Argument], name: &str) -> Option<(usize, usize, String)> {
    let found = arguments.iter().enumerate().rev().find_map(|(index, argument)| {
        let flag = flag_text(&argument.value)?;
        let (written, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        (written.replace('_', "-") == name).then(|| (index, value.map(str::to_owned)))
    })?;
    Some(match found {
        (index, Some(value)) => (index, index, value),
        (index, None) => match arguments.get(index + 1).filter(|next| flag_text(&next.value).is_none()) {
            Some(next) => (index, index + 1, next.value.clone()),
            None => (index, index, String::new()),
        },
    })
}

fn flag_text(argument: &str) -> Option<&str> {
    if let Some(long) = argument.strip_prefix("--") {
        return Some(long).filter(|long| !long.is_empty());
    }
    let short = argument.strip_prefix('-')?;
    let is_short =
        short.starts_with(|c: char| c.is_ascii_alphabetic()) && matches!(short.chars().nth(1), None | Some('='));
    is_short.then_some(short)
}

/// The bytes of the arguments in `kubeadm-flags.env`, without quotes (`KUBELET_KUBEADM_ARGS="…"`;
/// kubernetes/kubernetes, `cmd/kubeadm/app/phases/kubelet/flags.go`). `None` if there is no such line.
pub fn environment_file(text: &str) -> Option<std::ops::Range<usize>> {
    const VARIABLE: &str = "KUBELET_KUBEADM_ARGS=";
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if let Some(value) = line.strip_prefix(VARIABLE) {
            let trimmed = value.trim_end();
            let inner = trimmed.strip_prefix('"').and_then(|inner| inner.strip_suffix('"'));
            let from = start + VARIABLE.len() + usize::from(inner.is_some());
            return Some(from..from + inner.unwrap_or(trimmed).len());
        }
        start += line.len();
    }
    None
}

/// The flags of `kubelet.args`, one per line. Empty lines and comments are skipped.
/// The error is the first line that is not `--name=value`.
pub fn parse(text: &str) -> Result<Vec<FlagValue>, String> {
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.strip_prefix("--").and_then(|flag| flag.split_once('=')).ok_or(line)?;
            Ok(FlagValue { name: name.to_owned(), value: value.to_owned() })
        })
        .collect::<Result<_, &str>>()
        .map_err(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{super::super::layout::command_line::split, *};

    fn flags(text: &str) -> Vec<FlagValue> {
        parse(text).unwrap()
    }

    #[test]
    fn the_last_flag_of_a_name_counts_in_each_notation() {
        let table = [
            ("k --v=2", "v", Some("2")),
            ("k -v=2", "v", Some("2")),
            ("k -v 3 --x", "v", Some("3")),
            ("k --v=2 --v 4", "v", Some("4")),
            (r#"k --config "C:\a b\c.yaml""#, "config", Some(r"C:\a b\c.yaml")),
            ("k --config_dir=x", "config-dir", Some("x")),
            ("k --resolv-conf=\"\"", "resolv-conf", Some("")),
            ("k --windows-service --x=1", "windows-service", Some("")),
            ("k --verbose=1 v=2 -verbose", "v", None),
        ];
        for (line, name, expected) in table {
            assert_eq!(value(&split(line), name).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn flags_are_set_and_other_arguments_keep_their_bytes() {
        let table = [
            (r#""C:\k k\kubelet.exe"  --a="" --v=2"#, "--v=4", r#""C:\k k\kubelet.exe"  --a="" --v=4"#),
            ("k.exe --v 2 --b", "--v=4", "k.exe --v=4 --b"),
            ("k.exe --b ", "--v=4", "k.exe --b --v=4 "),
            ("k.exe", "--v=4\n--w=x y", r#"k.exe --v=4 "--w=x y""#),
            (r#"k.exe --resolv-conf="""#, "--resolv-conf=", r#"k.exe --resolv-conf="""#),
            ("k.exe --v=1 --v=2", "--v=3", "k.exe --v=1 --v=3"),
        ];
        for (line, new, expected) in table {
            let from = split(line)[0].range.end;
            let set_all = |text: &str| flags(new).iter().fold(text.to_owned(), |text, flag| set(text, from, flag));
            let once = set_all(line);
            assert_eq!(once, expected);
            assert_eq!(set_all(&once), once, "setting again changes nothing");
        }
    }

    #[test]
    fn the_flags_of_kubeadm_are_between_its_quotes() {
        let table = [
            ("KUBELET_KUBEADM_ARGS=\"--a=1 --v=2\"\n", Some("--a=1 --v=2")),
            ("KUBELET_KUBEADM_ARGS=\"\"\r\n", Some("")),
            ("# x\nKUBELET_KUBEADM_ARGS=--a=1", Some("--a=1")),
            ("OTHER=1\n", None),
        ];
        for (text, expected) in table {
            assert_eq!(environment_file(text).map(|range| &text[range]), expected, "{text}");
        }
    }

    #[test]
    fn all_flags_of_a_name_are_removed() {
        let table = [
            ("k.exe --a=\"\" --max-pods=20 --b", "k.exe --a=\"\" --b"),
            ("k.exe --max-pods 20  --b --max_pods=30", "k.exe  --b"),
            ("k.exe --b", "k.exe --b"),
            ("k.exe --max-pods=\"1 2\"", "k.exe"),
        ];
        for (line, expected) in table {
            assert_eq!(remove(line, split(line)[0].range.end, "max-pods"), expected);
        }
    }

    #[test]
    fn a_line_that_is_not_a_flag_with_a_value_is_an_error() {
        assert_eq!(flags("# c\n\n--a=\r\n--b=x=y\n").len(), 2);
        for line in ["-v=2", "--windows-service", "v=2"] {
            assert_eq!(parse(line), Err(line.to_owned()));
        }
    }
}
