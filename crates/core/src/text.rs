//! Parts of messages: counts, and lists of the first few names.

use std::{collections::BTreeSet, error::Error};

use derive_more::Display;

/// How many objects a message names.
const NAMED: usize = 5;

/// A number of things, such as `2 nodes`. The plural ends in `-s`.
#[derive(Clone, Copy, Debug, Display)]
#[display("{count} {what}{}", self.agree("", "s"))]
pub struct Counted<'a> {
    count: usize,
    what: &'a str,
}

pub fn counted(count: usize, what: &str) -> Counted<'_> {
    Counted { count, what }
}

impl Counted<'_> {
    /// The verb or pronoun that agrees with the number.
    pub fn agree(self, singular: &'static str, plural: &'static str) -> &'static str {
        agree(self.count, singular, plural)
    }
}

pub fn agree(count: usize, singular: &'static str, plural: &'static str) -> &'static str {
    if count == 1 { singular } else { plural }
}

/// A sentence about some nodes, from their number and the names of the first five; `None` without nodes.
pub fn about_nodes<T: AsRef<str>>(
    nodes: impl IntoIterator<Item = T>,
    sentence: impl FnOnce(Counted, &str) -> String,
) -> Option<String> {
    let nodes: Vec<T> = nodes.into_iter().collect();
    (!nodes.is_empty()).then(|| sentence(counted(nodes.len(), "node"), &some_of(&nodes)))
}

/// A text that begins with a capital letter.
pub fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// An error with its sources, each text once.
pub fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

/// At most five names, each once and in alphabetical order, and how many more there are.
pub fn some_of<T: AsRef<str>>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<T> = all.into_iter().collect();
    let mut names: Vec<&str> = all.iter().map(AsRef::as_ref).collect();
    names.sort_unstable();
    first_five(names, ", ")
}

/// At most five messages, each of one or more sentences, once and in their order, and how many more there are.
pub fn some_messages<T: AsRef<str>>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<T> = all.into_iter().collect();
    first_five(all.iter().map(AsRef::as_ref), ". ")
}

fn first_five<'t>(texts: impl IntoIterator<Item = &'t str>, separator: &str) -> String {
    let mut seen = BTreeSet::new();
    let different: Vec<&str> = texts.into_iter().filter(|text| seen.insert(*text)).collect();
    let first = &different[..different.len().min(NAMED)];
    match different.len().saturating_sub(NAMED) {
        0 => first.join(separator),
        more => format!("{} and {more} more", first.join(separator)),
    }
}

/// At most five of many, and how many more there are. Only these five are described.
pub fn some_of_many<T>(all: &[T], describe: impl Fn(&T) -> String) -> String {
    let first = all.iter().take(NAMED).map(describe).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The known name that a misspelled one probably stands for: at most a third of its letters differ, apart from case.
pub fn closest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let lower = name.to_lowercase();
    let distance = |known: &'n str| (strsim::damerau_levenshtein(&lower, &known.to_lowercase()), known);
    let (distance, known) = known.into_iter().map(distance).min()?;
    (distance <= known.chars().count() / 3).then_some(known)
}

/// Whether a name differs from a known one by at most this many letters.
pub fn misspelt<'n>(name: &str, known: impl IntoIterator<Item = &'n str>, most: usize) -> bool {
    known.into_iter().any(|known| strsim::damerau_levenshtein(name, known) <= most)
}

/// The beginning of a remedy for a value that resembles a known one, such as `did you mean web? Otherwise `; else empty.
pub fn did_you_mean<'n>(value: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    closest(value, known).map(|known| format!("did you mean {known}? Otherwise ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_at_most_five() {
        assert_eq!(some_of(["a", "b"]), "a, b");
        assert_eq!(some_of(["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
        assert_eq!(some_messages(["a: b, c", "d: e"]), "a: b, c. d: e");
        assert_eq!(some_of(["b", "c", "a", "c", "b", "c", "a"]), "a, b, c", "each once, in alphabetical order");
        assert_eq!(
            some_of((0..30).map(|number| format!("node-{}", number % 7))),
            "node-0, node-1, node-2, node-3, node-4 and 2 more"
        );
        assert_eq!(some_messages(["worst", "bad", "worst"]), "worst. bad", "each once, in the given order");
        assert_eq!(some_of_many(&[1, 2, 3, 4, 5, 6], u32::to_string), "1, 2, 3, 4, 5 and 1 more");
    }
    #[test]
    fn a_misspelled_name_stands_for_the_closest_one() {
        let known = ["effect", "hostProcess", "key", "operator", "runAsUserName"];
        let table = [
            ("Effect", Some("effect")),
            ("hostprocess", Some("hostProcess")),
            ("runAsUsername", Some("runAsUserName")),
            ("efect", Some("effect")),
            ("kye", Some("key")),
            ("value", None),
            ("", None),
        ];
        for (name, expected) in table {
            assert_eq!(closest(name, known), expected, "{name}");
        }
        assert_eq!(closest("a", []), None);
    }
}
