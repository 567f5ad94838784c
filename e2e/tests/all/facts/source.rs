//! Files of pinned modules, what they say by the names of rows, and how that differs from a table.

use std::{collections::BTreeMap, fs, ops::Range};

use anyhow::{Context, Result};
use e2e::modules::Module;
use regex::{Captures, Regex};

/// A file of a module, or a part of one.
pub struct Source {
    name: String,
    text: String,
    part: Range<usize>,
}

/// What upstream says, by the name of the row: the value, and the file with the line.
pub type Upstream = BTreeMap<String, (String, String)>;
/// What a table says, by the name of the row.
pub type Table = BTreeMap<String, String>;

impl Source {
    pub fn read(module: Module, path: &str) -> Result<Self> {
        let downloaded = module.download()?;
        let name = format!("{}@{}/{path}", module.path, downloaded.version);
        let text = fs::read_to_string(downloaded.dir.join(path)).with_context(|| name.clone())?;
        Ok(Self { part: 0..text.len(), name, text })
    }

    /// The text between the first `begin`, which it includes, and the next `end`.
    pub fn part(&self, begin: &str, end: &str) -> Result<Self> {
        let text = self.text();
        let start = text.find(begin).with_context(|| format!("no {begin:?} in {}", self.name))?;
        let after = start + begin.len();
        let length = text[after..].find(end).with_context(|| format!("no {end:?} after {begin:?} in {}", self.name))?;
        let offset = self.part.start;
        Ok(Self { name: self.name.clone(), text: self.text.clone(), part: offset + start..offset + after + length })
    }

    pub fn text(&self) -> &str {
        &self.text[self.part.clone()]
    }

    /// The file, with the line of an offset in [`Self::text`].
    pub fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.name, self.text[..self.part.start + offset].matches('\n').count() + 1)
    }

    /// A row for each match of a pattern for which `row` has a name and a value. `^` is the begin of a line. The
    /// last group says where the row is.
    pub fn rows(&self, pattern: &str, row: impl Fn(&Captures<'_>) -> Option<(String, String)>) -> Result<Upstream> {
        let pattern = Regex::new(&format!("(?m){pattern}"))?;
        let found = pattern.captures_iter(self.text()).filter_map(|captures| {
            let (name, value) = row(&captures)?;
            let last = captures.iter().flatten().last()?;
            Some((name, (value, self.place(last.start()))))
        });
        Ok(found.collect())
    }

    /// As [`Self::rows`], with the first group as name and the second one, if there is one, as value.
    pub fn pairs(&self, pattern: &str) -> Result<Upstream> {
        let text = |captures: &Captures<'_>, group| captures.get(group).map_or("", |found| found.as_str()).to_owned();
        self.rows(pattern, |captures| Some((text(captures, 1), text(captures, 2))))
    }

    /// The constants with a string, by their names.
    pub fn constants(&self) -> Result<BTreeMap<String, String>> {
        let found = self.pairs(r#"^\s*(?:const )?(\w+)(?: [\w.]+)?\s*= (?:[\w.]+\()?"([^"]*)"\)?(?:\s*//.*)?$"#)?;
        Ok(found.into_iter().map(|(name, (value, _))| (name, value)).collect())
    }
}

/// The rows of a table that have no value.
pub fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> Table {
    names.into_iter().map(|name| (name.to_owned(), String::new())).collect()
}

/// How a table differs.
pub fn differences(upstream: &Upstream, table: &Table) -> Vec<String> {
    let said = |value: &str| if value.is_empty() { "it".to_owned() } else { value.to_owned() };
    let new = upstream.iter().filter_map(|(name, (value, place))| match table.get(name) {
        None => Some(format!("{name}: no row; {place} has {}", said(value))),
        Some(own) if own != value => Some(format!("{name}: the row has {own}; {place} has {}", said(value))),
        Some(_) => None,
    });
    let gone = table.keys().filter(|name| !upstream.contains_key(*name));
    new.chain(gone.map(|name| format!("{name}: upstream does not have this row"))).collect()
}
