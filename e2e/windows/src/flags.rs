//! Command lines of Kubernetes programs: `--name=value`, `--name value` and `--name`.

use std::collections::BTreeMap;

/// The flags of a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    flags: BTreeMap<String, String>,
    /// The arguments that are neither a flag nor the value of one.
    pub commands: Vec<String>,
}

impl Flags {
    /// Parses arguments. The names in `switches` have no value.
    pub fn parse(arguments: impl IntoIterator<Item = String>, switches: &[&str]) -> Self {
        let mut flags = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let Some(flag) = argument.strip_prefix('-') else {
                flags.commands.push(argument);
                continue;
            };
            let flag = flag.trim_start_matches('-');
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None if switches.contains(&flag) => (flag, String::new()),
                None => (flag, arguments.next().unwrap_or_default()),
            };
            flags.flags.insert(name.to_owned(), value);
        }
        flags
    }

    /// The value of a flag, if it is set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.flags.get(name).map(String::as_str)
    }

    /// Whether a flag is set.
    pub fn has(&self, name: &str) -> bool {
        self.flags.contains_key(name)
    }
}
