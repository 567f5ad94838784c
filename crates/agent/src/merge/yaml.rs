//! Merging settings into a YAML or JSON file: maps merge, lists and scalars are replaced, and null removes a setting.
//!
//! Only the text of the settings that differ changes. Other settings, comments, order, and line ends are kept. The
//! result is parsed again and compared with the merged values: the editor `yaml-edit` has another parser than
//! `serde-saphyr`. A file in which a setting cannot be replaced in place (an alias or merge key stands for it, or its key
//! has a tag) is written anew, with a comment about it.

mod render;

use std::str::FromStr;

use serde_json::{Map, Value};
use serde_saphyr::Error;
use yaml_edit::{Document, Mapping, MappingEntry, YamlFile, YamlNode};

use super::text::line_end;

/// The first line of a file that was written anew.
const REWRITTEN: &str = "# winpool merged its settings into this file. Its comments and order could not be kept.";

/// Merges settings into the text of a file. The text is unchanged if it already has them.
pub fn merge(text: &str, layer: &Map<String, Value>) -> Result<String, String> {
    let mut after = parse(text)?;
    merge_maps(&mut after, layer);
    set(text, &after)
}

/// The text of a file with exactly these settings. What does not differ keeps its notation.
pub fn set(text: &str, after: &Map<String, Value>) -> Result<String, String> {
    let before = parse(text)?;
    if *after == before {
        return Ok(text.to_owned());
    }
    let edited = edit(text, &before, after).filter(|edited| parse(edited).as_ref() == Ok(after));
    Ok(edited.unwrap_or_else(|| rewrite(text, after)))
}

/// The mapping of a YAML document; empty for an empty document.
pub fn parse(text: &str) -> Result<Map<String, Value>, String> {
    let value = serde_saphyr::from_str(text).map_err(|error| match error.without_snippet() {
        Error::MultipleDocuments { .. } => "the file has several YAML documents".to_owned(),
        _ => error.to_string(),
    })?;
    match value {
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
    // The editor ends some of the lines that it writes with "\n" only. A file with both line ends is edited as it is.
    let unix = text.replace("\r\n", "\n");
    if unix != text && unix.replace('\n', "\r\n") == text {
        return edit(&unix, before, after).map(|edited| edited.replace('\n', "\r\n"));
    }
    let file = YamlFile::from_str(text).ok()?;
    match file.document().and_then(|document| document.as_mapping()) {
        // Not as `{}`, in which later settings would be in flow notation.
        Some(root) if after.is_empty() && !root.is_flow_style() => {
            root.entries().collect::<Vec<_>>().into_iter().for_each(MappingEntry::discard);
        }
        Some(root) => set_entries(&root, before, after)?,
        None => {
            let line_end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            return Some(format!("{text}{line_end}{}\n", render::block(after, 0).join("\n")));
        }
    }
    Some(file.to_string())
}

/// Sets the entries of a mapping. The new ones come first, so that the comments around those that go do not move.
fn set_entries(mapping: &Mapping, before: &Map<String, Value>, after: &Map<String, Value>) -> Option<()> {
    let is_flow = mapping.is_flow_style();
    // The editor distinguishes `1` and `"1"`; in JSON both are the same name.
    let key = |name: &str| mapping.keys().find(|key| key.as_scalar().is_some_and(|key| key.as_string() == name));

    let new: Map<_, _> =
        after.iter().filter(|(name, _)| !before.contains_key(*name)).map(|(k, v)| (k.clone(), v.clone())).collect();
    if !new.is_empty() {
        let text = if is_flow { render::flow(&new.into()) } else { render::block(&new, 0).join("\n") };
        let mut last = mapping.keys().last();
        for (key, value) in &Document::from_str(&text).ok()?.as_mapping()? {
            match last {
                // Before the comments at the end of the file.
                Some(last) => drop(mapping.insert_after(last, &key, value)),
                None => mapping.set(&key, value),
            }
            last = Some(key);
        }
    }

    for (name, old) in before {
        match (old, after.get(name)) {
            (_, None) => {}
            (old, Some(new)) if old == new => {}
            (Value::Object(old), Some(Value::Object(new))) if !new.is_empty() => {
                set_entries(&mapping.get_mapping(key(name)?)?, old, new)?;
            }
            (_, Some(new)) => mapping.set(key(name)?, Document::from_str(&render::flow(new)).ok()?),
        }
    }

    let removed = before.keys().filter(|name| !after.contains_key(*name)).map(|name| key(name));
    let removed: Vec<YamlNode> = removed.collect::<Option<_>>()?;
    if is_flow && !removed.is_empty() {
        // Without the last entry, the closing bracket would move to the end of the line before.
        mapping.reorder_fields(&removed);
    }
    for key in removed {
        mapping.remove(key)?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
