//! Merging settings into a YAML or JSON file: maps merge, lists and scalars are replaced, and null removes a setting.
//!
//! Only the text of the settings that differ changes. Other settings, comments, order, and line ends are kept. The
//! result is parsed again and compared with the merged values. A file in which a setting cannot be replaced in place
//! (an anchor, alias, tag or merge key at a setting that differs) is written anew, with a comment about it.
//!
//! The positions are those of `granit-parser`, on which `serde-saphyr` is based, so that what is edited is what is
//! read. The crate `yaml-edit` (0.3.6) keeps comments too, with a parser of its own. It loses the CRLF of some files, and
//! most files of a Windows node have CRLF.

mod document;
mod render;

use serde_json::{Map, Value};

use self::document::{Entry, Kind, Node};
use super::text::line_end;

/// The first line of a file that was written anew.
const REWRITTEN: &str = "# winpool merged its settings into this file. Its comments and order could not be kept.";

/// Merges settings into the text of a file. The text is unchanged if it already has them.
///
/// # Errors
/// The file is not a single YAML document with a mapping.
pub fn merge(text: &str, layer: &Map<String, Value>) -> Result<String, String> {
    let mut after = parse(text)?;
    merge_maps(&mut after, layer);
    set(text, &after)
}

/// The text of a file with exactly these settings. What does not differ keeps its notation.
///
/// # Errors
/// The file is not a single YAML document with a mapping.
pub fn set(text: &str, after: &Map<String, Value>) -> Result<String, String> {
    let before = parse(text)?;
    if *after == before {
        return Ok(text.to_owned());
    }
    let edited = edit(text, &before, after).filter(|edited| parse(edited).as_ref() == Ok(after));
    Ok(edited.unwrap_or_else(|| rewrite(text, after)))
}

/// The mapping of a YAML document; empty for an empty document.
///
/// # Errors
/// The text is not valid YAML, has several documents, or is not a mapping.
pub fn parse(text: &str) -> Result<Map<String, Value>, String> {
    if document::documents(text)? == 0 {
        return Ok(Map::new());
    }
    match serde_saphyr::from_str(text).map_err(|error| error.to_string())? {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err("the file is not a mapping".to_owned()),
    }
}

/// Merges maps recursively. Null removes an entry, and other values are replaced.
pub fn merge_maps(map: &mut Map<String, Value>, layer: &Map<String, Value>) {
    for (name, value) in layer {
        match (map.get_mut(name), value) {
            (Some(Value::Object(inner)), Value::Object(layer)) => merge_maps(inner, layer),
            (_, Value::Null) => drop(map.remove(name)),
            (_, value) => drop(map.insert(name.clone(), without_nulls(value))),
        }
    }
}

/// The value that a layer sets where there was no map: null in its maps removes nothing there.
pub fn without_nulls(value: &Value) -> Value {
    let Value::Object(layer) = value else { return value.clone() };
    let mut map = Map::new();
    merge_maps(&mut map, layer);
    Value::Object(map)
}

/// The whole file in the notation that it had.
fn rewrite(text: &str, map: &Map<String, Value>) -> String {
    let lines = if text.trim_start().starts_with('{') {
        vec![render::flow(&Value::Object(map.clone()))]
    } else {
        std::iter::once(REWRITTEN.to_owned()).chain(render::block(map, 0)).collect()
    };
    lines.iter().flat_map(|line| [line, line_end(text)]).collect()
}

/// The text with the settings replaced in place; `None` if that is not possible.
fn edit(text: &str, before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    let mut editor = Editor { text, end: line_end(text), edits: Vec::new() };
    match document::root(text)? {
        Some(root) => editor.set(&root, before, after)?,
        None => editor.append(text.len(), &render::block(after, 0)),
    }
    Some(editor.finish())
}

/// Replacements of byte ranges of a text, which do not overlap.
struct Editor<'a> {
    text: &'a str,
    end: &'static str,
    edits: Vec<(usize, usize, String)>,
}

impl Editor<'_> {
    /// Sets the entries of a mapping. The changes of its entries come before its new entries.
    fn set(&mut self, node: &Node, before: &Map<String, Value>, after: &Map<String, Value>) -> Option<()> {
        let entries = node.entries()?;
        if entries.iter().any(|entry| entry.key == "<<") {
            return None;
        }
        for entry in entries {
            match (before.get(&entry.key)?, after.get(&entry.key)) {
                (_, None) => {}
                (old, Some(new)) if old == new => {}
                (Value::Object(old), Some(Value::Object(new))) if !new.is_empty() => match entry.value.kind {
                    Kind::Mapping(_) => self.set(&entry.value, old, new)?,
                    _ => return None,
                },
                (_, Some(new)) => self.replace(entry, new, node.flow)?,
            }
        }
        let is_kept = |entry: &&Entry| after.contains_key(&entry.key);
        match node.flow {
            true => self.remove_from_flow(node, entries, after),
            false => entries.iter().filter(|entry| !is_kept(entry)).try_for_each(|entry| self.remove(entry))?,
        }
        let new: Map<_, _> =
            after.iter().filter(|(name, _)| !before.contains_key(*name)).map(|(k, v)| (k.clone(), v.clone())).collect();
        let kept: Vec<&Entry> = entries.iter().filter(is_kept).collect();
        match (new.is_empty(), node.flow) {
            (true, _) => Some(()),
            (false, true) => self.add_to_flow(node, &kept, &new),
            (false, false) => self.add(entries, &new),
        }
    }

    /// Removes the lines of an entry in block notation.
    fn remove(&mut self, entry: &Entry) -> Option<()> {
        let start = self.text.get(..entry.key_start)?.rfind('\n').map_or(0, |at| at + 1);
        let is_first = self.text.get(start..entry.key_start)?.chars().all(|c| c == ' ');
        let end = self.end_of(entry)?;
        is_first.then(|| self.edits.push((start, self.after_line(end), String::new())))
    }

    /// Removes entries in flow notation, with the commas between them and the entries that are kept.
    fn remove_from_flow(&mut self, node: &Node, entries: &[Entry], after: &Map<String, Value>) {
        let mut kept_end = None;
        let mut at = 0;
        while let Some(entry) = entries.get(at) {
            if after.contains_key(&entry.key) {
                kept_end = Some(entry.value.end);
                at += 1;
                continue;
            }
            let run = entries[at..].iter().take_while(|entry| !after.contains_key(&entry.key)).count();
            let last = &entries[at + run - 1];
            let (start, end) = match (kept_end, entries.get(at + run)) {
                (Some(start), _) => (start, last.value.end),
                (None, Some(next)) => (entry.key_start, next.key_start),
                (None, None) => (node.start + 1, node.end.saturating_sub(1)),
            };
            self.edits.push((start, end, String::new()));
            at += run;
        }
    }

    /// The byte after an entry.
    fn end_of(&self, entry: &Entry) -> Option<usize> {
        let Entry { value, key_end, .. } = entry;
        if value.end > value.start { Some(value.end) } else { self.colon(*key_end) }
    }

    fn replace(&mut self, entry: &Entry, value: &Value, in_flow: bool) -> Option<()> {
        let Entry { value: node, key_end, .. } = entry;
        let value = render::flow(value);
        if !node.plain {
            return None;
        }
        if node.end > node.start && (in_flow || !self.text.get(*key_end..node.start)?.contains('\n')) {
            self.edits.push((node.start, node.end, value));
            return Some(());
        }
        // A value that is not written, or begins on a later line: the new one follows the colon.
        let colon = self.colon(*key_end)?;
        let rest = self.text.get(colon..)?;
        let indicator = colon + rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if node.end > node.start && self.text.get(indicator..)?.starts_with(['|', '>']) {
            self.edits.push((indicator, node.end, value));
            return Some(());
        }
        self.edits.push((colon, colon, format!(" {value}")));
        if node.end > node.start {
            let start = self.text.get(..node.start)?.rfind('\n')? + 1;
            self.edits.push((start, self.after_line(node.end), String::new()));
        }
        Some(())
    }

    /// The byte after the colon that follows a key.
    fn colon(&self, key_end: usize) -> Option<usize> {
        let rest = self.text.get(key_end..)?;
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        rest.get(blanks..)?.starts_with(':').then_some(key_end + blanks + 1)
    }

    /// Adds entries at the end of a mapping in block notation.
    fn add(&mut self, entries: &[Entry], new: &Map<String, Value>) -> Option<()> {
        let first = entries.first()?.key_start;
        let line = self.text.get(..first)?.rfind('\n').map_or(0, |at| at + 1);
        let indent = self.text.get(line..first)?;
        let end = self.end_of(entries.last()?)?;
        let is_blank = indent.chars().all(|c| c == ' ');
        is_blank.then(|| self.append(end, &render::block(new, indent.len())))
    }

    fn add_to_flow(&mut self, node: &Node, entries: &[&Entry], new: &Map<String, Value>) -> Option<()> {
        let (at, separator) = match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => {
                let before = self.text.get(..first.key_start)?;
                let blanks = &before[before.trim_end_matches([' ', '\t', '\r', '\n']).len()..];
                let separator = if blanks.contains('\n') { format!(",{blanks}") } else { ", ".to_owned() };
                (self.end_of(last)?, separator)
            }
            _ => (node.start + 1, String::new()),
        };
        let entries: Vec<_> = new.iter().map(|(name, value)| render::flow_entry(name, value)).collect();
        let joined = entries.join(if separator.is_empty() { ", " } else { &separator });
        self.edits.push((at, at, format!("{separator}{joined}")));
        Some(())
    }

    /// Adds lines after the line with a byte.
    fn append(&mut self, after: usize, lines: &[String]) {
        let at = self.after_line(after);
        let is_open = at > 0 && !self.text[..at].ends_with('\n');
        let line = |line: &String| if is_open { [self.end, line].concat() } else { [line, self.end].concat() };
        self.edits.push((at, at, lines.iter().map(line).collect()));
    }

    /// The byte after the line that ends at or after a byte.
    fn after_line(&self, at: usize) -> usize {
        if self.text[..at].ends_with('\n') {
            return at;
        }
        self.text[at..].find('\n').map_or(self.text.len(), |end| at + end + 1)
    }

    /// The edited text. Additions at the same place are in the order in which they were made.
    fn finish(mut self) -> String {
        self.edits.sort_by_key(|(start, ..)| *start);
        let mut result = String::with_capacity(self.text.len());
        let mut at = 0;
        for (start, end, new) in &self.edits {
            result += self.text.get(at..*start).unwrap_or_default();
            result += new;
            at = at.max(*end);
        }
        result + self.text.get(at..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
