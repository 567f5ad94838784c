//! Collects changes of files and services. What does not differ is no change.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};
use toml::Table;

use super::record::{self, Component, Format, Merged, Record, Whole};
use crate::{
    change_plan::{ChangePlan, FileEdit, Refusal, Restart, ServiceEdit},
    content::FileContent,
    host::{Host, ServiceDefinition},
    merge::{text::Text, toml as toml_file, yaml},
    refuse::{read, unreadable},
};

/// The file with what the agent has changed. It is part of each plan, so that a rollback restores it too.
pub const RECORD: &str = r"C:\Program Files\winpool\delivered.json";

/// The changes of a plan.
pub(super) struct Changes<'a> {
    pub host: &'a dyn Host,
    pub services: Vec<ServiceDefinition>,
    pub components: BTreeSet<Component>,
    /// What earlier configurations changed.
    pub old: Record,
    pub new: Record,
    files: Vec<FileEdit>,
    edits: Vec<ServiceEdit>,
}

/// A file with settings as it would be without the agent.
pub(super) struct Undone {
    pub text: Text,
    pub settings: Map<String, Value>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(host: &'a dyn Host, services: Vec<ServiceDefinition>) -> Result<Self, Refusal> {
        let old = match read(host, RECORD)? {
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| unreadable(RECORD, error))?,
            None => Record::default(),
        };
        let (components, new, files, edits) = (BTreeSet::new(), Record::default(), Vec::new(), Vec::new());
        Ok(Self { host, services, components, old, new, files, edits })
    }

    /// Writes a whole file. `None`: it is read without a restart.
    pub(super) fn write(&mut self, path: &str, after: Vec<u8>, component: Option<Component>) -> Result<(), Refusal> {
        self.record_whole(path, component)?;
        self.edit(path, Some(after), component)
    }

    /// Records the content that a file had before the agent wrote it.
    pub(super) fn record_whole(&mut self, path: &str, component: Option<Component>) -> Result<(), Refusal> {
        let before = match self.old.whole.get(path) {
            Some(whole) => whole.before.clone(),
            None => read(self.host, path)?,
        };
        self.new.whole.insert(path.to_owned(), Whole { component, before });
        Ok(())
    }

    /// Changes a file. Its former content is not recorded.
    pub(super) fn edit(
        &mut self,
        path: &str,
        after: Option<Vec<u8>>,
        component: Option<Component>,
    ) -> Result<(), Refusal> {
        let before = read(self.host, path)?;
        if before != after {
            self.files.push(FileEdit { path: path.to_owned(), before, after });
            self.components.extend(component);
        }
        Ok(())
    }

    /// A file with settings without those of earlier configurations. `None` if there was none.
    pub(super) fn undone(&self, path: &str, format: Format) -> Result<Option<Undone>, Refusal> {
        let bytes = match self.old.whole.get(path) {
            Some(whole) => whole.before.clone(),
            None => read(self.host, path)?,
        };
        let Some(bytes) = bytes else { return Ok(None) };
        let Some(merged) = self.old.merged.get(path) else { return read_settings(path, &bytes, format).map(Some) };
        if merged.after.0 == bytes {
            return read_settings(path, &merged.before.0, format).map(Some);
        }
        // Something else has changed the file.
        let mut current = read_settings(path, &bytes, format)?;
        record::undo(&mut current.settings, &merged.settings);
        Ok(Some(current))
    }

    pub(super) fn merge(
        &mut self,
        path: &str,
        component: Component,
        format: Format,
        layer: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        let Some(file) = self.undone(path, format)? else {
            return Err(unreadable(path, "the file does not exist"));
        };
        let settings = record::settings(&file.settings, layer);
        let after = changed(path, &file, format, |map| yaml::merge_maps(map, layer))?;
        if !settings.is_empty() {
            let before = FileContent(changed(path, &file, format, |_| ())?);
            let merged = Merged { component, format, before, after: FileContent(after.clone()), settings };
            self.new.merged.insert(path.to_owned(), merged);
        }
        self.edit(path, Some(after), Some(component))
    }

    /// The content of a file after the changes; `None` if it does not exist.
    pub(super) fn text(&self, path: &str) -> Result<Option<Text>, Refusal> {
        let edited = self.files.iter().find(|edit| edit.path.eq_ignore_ascii_case(path));
        let bytes = match edited {
            Some(edit) => edit.after.clone(),
            None => read(self.host, path)?,
        };
        let decoded = bytes.map(|bytes| Text::decode(&bytes).map_err(|error| unreadable(path, error)));
        decoded.transpose()
    }

    pub(super) fn define(&mut self, name: &str, component: Component, change: impl FnOnce(&mut ServiceDefinition)) {
        let Some(before) = self.services.iter().find(|service| service.name.eq_ignore_ascii_case(name)) else { return };
        let mut after = self.service(name).unwrap_or(before).clone();
        change(&mut after);
        if after == *before {
            return;
        }
        let edit = ServiceEdit { before: before.clone(), after };
        self.edits.retain(|edit| !edit.after.name.eq_ignore_ascii_case(name));
        self.edits.push(edit);
        self.components.insert(component);
    }

    /// The definition of a service after the changes.
    pub(super) fn service(&self, name: &str) -> Option<&ServiceDefinition> {
        let edited = self.edits.iter().map(|edit| &edit.after);
        edited.chain(&self.services).find(|service| service.name.eq_ignore_ascii_case(name))
    }

    /// Restores the files that earlier configurations changed and this one does not.
    pub(super) fn restore_others(&mut self) -> Result<(), Refusal> {
        let old = self.old.clone();
        for (path, Whole { component, before }) in old.whole {
            if !self.new.whole.contains_key(&path) {
                self.edit(&path, before, component)?;
            }
        }
        for (path, Merged { component, format, .. }) in old.merged {
            let is_changed = self.files.iter().any(|edit| edit.path == path);
            if !is_changed && !self.new.merged.contains_key(&path) && self.undone(&path, format)?.is_some() {
                self.merge(&path, component, format, &Map::new())?;
            }
        }
        Ok(())
    }

    /// The plan, with the record of its changes.
    pub(super) fn finish(mut self, restarts: Vec<Restart>) -> Result<ChangePlan, Refusal> {
        let record = (self.new != Record::default()).then(|| serde_json::to_vec_pretty(&self.new));
        self.edit(RECORD, record.transpose().map_err(|error| unreadable(RECORD, error))?, None)?;
        Ok(ChangePlan { files: self.files, services: self.edits, restarts, ..ChangePlan::default() })
    }
}

fn read_settings(path: &str, bytes: &[u8], format: Format) -> Result<Undone, Refusal> {
    let text = Text::decode(bytes).map_err(|error| unreadable(path, error))?;
    let settings = parse(&text.content, format).map_err(|error| unreadable(path, error))?;
    Ok(Undone { text, settings })
}

/// The content of a file with changed settings.
fn changed(
    path: &str,
    file: &Undone,
    format: Format,
    change: impl FnOnce(&mut Map<String, Value>),
) -> Result<Vec<u8>, Refusal> {
    let mut settings = file.settings.clone();
    change(&mut settings);
    let edited = set(&file.text.content, format, settings).map_err(|error| unreadable(path, error))?;
    Ok(file.text.encode(&edited))
}

fn parse(text: &str, format: Format) -> Result<Map<String, Value>, String> {
    match format {
        Format::Yaml => yaml::parse(text),
        Format::Toml => map(&toml_file::parse(text)?),
    }
}

fn set(text: &str, format: Format, after: Map<String, Value>) -> Result<String, String> {
    match format {
        Format::Yaml => yaml::set(text, &after),
        Format::Toml => toml_file::set(text, &table(after)?),
    }
}

/// The values of a TOML table as JSON.
pub(super) fn map(table: &Table) -> Result<Map<String, Value>, String> {
    match serde_json::to_value(table) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err("the file is not a table".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The values of a JSON object as TOML.
pub(super) fn table(map: Map<String, Value>) -> Result<Table, String> {
    Table::deserialize(Value::Object(map)).map_err(|error| error.to_string())
}
