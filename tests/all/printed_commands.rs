//! Every command of winpool that a text, a message or a page contains.

use std::{fs, path::Path};

use clap::{CommandFactory, error::ErrorKind};
use walkdir::WalkDir;
use winpool::Cli;

/// The commands in a text: what follows a backtick or a quotation mark, up to the next one, or the end of the line or of the example.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    let starts = ["`winpool ", "`kubectl winpool ", "Run: winpool ", "\"winpool "];
    let found = starts.into_iter().flat_map(|start| text.match_indices(start));
    let found = found.map(|(at, start)| {
        let rest = &text[at + start.len()..];
        (start, rest.split(['`', '"', '\n', '\\', '|', '>', '#', ';', '(']).next().unwrap_or_default())
    });
    // A string may be a sentence about winpool.
    found.filter(|(start, command)| !start.starts_with('"') || is_subcommand(command)).map(|(_, command)| command)
}

fn is_subcommand(command: &str) -> bool {
    let word = command.split_whitespace().next().unwrap_or_default();
    Cli::command().get_subcommands().any(|known| known.get_name() == word)
}

/// What prevents that a command is run: an argument, a value or a subcommand that does not exist. Names are filled in where it is printed.
fn problem(command: &str) -> Option<String> {
    let words = command.split_whitespace().filter(|word| *word != "…");
    let words: Vec<_> = words.map(|word| word.trim_end_matches([',', ':', '.'])).collect();
    let is_command = words.first().is_some_and(|word| word.starts_with(|char: char| char.is_ascii_lowercase()));
    let error =
        Cli::command().try_get_matches_from(["winpool"].into_iter().chain(words)).err().filter(|_| is_command)?;
    let is_incomplete = [ErrorKind::MissingRequiredArgument, ErrorKind::DisplayHelp, ErrorKind::DisplayVersion];
    let text = error.to_string();
    // An option is named without its value.
    let is_incomplete = is_incomplete.contains(&error.kind()) || text.contains("but none was supplied");
    (!is_incomplete).then(|| text.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn every_command_that_is_printed_exists_with_its_arguments() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src", "crates", "docs", "config", "charts", "README.md", "install.yaml"];
    let files = folders.iter().flat_map(|folder| WalkDir::new(root.join(folder)).into_iter().filter_map(Result::ok));
    let (mut count, mut problems) = (0, Vec::new());
    for file in files.filter(|file| !file.path().components().any(|part| part.as_os_str() == "tests")) {
        let Ok(text) = fs::read_to_string(file.path()) else { continue };
        for command in commands(&text) {
            count += 1;
            problems.extend(problem(command).map(|why| format!("{}: winpool {command}: {why}", file.path().display())));
        }
    }
    assert!(count > 100 && problems.is_empty(), "{count} commands\n{}", problems.join("\n"));
}

#[test]
fn a_command_that_does_not_exist_is_a_problem() {
    for (command, works) in [
        ("plan --pool {pool}", true),
        ("doctor", true),
        ("doctor --from", true),
        ("doctor node/NODE --node-logs", true),
        ("plan --pol web", false),
        ("stats", false),
        ("plan -o xml", false),
    ] {
        assert_eq!(problem(command).is_none(), works, "{command}");
    }
}
