//! Finds the fields of an object that match a path pattern.

use serde_json::Value;

use crate::join;

/// The lists of containers in a pod's spec, in the order in which they are searched.
pub const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The fields that match a pattern such as `containers[].securityContext.privileged`, with their paths. `[]` matches every
/// item of a list, `containers[]` containers of every kind, and `[key]` a key with dots or dashes.
pub fn fields<'v>(value: &'v Value, pattern: &str) -> Vec<(String, &'v Value)> {
    let mut found = vec![(String::new(), value)];
    for step in pattern.split('.') {
        found = found.into_iter().flat_map(|(path, value)| step_into(&path, value, step)).collect();
    }
    found
}

fn step_into<'v>(path: &str, value: &'v Value, step: &str) -> Vec<(String, &'v Value)> {
    let (name, inside) = step.split_once('[').map_or((step, None), |(name, rest)| (name, rest.strip_suffix(']')));
    match inside {
        None => child(path, value, name).into_iter().collect(),
        Some("") if name == "containers" => CONTAINERS.iter().flat_map(|list| items(path, value, list)).collect(),
        Some("") => items(path, value, name),
        Some(key) => {
            let below = child(path, value, name);
            below.and_then(|(path, value)| Some((format!("{path}[{key}]"), value.get(key)?))).into_iter().collect()
        }
    }
}

fn child<'v>(path: &str, value: &'v Value, name: &str) -> Option<(String, &'v Value)> {
    Some((join(path, name), value.get(name)?))
}

fn items<'v>(path: &str, value: &'v Value, name: &str) -> Vec<(String, &'v Value)> {
    let list = value.get(name).and_then(Value::as_array);
    let item = |(index, item)| (format!("{}[{index}]", join(path, name)), item);
    list.into_iter().flatten().enumerate().map(item).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pattern_matches_every_field_of_its_shape() {
        let spec = json!({
            "hostPID": true,
            "initContainers": [{"tty": 1}],
            "containers": [{"volumeMounts": [{"subPath": "a"}, {}]}, {"tty": 2, "limits": {"x-1Gi": 3}}],
            "volumes": "no list",
        });
        let table: [(&str, &[&str]); 7] = [
            ("hostPID", &["hostPID"]),
            ("containers[].tty", &["initContainers[0].tty", "containers[1].tty"]),
            ("containers[].volumeMounts[].subPath", &["containers[0].volumeMounts[0].subPath"]),
            ("containers[].limits[x-1Gi]", &["containers[1].limits[x-1Gi]"]),
            ("volumes[].nfs", &[]),
            ("hostPID.more", &[]),
            ("absent", &[]),
        ];
        for (pattern, expected) in table {
            let found: Vec<_> = fields(&spec, pattern).into_iter().map(|(path, _)| path).collect();
            assert_eq!(found, expected, "{pattern}");
        }
    }
}
