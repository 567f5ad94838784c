//! What the rows of every table of findings have in common: codes of lint, reasons of conditions, symptoms and known issues.

/// A finding as people read of it. `winpool_check::catalogue` lists all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its stable name.
    pub code: &'static str,
    /// The problem, or the state, without a period.
    pub title: &'static str,
    /// Why it matters, or its cause; empty if the title says it.
    pub why: &'static str,
    /// What to do, without a period; empty if nothing helps.
    pub remedy: &'static str,
    /// The page or thread that it follows from; empty if it follows from winpool itself.
    pub source: &'static str,
}
