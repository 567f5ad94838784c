//! `kubeletExtraArgs`: a list of names and values.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use winpool_api::Taint;
use winpool_core::Problem;
use winpool_facts::{
    Minor,
    cluster_api::MAX_ARGUMENT,
    kubelet_fields::{FIELDS, FieldSupport},
    kubelet_flags::{ENDED, REGISTER_WITH_TAINTS, V},
};

use crate::{kubelet::taint_flag, profile::Profile};

/// The arguments in a KubeadmConfigSpec, as a JSON pointer.
pub const ARGUMENTS: &str = "/joinConfiguration/nodeRegistration/kubeletExtraArgs";

pub const NODE_LABELS: &str = "node-labels";

pub const CLOUD_PROVIDER: &str = "cloud-provider";

/// The values of each argument. Only one whose values are no list can have several, of which the last is in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments(BTreeMap<String, Vec<String>>);

impl Arguments {
    /// The arguments of a KubeadmConfigSpec. Entries without a name are ignored.
    pub fn read(spec: &Value) -> Self {
        let mut arguments = Self::default();
        for item in spec.pointer(ARGUMENTS).and_then(Value::as_array).into_iter().flatten() {
            let Some(name) = item["name"].as_str() else { continue };
            let value = item["value"].as_str().unwrap_or_default();
            let values = arguments.0.entry(name.to_owned()).or_default();
            match values.last_mut() {
                Some(list) if [NODE_LABELS, REGISTER_WITH_TAINTS].contains(&name) => *list = format!("{list},{value}"),
                _ => values.push(value.to_owned()),
            }
        }
        arguments
    }

    /// Writes the arguments into a `nodeRegistration`. Without arguments there is no field, because a list must not be empty.
    pub fn write(&self, registration: &mut Value) {
        let list: Vec<_> = self.values().map(|(name, value)| json!({"name": name, "value": value})).collect();
        if !list.is_empty() {
            registration["kubeletExtraArgs"] = list.into();
        } else if let Some(registration) = registration.as_object_mut() {
            registration.remove("kubeletExtraArgs");
        }
    }

    /// The value that is in effect.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.last().map(String::as_str)
    }

    /// Whether the kubelet adds the taint of a cloud provider by itself.
    pub fn has_external_cloud_provider(&self) -> bool {
        self.get(CLOUD_PROVIDER) == Some("external")
    }

    fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(name, values)| values.iter().map(|value| (name.as_str(), value.as_str())))
    }

    /// Sets an argument that nothing else may set to another value.
    pub fn set(&mut self, path: &str, name: &str, value: &str) -> Result<(), Problem> {
        match self.get(name) {
            Some(other) if other != value => {
                let wrong = format!("the kubelet argument {name} is {other:?}, and the profile sets {value:?}");
                Err(Problem::new(path, wrong, "remove the argument from the template, or use its value in the profile"))
            }
            _ => {
                self.replace(name, value.to_owned());
                Ok(())
            }
        }
    }

    /// Replaces an argument with a value that contains the former one.
    pub fn replace(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), vec![value]);
    }

    /// Arguments that override a setting of the profile: an argument takes precedence over the configuration file.
    pub fn overriding<'a>(&'a self, path: &'a str, profile: &'a Profile) -> impl Iterator<Item = Problem> + 'a {
        let verbosity = profile.kubelet.verbosity.map(|_| V.to_owned());
        let extra = profile.kubelet.extra.iter().map(|(field, _)| *field);
        let written = FIELDS.iter().filter(|field| matches!(field.support, FieldSupport::Managed(_)));
        let written = written.chain(extra).filter_map(|field| field.flag).map(str::to_owned);
        let all = written.chain(verbosity);
        all.filter(|name| self.0.contains_key(name)).map(move |name| {
            let wrong = format!("the kubelet argument {name} overrides the setting of the profile");
            Problem::new(path, wrong, "remove it from the template, and use the profile")
        })
    }

    /// Arguments that a kubelet of a minor does not know, or that are too long.
    pub fn problems<'a>(&'a self, path: &'a str, minor: Minor) -> impl Iterator<Item = Problem> + 'a {
        let removed = ENDED.iter().filter(move |flag| self.0.contains_key(flag.name) && !flag.known_in(minor));
        let removed = removed.map(move |flag| {
            let wrong = format!("kubelet {minor} does not know the argument {} and does not start with it", flag.name);
            Problem::new(path, wrong, "remove it from the template")
        });
        let long = self.values().filter(|(_, value)| value.chars().count() > MAX_ARGUMENT);
        removed.chain(long.map(move |(name, _)| {
            let wrong = format!("the kubelet argument {name} has more than {MAX_ARGUMENT} characters");
            Problem::new(path, wrong, "write a shorter one, with fewer labels or taints")
        }))
    }
}

/// The labels of an argument `node-labels`, without those that cloud-init evaluates on the machine.
pub fn labels(text: &str) -> BTreeMap<String, String> {
    let one = |entry: &str| entry.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    split(text).filter(|entry| !entry.contains('{')).filter_map(one).collect()
}

/// The labels of an argument `node-labels`, merged with others.
pub fn merged_labels(path: &str, text: &str, labels: &BTreeMap<String, String>) -> Result<String, Problem> {
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    let merged = merged(text, labels, |entry| {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        Entry { key, effect: "", value }
    });
    merged.map_err(|(existing, wanted)| {
        let wrong = format!("{NODE_LABELS} has {existing}, and the selector of the pool requires {wanted}");
        Problem::new(path, wrong, "correct the label in the template, or spec.nodeSelector")
    })
}

/// An entry of an argument. Two with the same key and effect must have the same value.
struct Entry<'e> {
    key: &'e str,
    /// Empty for a label.
    effect: &'e str,
    value: &'e str,
}

/// The entries of an argument, merged with others.
fn merged(
    text: &str,
    others: impl Iterator<Item = String>,
    read: fn(&str) -> Entry<'_>,
) -> Result<String, (String, String)> {
    let mut entries: Vec<String> = split(text).map(str::to_owned).collect();
    for wanted in others {
        let Entry { key, effect, value } = read(&wanted);
        let mut existing = split(text).map(|entry| (entry, read(entry)));
        match existing.find(|(_, entry)| entry.key == key && entry.effect == effect) {
            Some((text, entry)) if entry.value != value => return Err((text.to_owned(), wanted)),
            Some(_) => {}
            None => entries.push(wanted),
        }
    }
    Ok(entries.join(","))
}

/// The taints of an argument `register-with-taints`; `None` if one is not valid, such as one that cloud-init evaluates.
pub fn taints(text: &str) -> Option<Vec<Taint>> {
    let taint = |entry| {
        let Entry { key, effect, value } = taint_entry(entry);
        let effect = serde_json::from_value(json!(effect)).ok()?;
        Some(Taint { key: key.to_owned(), value: value.to_owned(), effect })
    };
    split(text).map(taint).collect()
}

/// The taints of an argument `register-with-taints`, merged with others.
pub fn merged_taints(path: &str, text: &str, taints: &[Taint]) -> Result<String, Problem> {
    let merged = merged(text, taints.iter().map(taint_flag), taint_entry);
    merged.map_err(|(existing, wanted)| two_taints(path, &existing, &wanted))
}

/// The taints of `nodeRegistration.taints`, with others added.
pub fn added_taints(path: &str, existing: Option<&Value>, taints: &[Taint]) -> Result<Option<Value>, Problem> {
    let mut all: Vec<Value> = existing.and_then(Value::as_array).cloned().unwrap_or_default();
    for taint in taints {
        let same_key = |other: &&Value| other["key"] == taint.key.as_str() && other["effect"] == taint.effect.name();
        match all.iter().find(same_key) {
            Some(other) if other["value"].as_str().unwrap_or_default() != taint.value => {
                let value = other["value"].as_str().unwrap_or_default().to_owned();
                let existing = taint_flag(&Taint { value, ..taint.clone() });
                return Err(two_taints(path, &existing, &taint_flag(taint)));
            }
            Some(_) => {}
            None => all.push(json!(taint)),
        }
    }
    // An absent list and an empty one differ.
    Ok(if all.is_empty() { existing.cloned() } else { Some(all.into()) })
}

/// Reads `<key>=<value>:<effect>`; parts that are absent are empty.
fn taint_entry(entry: &str) -> Entry<'_> {
    let (left, effect) = entry.rsplit_once(':').unwrap_or((entry, ""));
    let (key, value) = left.split_once('=').unwrap_or((left, ""));
    Entry { key, effect, value }
}

fn two_taints(path: &str, existing: &str, wanted: &str) -> Problem {
    let wrong = format!("the template has the taint {existing}, and the pool {wanted}");
    Problem::new(path, wrong, "use the same value in both")
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

#[cfg(test)]
mod tests {
    use winpool_api::TaintEffect;

    use super::*;

    fn taint(key: &str, value: &str) -> Taint {
        Taint { key: key.into(), value: value.into(), effect: TaintEffect::NoSchedule }
    }

    #[test]
    fn arguments_are_a_list_that_is_not_empty() {
        let registration = |arguments: Value| json!({"criSocket": "s", "kubeletExtraArgs": arguments});
        let written = |arguments: Value| {
            let mut registration = registration(arguments);
            let spec = json!({"joinConfiguration": {"nodeRegistration": registration}});
            Arguments::read(&spec).write(&mut registration);
            registration
        };
        let list = json!([{"name": "cloud-provider", "value": "external"}, {"name": "v", "value": "2"}]);
        assert_eq!(written(list.clone()), registration(list));
        assert_eq!(written(json!([])), json!({"criSocket": "s"}));
    }

    #[test]
    fn labels_are_added_once_and_never_changed() {
        let labels = BTreeMap::from([("agentpool".to_owned(), "web".to_owned())]);
        let table = [
            ("", Ok("agentpool=web")),
            ("zone=a", Ok("zone=a,agentpool=web")),
            ("zone=a,agentpool=web", Ok("zone=a,agentpool=web")),
            (
                "agentpool=db",
                Err(
                    "p: node-labels has agentpool=db, and the selector of the pool requires agentpool=web: correct the label \
                     in the template, or spec.nodeSelector",
                ),
            ),
        ];
        for (text, expected) in table {
            let merged = merged_labels("p", text, &labels).map_err(|problem| problem.to_string());
            assert_eq!(merged, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn taints_are_added_once_and_never_changed() {
        let os = [taint("os", "windows")];
        let cloud = "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule";
        let table = [
            ("", Some("os=windows:NoSchedule".to_owned())),
            (cloud, Some(format!("{cloud},os=windows:NoSchedule"))),
            ("os=windows:NoSchedule", Some("os=windows:NoSchedule".to_owned())),
            ("os=windows:NoExecute", Some("os=windows:NoExecute,os=windows:NoSchedule".to_owned())),
            ("os=Windows:NoSchedule", None),
            ("os:NoSchedule", None),
        ];
        for (text, expected) in table {
            assert_eq!(merged_taints("p", text, &os).ok(), expected, "{text}");
        }
        let list = |taints: &[Value]| json!(taints);
        let (own, other) = (
            json!({"key": "os", "value": "windows", "effect": "NoSchedule"}),
            json!({"key": "a", "effect": "NoExecute"}),
        );
        let table = [
            (None, &os[..], Some(Some(list(std::slice::from_ref(&own))))),
            (None, &[], Some(None)),
            (Some(list(&[])), &[], Some(Some(list(&[])))),
            (Some(list(std::slice::from_ref(&other))), &os[..], Some(Some(list(&[other.clone(), own.clone()])))),
            (Some(list(std::slice::from_ref(&own))), &os[..], Some(Some(list(std::slice::from_ref(&own))))),
            (Some(json!([{"key": "os", "value": "Windows", "effect": "NoSchedule"}])), &os[..], None),
        ];
        for (existing, taints, expected) in table {
            assert_eq!(added_taints("p", existing.as_ref(), taints).ok(), expected, "{existing:?}");
        }
    }
}
