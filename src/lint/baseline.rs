//! The baseline: findings that are known and not counted, so that only new ones fail.
//!
//! A finding is identified by file, object, field and code, not by its line, which other changes move.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use winpool_check::lint::{LintReport, LocatedFinding};

use super::path::relative;
use crate::CommandError;

const VERSION: u64 = 1;

#[derive(Debug)]
pub struct Baseline {
    path: PathBuf,
    current: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u64,
    findings: Vec<Entry>,
}

/// A finding, and how often it occurs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Relative to the directory of the baseline.
    file: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    object: String,
    code: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    path: String,
    #[serde(default = "once", skip_serializing_if = "is_once")]
    count: usize,
}

const fn once() -> usize {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
const fn is_once(count: &usize) -> bool {
    *count == 1
}

/// File, object, code and path.
type Key = (String, String, String, String);

impl Baseline {
    /// The baseline in a file. Paths are relative to the working directory `current`.
    pub fn new(path: PathBuf, current: &Path) -> Self {
        Self { path, current: current.to_owned() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the known findings from a report, and adds how many there are and which ones no longer exist.
    pub fn apply(&self, report: &mut LintReport) -> Result<(), CommandError> {
        let mut known = self.read()?;
        let mut remaining = Vec::new();
        for found in std::mem::take(&mut report.findings) {
            match known.get_mut(&self.key(&found)).filter(|count| **count > 0) {
                Some(count) => {
                    *count -= 1;
                    report.in_baseline += 1;
                }
                None => remaining.push(found),
            }
        }
        report.findings = remaining;
        let checked: BTreeSet<_> = report.files.iter().map(|file| self.relative(file)).collect();
        // A run may check only some of the files.
        let is_checked = |file: &String| checked.contains(file) || !self.directory().join(file).exists();
        let gone = known.into_iter().filter(|((file, ..), count)| *count > 0 && is_checked(file));
        report.gone = gone.map(|((file, object, code, path), _)| title(&file, &object, &code, &path)).collect();
        Ok(())
    }

    /// Writes the findings of a report as the known ones, and returns how many there are.
    pub fn write(&self, report: &LintReport) -> Result<usize, CommandError> {
        let mut counts: BTreeMap<Key, usize> = BTreeMap::new();
        for found in &report.findings {
            *counts.entry(self.key(found)).or_default() += 1;
        }
        let entry = |((file, object, code, path), count)| Entry { file, object, code, path, count };
        let document = Document { version: VERSION, findings: counts.into_iter().map(entry).collect() };
        // Strings and numbers can always be serialized.
        let text = serde_json::to_string_pretty(&document).unwrap_or_default() + "\n";
        fs::write(&self.path, text).map_err(|error| self.failure(&format!("cannot be written: {error}")))?;
        Ok(report.findings.len())
    }

    /// How often each finding is known.
    fn read(&self) -> Result<BTreeMap<Key, usize>, CommandError> {
        let text = fs::read_to_string(&self.path)
            .map_err(|error| self.failure(&format!("cannot be read: {error}. Write it with --write-baseline")))?;
        let not_a_baseline = |error: serde_json::Error| {
            self.failure(&format!("is not a baseline: {error}. Write it with --write-baseline"))
        };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(not_a_baseline)?;
        let version = &value["version"];
        if !version.is_null() && *version != VERSION {
            let wrong = format!(
                "has version {version}, and this winpool reads version {VERSION}. Write it again with --write-baseline, or use \
                 the winpool that wrote it"
            );
            return Err(self.failure(&wrong));
        }
        let document: Document = serde_json::from_value(value).map_err(not_a_baseline)?;
        let mut counts = BTreeMap::new();
        for Entry { file, object, code, path, count } in document.findings {
            *counts.entry((file, object, code, path)).or_default() += count;
        }
        Ok(counts)
    }

    fn key(&self, found: &LocatedFinding) -> Key {
        let LocatedFinding { file, finding, object, .. } = found;
        (self.relative(file), object.clone(), finding.code.name().to_owned(), finding.path.clone())
    }

    fn relative(&self, file: &str) -> String {
        relative(file, self.directory(), &self.current)
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    fn failure(&self, wrong: &str) -> CommandError {
        CommandError::Usage(format!("baseline {}: {wrong}", self.path.display()))
    }
}

/// A known finding in one line.
fn title(file: &str, object: &str, code: &str, path: &str) -> String {
    let parts = [file, code, object, path].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}
