//! The words that complete a command line.

use clap::{Arg, Command};
use winpool_check::catalogue::{self, Vocabulary};

/// The names of values that are pools, and what is before the name of one.
const POOLS: &[(&str, &str)] = &[("POOL", ""), ("KIND/NAME", "pool/")];
/// The kinds before the names of other objects.
const KINDS: &[(&str, &[&str])] = &[("KIND/NAME", &["node/", "pod/"])];

/// What may be the next word.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    pub words: Vec<String>,
    /// What is before the name of a pool, if it may be one.
    pub pools: Option<&'static str>,
}

/// What may follow these words, if this much of it is typed.
pub fn of(command: &Command, before: &[String], typed: &str) -> Candidates {
    let (mut command, mut positional, mut option) = (command, 0, None);
    for word in before {
        match (option.take(), command.find_subcommand(word)) {
            (Some(_), _) => {}
            (None, _) if word.starts_with('-') => option = option_of(command, word),
            (None, Some(found)) => (command, positional) = (found, 0),
            (None, None) => positional += 1,
        }
    }
    if let Some(option) = option {
        return values(option);
    }
    if typed.starts_with('-') {
        let longs = command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?)));
        return Candidates { words: longs.chain(["--help".to_owned()]).collect(), pools: None };
    }
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let mut candidates = Candidates { words: commands.map(|one| one.get_name().to_owned()).collect(), pools: None };
    let repeated = || command.get_positionals().last().filter(|arg| arg.get_action().takes_values());
    if let Some(arg) = command.get_positionals().nth(positional).or_else(repeated) {
        let Candidates { words, pools } = values(arg);
        candidates.words.extend(words);
        candidates.pools = pools;
    }
    candidates
}

/// The option that takes the next word as its value.
fn option_of<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let is_named = |arg: &&Arg| {
        word.strip_prefix("--").is_some_and(|long| arg.get_long() == Some(long))
            || word.strip_prefix('-').is_some_and(|short| arg.get_short().is_some_and(|of| short == of.to_string()))
    };
    command.get_arguments().find(is_named).filter(|arg| arg.get_action().takes_values())
}

fn values(arg: &Arg) -> Candidates {
    let names = arg.get_value_names().unwrap_or_default();
    let is_named = |known: &str| names.iter().any(|name| name.as_str() == known);
    let values = arg.get_possible_values();
    let codes = catalogue::all().filter(|listed| match arg.get_id().as_str() {
        "code" => true,
        "ignore" => listed.vocabulary == Vocabulary::LintCode,
        _ => false,
    });
    let kinds = KINDS.iter().filter(|(name, _)| is_named(name)).flat_map(|(_, kinds)| *kinds);
    let words = values.iter().map(|value| value.get_name()).chain(kinds.copied());
    let words = words.map(str::to_owned).chain(codes.map(|listed| listed.name)).collect();
    let pools = POOLS.iter().find(|(name, _)| is_named(name)).map(|(_, before)| *before);
    Candidates { words, pools }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program;

    #[test]
    fn a_word_is_a_command_an_option_a_value_or_a_pool() {
        let table: [(&[&str], &str, &[&str], Option<&str>); 11] = [
            (&[], "", &["status", "plan", "explain"], None),
            (&["status"], "", &[], Some("")),
            (&["status", "web"], "b", &[], Some("")),
            (&["status", "-o"], "", &["text", "json"], None),
            (&["status", "--watch"], "", &[], Some("")),
            (&["doctor"], "", &["node/", "pod/"], Some("pool/")),
            (&["plan", "--pool"], "", &[], Some("")),
            (&["plan", "--pool", "web"], "--", &["--pool", "--context", "--help"], None),
            (&["completions"], "", &["bash", "fish"], None),
            (&["explain"], "", &["image-latest", "NodesTainted/Contested", "mtu", "CVE-2023-3676"], None),
            (&["lint", "--ignore"], "", &["image-latest"], None),
        ];
        let mut command = program::command();
        command.build();
        for (before, typed, expected, pools) in table {
            let before: Vec<_> = before.iter().map(|&word| word.to_owned()).collect();
            let found = of(&command, &before, typed);
            assert_eq!(found.pools, pools, "{before:?}");
            assert!(expected.iter().all(|word| found.words.iter().any(|known| known == word)), "{before:?}: {found:?}");
            assert!(!found.words.iter().any(|word| word == "__complete"), "{found:?}");
        }
    }
}
