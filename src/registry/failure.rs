//! Why a registry did not say what an image is for.

use std::fmt;

use tokio::time::Instant;

/// The most letters that go into a status, where people read them.
const LONGEST: usize = 400;

/// Words for people, with nothing in them that a server wrote freely: what it sent may repeat a secret that it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    words: String,
    /// When it is of use to ask again; at once, if it does not say.
    pub(super) until: Option<Instant>,
}

impl Failure {
    pub(super) fn new(words: impl fmt::Display) -> Self {
        let words: String = words.to_string().chars().filter(|letter| !letter.is_control()).take(LONGEST).collect();
        Self { words, until: None }
    }

    pub(super) fn until(mut self, until: Instant) -> Self {
        self.until = Some(until);
        self
    }

    /// One of several, each of which would have been enough: the first that is of use to ask again decides when.
    pub(super) fn of_all(failures: &[Self]) -> Self {
        let words: Vec<&str> = failures.iter().map(|failure| failure.words.as_str()).collect();
        let until = failures.iter().map(|failure| failure.until).min().flatten();
        Self { until, ..Self::new(words.join("; ")) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}
