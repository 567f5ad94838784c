//! Which settings of containerd are written. The check of a profile and the node agent apply the same rule, each to its column of
//! the table.

use toml::{Table, Value};
use winpool_core::kubernetes::{duration, syntax::http_address_problem};
use winpool_facts::{
    containerd_settings::{ANY, ContainerdSetting, ENDPOINT, SettingType},
    kubelet_fields::Agent,
    pause::REPOSITORIES,
};

use super::paths::is_windows_path;
use crate::allowances::Destination;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingWriter {
    /// `spec.containerd.extraConfig` of a profile.
    ExtraConfig,
    /// The node agent, with a rendered file.
    Agent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwrittenSetting {
    /// The keys, outermost first, in the notation of TOML.
    pub key: String,
    /// Why, as the continuation of a sentence that begins with the key.
    pub wrong: String,
    pub remedy: String,
}

/// The settings of a file that a writer may not set, or that have another value than they may have.
pub fn unwritten(file: &Table, rows: &'static [ContainerdSetting], writer: SettingWriter) -> Vec<UnwrittenSetting> {
    entries(file, rows).filter_map(|entry| entry.problem(writer)).collect()
}

/// The hosts from which containerd pulls images because of a file, with the keys that name them. The default pause images are those of
/// the kubelet's publishers and name no host.
pub fn destinations(file: &Table, rows: &'static [ContainerdSetting]) -> Vec<(String, Destination)> {
    entries(file, rows)
        .flat_map(|entry| {
            let key = notation(&entry.path);
            entry.destinations().into_iter().map(move |to| (key.clone(), to))
        })
        .collect()
}

/// The paths on the node that a file names, with their keys.
pub fn local_paths(file: &Table, rows: &'static [ContainerdSetting]) -> Vec<(String, String)> {
    entries(file, rows)
        .filter(|entry| entry.row.is_some_and(|row| row.value == SettingType::LocalPath))
        .filter_map(|entry| Some((notation(&entry.path), entry.value.as_str()?.to_owned())))
        .collect()
}

/// The directories that a file names and a node must have as its own, with their keys.
pub fn node_directories(file: &Table, rows: &'static [ContainerdSetting]) -> Vec<(Vec<String>, Vec<String>)> {
    let is_directory =
        |row: &ContainerdSetting| matches!(row.value, SettingType::NodeDirectory | SettingType::NodeDirectories);
    let directories = entries(file, rows).filter(|entry| entry.row.is_some_and(is_directory));
    let owned = |path: Vec<&str>| path.into_iter().map(str::to_owned).collect();
    directories.map(|Entry { path, value, .. }| (owned(path), texts(value))).collect()
}

/// A value of a file that is not a table with listed settings.
struct Entry<'a> {
    path: Vec<&'a str>,
    value: &'a Value,
    row: Option<&'static ContainerdSetting>,
}

/// Every entry that is a setting, or in no table that has one.
fn entries<'a>(file: &'a Table, rows: &'static [ContainerdSetting]) -> impl Iterator<Item = Entry<'a>> {
    let mut found = Vec::new();
    collect(file, rows, &mut Vec::new(), &mut found);
    found.into_iter()
}

fn collect<'a>(
    table: &'a Table,
    rows: &'static [ContainerdSetting],
    path: &mut Vec<&'a str>,
    found: &mut Vec<Entry<'a>>,
) {
    for (name, value) in table {
        path.push(name);
        let is_table = matches!(value, Value::Table(_)) || is_list_of_tables(value);
        let is_known = rows.iter().any(|row| row.tables.iter().any(|table| has_prefix(table, row.key, path)));
        if is_table && is_known {
            for inner in tables(value) {
                collect(inner, rows, path, found);
            }
        } else {
            let is_row = |row: &&ContainerdSetting| row.tables.iter().any(|table| is_path(table, row.key, path));
            found.push(Entry { path: path.clone(), value, row: rows.iter().find(is_row) });
        }
        path.pop();
    }
}

fn is_list_of_tables(value: &Value) -> bool {
    value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_table))
}

fn tables(value: &Value) -> impl Iterator<Item = &Table> {
    let list = value.as_array().into_iter().flatten().filter_map(Value::as_table);
    value.as_table().into_iter().chain(list)
}

/// Whether a path of keys is a table on the way to a setting.
fn has_prefix(table: &[&str], key: &[&str], path: &[&str]) -> bool {
    let all = table.len() + key.len();
    path.len() < all && path.iter().zip(table.iter().chain(key)).all(|(name, part)| is_part(part, name))
}

fn is_path(table: &[&str], key: &[&str], path: &[&str]) -> bool {
    path.len() == table.len() + key.len()
        && path.iter().zip(table.iter().chain(key)).all(|(name, part)| is_part(part, name))
}

fn is_part(part: &str, name: &str) -> bool {
    match part {
        ANY => true,
        ENDPOINT => http_address_problem(name).is_none(),
        part => part == name,
    }
}

impl Entry<'_> {
    fn destinations(&self) -> Vec<Destination> {
        match (self.row.map(|row| row.value), &self.path[..]) {
            (Some(SettingType::Endpoint | SettingType::Endpoints), _) => {
                texts(self.value).iter().map(|address| Destination::of_address(address)).collect()
            }
            (Some(SettingType::Image), _) => {
                texts(self.value).iter().filter_map(|image| image_destination(image)).collect()
            }
            (Some(SettingType::Bool), [.., host, "tls", "insecure_skip_verify"])
                if self.value.as_bool() == Some(true) =>
            {
                vec![Destination::of_host(host).unverified()]
            }
            _ => Vec::new(),
        }
    }

    fn problem(&self, writer: SettingWriter) -> Option<UnwrittenSetting> {
        let Some(row) = self.row else {
            return Some(self.unwritten("is not a setting that winpool writes on Windows", "remove it"));
        };
        match (writer, row.field, row.agent) {
            (SettingWriter::ExtraConfig, Some(field), _) => {
                return Some(self.unwritten("is set by winpool", format!("remove it, and set {field}")));
            }
            (SettingWriter::Agent, _, Agent::Refuses) => {
                return Some(self.unwritten("is a setting that the agent does not write", "remove it"));
            }
            _ => {}
        }
        let expected = expected(row.value, self.value)?;
        Some(self.unwritten(format!("is {}, and must be {expected}", self.value), format!("write {expected}")))
    }

    fn unwritten(&self, wrong: impl Into<String>, remedy: impl Into<String>) -> UnwrittenSetting {
        UnwrittenSetting { key: notation(&self.path), wrong: wrong.into(), remedy: remedy.into() }
    }
}

/// What a value must be, if it is not.
fn expected(setting: SettingType, value: &Value) -> Option<String> {
    let text = value.as_str();
    let is_list = |is_item: &dyn Fn(&str) -> bool| {
        value.as_array().is_some_and(|list| list.iter().all(|item| item.as_str().is_some_and(is_item)))
    };
    let (is_valid, expected) = match setting {
        SettingType::Bool => (value.is_bool(), "true or false".to_owned()),
        SettingType::Integer => (value.is_integer(), "an integer".to_owned()),
        SettingType::Number => (value.is_integer() || value.is_float(), "a number".to_owned()),
        SettingType::Duration => {
            (text.is_some_and(|text| duration::parse(text).is_some()), "a duration such as 1m30s".to_owned())
        }
        SettingType::Name => (text.is_some_and(is_name), "a name".to_owned()),
        SettingType::Names => (is_list(&is_name), "a list of names".to_owned()),
        SettingType::OneOf(texts) => (text.is_some_and(|text| texts.contains(&text)), one_of(texts)),
        SettingType::ListOf(texts) => {
            (is_list(&|text| texts.contains(&text)), format!("a list with {}", one_of(texts)))
        }
        SettingType::Image => {
            (text.is_some_and(|text| consists_of(text, "._-/:@")), "the reference of an image".to_owned())
        }
        SettingType::Endpoint => (text.is_some_and(is_endpoint), ADDRESS.to_owned()),
        SettingType::Endpoints => (is_list(&is_endpoint), format!("a list with {ADDRESS}")),
        SettingType::LocalPath => (text.is_some_and(is_windows_path), PATH.to_owned()),
        SettingType::NodeDirectory => (text.is_some_and(is_directory), PATH.to_owned()),
        SettingType::NodeDirectories => (is_list(&is_directory), format!("a list with {PATH}")),
    };
    (!is_valid).then_some(expected)
}

const ADDRESS: &str = "the address of a server without credentials, such as https://mirror.example";
const PATH: &str = r"a path with its drive, such as D:\containerd, and no network path";

fn one_of(texts: &[&str]) -> String {
    texts.iter().map(|text| format!("'{text}'")).collect::<Vec<_>>().join(" or ")
}

fn is_directory(text: &str) -> bool {
    text.is_empty() || is_windows_path(text)
}

fn is_endpoint(text: &str) -> bool {
    http_address_problem(text).is_none()
}

/// Neither a path that Windows would follow, nor empty.
fn is_name(text: &str) -> bool {
    consists_of(text, "._-/")
}

fn consists_of(text: &str, others: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// The registry of a pause image that the publishers of the kubelet do not publish.
pub fn image_destination(reference: &str) -> Option<Destination> {
    let name = reference.split('@').next().unwrap_or_default();
    let repository =
        name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).map_or(name, |(repository, _)| repository);
    (!REPOSITORIES.contains(&repository)).then(|| Destination::of_image(reference))
}

/// A path of keys in the notation of TOML.
fn notation(path: &[&str]) -> String {
    let is_bare =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let parts = path.iter().map(|name| if is_bare(name) { (*name).to_owned() } else { format!("'{name}'") });
    parts.collect::<Vec<_>>().join(".")
}

/// A string, or the strings of a list.
fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    value.as_str().into_iter().chain(list.filter_map(Value::as_str)).map(str::to_owned).collect()
}
