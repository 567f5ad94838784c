//! The address of the repository: its owner is set in `Cargo.toml` alone, and the files that show it follow from there.

use anyhow::{Context, Result};

pub const ADDRESS: &str = env!("CARGO_PKG_REPOSITORY");
/// The files that show the address, besides those that follow from them.
pub(crate) const SHOWN_IN: [&str; 9] = [
    ".github/ISSUE_TEMPLATE/config.yml",
    "RELEASING.md",
    "SECURITY-INSIGHTS.yml",
    "config/prometheus/rules.yaml",
    "docs/first-run.md",
    "docs/install.md",
    "docs/lint.md",
    "docs/signatures.md",
    "e2e/prometheus/alerts_test.yaml",
];

/// What is before the owner in an address, in a step of a workflow, and in a command of `gh`.
const BEFORE: [&str; 3] = ["https://github.com/", "uses: ", "--repo "];
/// What follows the owner.
const NAME: &str = "/winpool";

/// The owner in [`ADDRESS`].
pub fn owner() -> Result<&'static str> {
    let owner = ADDRESS.strip_prefix(BEFORE[0]).and_then(|rest| rest.strip_suffix(NAME));
    owner.with_context(|| format!("Cargo.toml: the repository {ADDRESS} is not {}OWNER{NAME}", BEFORE[0]))
}

/// The text with this owner wherever it shows the address.
pub fn with_owner(text: &str, owner: &str) -> String {
    let replaced = |text: String, before: &&str| {
        let mut parts = text.split(before);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |done, part| match part.split_once('/') {
            Some((found, _)) if is_owner(found) && part[found.len()..].starts_with(NAME) => {
                format!("{done}{before}{owner}{}", &part[found.len()..])
            }
            _ => format!("{done}{before}{part}"),
        })
    };
    BEFORE.iter().fold(text.to_owned(), replaced)
}

fn is_owner(text: &str) -> bool {
    text.chars().all(|one| one.is_ascii_alphanumeric() || one == '-')
}
