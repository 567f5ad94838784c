//! How the program is called, and the examples in its help.

use std::{borrow::Cow, env, ffi::OsStr, path::Path};

use clap::{Command, CommandFactory as _};

use super::Cli;

/// The name of the program as a plugin of kubectl.
const PLUGIN: &str = "kubectl-winpool";

/// Examples for the help of commands: a command and the arguments after its name.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("crds", &["", "--out crds"]),
    ("render", &["pools/", "pools/ --nodes nodes.yaml", "-f pools/ --kubernetes 1.34 --out rendered"]),
    ("status", &["", "web-2022 batch-2019 -o json", "web-2022 --watch", "--capacity"]),
    ("check", &["", "--wait 2m", "-o json"]),
    ("doctor", &["pool/web-2022", "pod/cart-0 -n shop -o json", "node/win-1 --node-logs --bundle win-1"]),
    ("plan", &["", "pools/ --context staging", "--pool web-2022", "--kubernetes 1.36"]),
    ("migrate", &["web-2022 --to ltsc2025", "web-2022 --to web-2025 --registry", "web-2022 --to ltsc2025 --plan"]),
    ("verify", &["web-2022", "web-2022 --dry-run", "web-2022 -n shop --timeout 15m -o junit"]),
    ("recommend", &["web-2022 --for 2h --save web.jsonl", "web-2022 --samples web.jsonl -o yaml"]),
    ("adopt", &["", "--out pools --pool-label team", "--nodes cluster.yaml -o json"]),
    ("cleanup", &["--dry-run", "--pool web-2022", "--yes"]),
    ("explain", &["", "WouldStrand", "NodesTainted/Contested", "host-network"]),
    (
        "completions",
        &["bash > /etc/bash_completion.d/winpool", "powershell", "--kubectl > /usr/local/bin/kubectl_complete-winpool"],
    ),
    ("man", &["--out /usr/local/share/man/man1"]),
];

/// What a person types before the arguments, by the name of the executable: kubectl runs `kubectl-winpool` for
/// `kubectl winpool`.
fn typed_name(executable: &OsStr) -> &'static str {
    match Path::new(executable).file_stem() {
        Some(stem) if stem == PLUGIN => "kubectl winpool",
        _ => "winpool",
    }
}

/// A text with its commands of winpool as this process is called: for a plugin of kubectl there need not be a `winpool` in the `PATH`.
pub(super) fn as_called(text: &str) -> Cow<'_, str> {
    match typed_name(env::args_os().next().as_deref().unwrap_or_default()) {
        "winpool" => text.into(),
        _ => with_kubectl(text).into(),
    }
}

/// The text with `kubectl` before each `winpool` that a command follows.
fn with_kubectl(text: &str) -> String {
    const NAME: &str = "winpool ";
    let cli = Cli::command();
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(NAME) {
        let (before, found) = rest.split_at(at);
        let word = found[NAME.len()..].split(|char: char| !char.is_ascii_alphanumeric() && char != '-').next();
        let is_word = !before.ends_with(|char: char| char.is_alphanumeric() || "-/=.".contains(char));
        let is_command = is_word && cli.get_subcommands().any(|command| Some(command.get_name()) == word);
        done.push_str(before);
        done.push_str(if is_command && !before.ends_with("kubectl ") { "kubectl " } else { "" });
        done.push_str(NAME);
        rest = &found[NAME.len()..];
    }
    done + rest
}

/// The command line of this process.
pub(super) fn command() -> Command {
    command_for(env::args_os().next().as_deref().unwrap_or_default())
}

/// The name of the executable, as shells complete it.
pub(super) fn executable() -> &'static str {
    match typed_name(env::args_os().next().as_deref().unwrap_or_default()) {
        "winpool" => "winpool",
        _ => PLUGIN,
    }
}

fn command_for(executable: &OsStr) -> Command {
    let name = typed_name(executable);
    let cli = Cli::command().bin_name(name);
    EXAMPLES.iter().fold(cli, |cli, (command, examples)| {
        cli.mut_subcommand(command, |command| {
            let of_command = command.get_name().to_owned();
            let lines: Vec<_> = examples
                .iter()
                .map(|example| format!("  {}", format!("{name} {of_command} {example}").trim_end()))
                .collect();
            let notes = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
            command.after_help(format!("{notes}Examples:\n{}", lines.join("\n")))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_a_plugin_of_kubectl_by_its_name() {
        let table = [
            ("winpool", "winpool"),
            ("/usr/local/bin/winpool", "winpool"),
            ("kubectl-winpool", "kubectl winpool"),
            ("/home/me/.krew/bin/kubectl-winpool.exe", "kubectl winpool"),
            ("", "winpool"),
        ];
        for (executable, expected) in table {
            assert_eq!(typed_name(OsStr::new(executable)), expected, "{executable}");
        }
    }

    #[test]
    fn commands_in_texts_are_those_of_the_plugin() {
        let table = [
            ("Run: winpool plan --pool web", "Run: kubectl winpool plan --pool web"),
            ("`winpool explain`; winpool adopt", "`kubectl winpool explain`; kubectl winpool adopt"),
            ("kubectl winpool plan", "kubectl winpool plan"),
            ("a profile of winpool renders it", "a profile of winpool renders it"),
            ("deployment/winpool status, name=winpool plan", "deployment/winpool status, name=winpool plan"),
            ("winpool: winpool ", "winpool: winpool "),
        ];
        for (text, expected) in table {
            assert_eq!(with_kubectl(text), expected);
        }
    }

    #[test]
    fn every_example_is_a_valid_command_line() {
        for (command, examples) in EXAMPLES {
            for example in *examples {
                let arguments = example.split(" > ").next().unwrap().split_whitespace();
                let line: Vec<_> = ["winpool", command].into_iter().chain(arguments).collect();
                let parsed = command_for(OsStr::new("winpool")).try_get_matches_from(&line);
                assert!(parsed.is_ok(), "{line:?}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn the_help_of_the_plugin_names_kubectl() {
        let mut cli = command_for(OsStr::new("kubectl-winpool"));
        cli.build();
        let help = cli.find_subcommand_mut("plan").unwrap().render_help().to_string();
        for expected in ["Usage: kubectl winpool plan ", "  kubectl winpool plan pools/ --context staging\n"] {
            assert!(help.contains(expected), "{help}");
        }
    }
}
