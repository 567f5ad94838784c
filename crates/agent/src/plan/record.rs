//! What the agent has changed on a node, and what was there before: a setting that a newer configuration does not have
//! gets its former value again. A value that something else has changed since then is kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    content::{self, FileContent},
    merge::yaml,
};

/// What a change belongs to, and what it therefore restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Component {
    /// containerd, and with it the kubelet.
    Containerd,
    Kubelet,
    KubeProxy,
}

/// The changes of a node, by file and service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Record {
    pub whole: BTreeMap<String, Whole>,
    pub merged: BTreeMap<String, Merged>,
    pub flags: Vec<Named>,
    pub environment: BTreeMap<String, Vec<Named>>,
}

/// A file that the agent writes as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Whole {
    /// What reads the file when it starts.
    pub component: Option<Component>,
    /// The former content; `None` if there was no file.
    #[serde(with = "content")]
    pub before: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Format {
    Yaml,
    Toml,
}

/// The settings that the agent merges into a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Merged {
    pub component: Component,
    pub format: Format,
    pub before: FileContent,
    /// The content with the settings.
    #[serde(default)]
    pub after: FileContent,
    pub settings: Vec<Setting>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Setting {
    /// The keys, outermost first.
    pub path: Vec<String>,
    pub before: Option<Value>,
    /// The value that was set; null if the setting was removed.
    pub set: Value,
}

/// A flag or variable that was changed; `None` is one that does not exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Named {
    pub name: String,
    pub before: Option<String>,
    pub set: Option<String>,
}

/// Restores the former values of settings that still have the value that was set.
pub(super) fn undo(map: &mut Map<String, Value>, settings: &[Setting]) {
    for Setting { path, before, set } in settings {
        let is_set =
            |(parent, last): &(&mut Map<String, Value>, &str)| parent.get(*last).unwrap_or(&Value::Null) == set;
        let Some((parent, last)) = parent(map, path).filter(is_set) else { continue };
        match before {
            Some(before) => drop(parent.insert(last.to_owned(), before.clone())),
            None => drop(parent.remove(last)),
        }
    }
}

/// The map with the last key of a path, and that key.
fn parent<'a, 'b>(
    map: &'a mut Map<String, Value>,
    path: &'b [String],
) -> Option<(&'a mut Map<String, Value>, &'b str)> {
    let (last, parents) = path.split_last()?;
    let parent = parents.iter().try_fold(map, |map, key| map.get_mut(key)?.as_object_mut())?;
    Some((parent, last))
}

/// The settings of a layer that differ from those of a file.
pub(super) fn settings(map: &Map<String, Value>, layer: &Map<String, Value>) -> Vec<Setting> {
    let mut found = Vec::new();
    collect(map, layer, &mut Vec::new(), &mut found);
    found
}

fn collect(map: &Map<String, Value>, layer: &Map<String, Value>, path: &mut Vec<String>, found: &mut Vec<Setting>) {
    for (name, value) in layer {
        path.push(name.clone());
        match (map.get(name), value) {
            (Some(Value::Object(map)), Value::Object(layer)) => collect(map, layer, path, found),
            (None, Value::Null) => {}
            (before, value) if before == Some(value) && !value.is_null() => {}
            (before, value) => {
                found.push(Setting { path: path.clone(), before: before.cloned(), set: yaml::without_nulls(value) });
            }
        }
        path.pop();
    }
}

/// The desired values of flags or variables, and what to record: those of the configuration (`new`), and the former
/// values of those that were changed before.
pub(super) fn named(
    current: impl Fn(&str) -> Option<String>,
    old: &[Named],
    new: &[(String, Option<String>)],
) -> (Vec<(String, Option<String>)>, Vec<Named>) {
    let original = |name: &str| {
        let changed = old.iter().find(|old| old.name == name && old.set == current(name));
        changed.map_or_else(|| current(name), |old| old.before.clone())
    };
    let is_new = |old: &&Named| new.iter().all(|(name, _)| *name != old.name);
    let restored = old.iter().filter(is_new).map(|old| (old.name.clone(), original(&old.name)));
    let desired = restored.chain(new.iter().cloned()).collect();
    let differs = |(name, set): &(String, Option<String>)| {
        let before = original(name);
        (before != *set).then(|| Named { name: name.clone(), before, set: set.clone() })
    };
    (desired, new.iter().filter_map(differs).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn undone_settings_have_their_former_values_unless_something_else_changed_them() {
        let before = map(json!({"a": 1, "b": {"c": 2}, "d": [1]}));
        let layer = map(json!({"a": 1, "b": {"c": 3, "e": 4}, "d": [2], "f": {"g": 5}}));
        let changed = settings(&before, &layer);
        let paths: Vec<_> = changed.iter().map(|setting| setting.path.join(".")).collect();
        assert_eq!(paths, ["b.c", "b.e", "d", "f"]);
        let mut after = layer;
        undo(&mut after, &changed);
        assert_eq!(after, before);
        let mut touched = map(json!({"a": 1, "b": {"c": 9, "e": 4}, "d": [2], "f": {"g": 5, "h": 6}}));
        undo(&mut touched, &changed);
        assert_eq!(touched, map(json!({"a": 1, "b": {"c": 9}, "d": [1], "f": {"g": 5, "h": 6}})));
    }

    #[test]
    fn a_removed_setting_comes_back_unless_something_else_has_set_it() {
        let before = map(json!({"a": {"b": 1}, "c": null, "d": 2}));
        let layer = map(json!({"a": null, "c": null, "d": 3, "e": null}));
        let changed = settings(&before, &layer);
        let paths: Vec<_> = changed.iter().map(|setting| setting.path.join(".")).collect();
        assert_eq!(paths, ["a", "c", "d"]);
        let mut after = before.clone();
        yaml::merge_maps(&mut after, &layer);
        assert_eq!(after, map(json!({"d": 3})));
        undo(&mut after, &changed);
        assert_eq!(after, before);
        let mut touched = map(json!({"a": {"b": 9}, "d": 3}));
        undo(&mut touched, &changed);
        assert_eq!(touched, map(json!({"a": {"b": 9}, "c": null, "d": 2})));
    }

    #[test]
    fn flags_that_a_configuration_no_longer_has_get_their_former_values() {
        let text = |value: &str| Some(value.to_owned());
        let current = |name: &str| match name {
            "v" => text("4"),
            "other" => text("x"),
            "mine" => text("changed"),
            _ => None,
        };
        let named_change = |name: &str, before, set| Named { name: name.to_owned(), before, set };
        let old = [
            named_change("v", text("2"), text("4")),
            named_change("max-pods", text("20"), None),
            named_change("mine", None, text("1")),
        ];
        let (desired, record) = named(current, &old, &[]);
        let expected =
            [("v".to_owned(), text("2")), ("max-pods".to_owned(), text("20")), ("mine".to_owned(), text("changed"))];
        assert_eq!((desired, record), (expected.to_vec(), vec![]));
        let (desired, record) = named(current, &old, &[("v".to_owned(), text("5")), ("other".to_owned(), text("x"))]);
        assert_eq!(desired[2..], [("v".to_owned(), text("5")), ("other".to_owned(), text("x"))]);
        assert_eq!(record, [named_change("v", text("2"), text("5"))]);
    }
}
