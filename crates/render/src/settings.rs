//! The settings in configuration files: their parsed content, its digest, and how two of them differ.
//!
//! Quotes, comments, blank lines and the order of keys are no settings, so that another version of winpool may write the
//! same settings with other bytes. A file that cannot be parsed has its text as its only setting.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use winpool_api::hex;

use super::ENVIRONMENT;

/// The settings of files, by key.
pub type FileSettings = BTreeMap<String, Value>;

/// In a `hosts.toml`, the entry for the order of its hosts: containerd tries them in the order of the file.
const HOSTS_IN_ORDER: &str = "host (in order)";
/// The longest value in the description of a difference, in characters.
const SHOWN: usize = 60;

pub fn settings<'f>(files: impl IntoIterator<Item = (&'f String, &'f String)>) -> FileSettings {
    files.into_iter().map(|(name, text)| (name.clone(), parse(name, text))).collect()
}

/// The settings of a file, whose name or path tells its format.
pub fn parse(name: &str, text: &str) -> Value {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let parsed = match name.rsplit('.').next() {
        Some("yaml") => serde_saphyr::from_str(text).ok().filter(Value::is_object),
        Some("toml") => toml::from_str(text).ok().map(|table| of_toml(table, name.starts_with("hosts."))),
        Some("args") => pairs(text, "--"),
        _ if name == ENVIRONMENT => pairs(text, ""),
        _ => None,
    };
    parsed.unwrap_or_else(|| text.into())
}

/// The lines `name=value` after a prefix. The last one of a name counts.
fn pairs(text: &str, prefix: &str) -> Option<Value> {
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pairs = lines.map(|line| {
        let (name, value) = line.strip_prefix(prefix)?.split_once('=')?;
        Some((name.to_owned(), value.into()))
    });
    pairs.collect::<Option<Map<_, _>>>().map(Value::Object)
}

fn of_toml(table: toml::Table, orders_hosts: bool) -> Value {
    let hosts = table.get("host").and_then(toml::Value::as_table).filter(|_| orders_hosts);
    let order: Option<Vec<Value>> = hosts.map(|hosts| hosts.keys().map(|host| host.as_str().into()).collect());
    let entries = table.into_iter().map(|(key, value)| (key, of_toml_value(value)));
    let order = order.map(|order| (HOSTS_IN_ORDER.to_owned(), order.into()));
    Value::Object(entries.chain(order).collect())
}

fn of_toml_value(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(holds) => holds.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(list) => list.into_iter().map(of_toml_value).collect(),
        toml::Value::Table(table) => of_toml(table, false),
    }
}

/// The digest of the settings in these files: see [`digest`].
pub fn digest_of(files: &BTreeMap<String, String>) -> String {
    digest(&settings(files))
}

/// The SHA-256 of settings, in hexadecimal digits: for each file in the order of the keys, the key and its settings as JSON
/// with sorted keys, each after its length in bytes as a big-endian integer of 64 bits.
pub fn digest(settings: &FileSettings) -> String {
    let mut hash = Sha256::new();
    for part in settings.iter().flat_map(|(name, value)| [name.clone(), canonical(value)]) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// The value as JSON with sorted keys, regardless of the features of `serde_json`.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            let fields =
                sorted.into_iter().map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(canonical).collect::<Vec<_>>().join(",")),
        scalar => scalar.to_string(),
    }
}

/// The differences, such as `kubelet.yaml maxPods: 110 → 120`, in the order of files and fields.
pub fn differences(before: &FileSettings, after: &FileSettings) -> Vec<String> {
    let (before, after) = (leaves(before), leaves(after));
    let paths = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    let mut changed: Vec<_> = paths.filter(|path| before.get(*path) != after.get(*path)).collect();
    changed.sort_unstable();
    let described =
        changed.into_iter().map(|path| described(path, before.get(path).copied(), after.get(path).copied()));
    described.collect()
}

/// The values that have no fields of their own, by file and path.
fn leaves(settings: &FileSettings) -> BTreeMap<String, &Value> {
    let mut found = BTreeMap::new();
    settings.iter().for_each(|(file, value)| add_leaves(file, " ", value, &mut found));
    found
}

fn add_leaves<'v>(path: &str, separator: &str, value: &'v Value, found: &mut BTreeMap<String, &'v Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(key, value)| add_leaves(&format!("{path}{separator}{key}"), ".", value, found));
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            for (index, item) in list.iter().enumerate() {
                // Files of machines have a path, arguments a name.
                let name = ["path", "name"].iter().find_map(|field| item[*field].as_str());
                let name = name.map_or_else(|| index.to_string(), str::to_owned);
                add_leaves(&format!("{path}[{name}]"), ".", item, found);
            }
        }
        leaf => drop(found.insert(path.to_owned(), leaf)),
    }
}

fn described(path: &str, before: Option<&Value>, after: Option<&Value>) -> String {
    if let (Some(Value::String(before)), Some(Value::String(after))) = (before, after)
        && let Some((line, before, after)) = first_line(before, after)
    {
        return format!("{path} line {line}: {} → {}", shown(before), shown(after));
    }
    let text = |value: Option<&Value>| value.map_or_else(|| "unset".to_owned(), |value| shown(&canonical(value)));
    format!("{path}: {} → {}", text(before), text(after))
}

/// The first line in which two texts of several lines differ.
fn first_line<'t>(before: &'t str, after: &'t str) -> Option<(usize, &'t str, &'t str)> {
    let count = before.lines().count().max(after.lines().count());
    let line = |text: &'t str, index| text.lines().nth(index).unwrap_or_default();
    let lines = (0..count).map(|index| (index + 1, line(before, index), line(after, index)));
    (count > 1).then_some(lines).into_iter().flatten().find(|(_, before, after)| before != after)
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> FileSettings {
        files.iter().map(|(name, text)| ((*name).to_owned(), parse(name, text))).collect()
    }

    #[test]
    fn bytes_that_are_no_settings_do_not_change_the_digest() {
        let table: [(&str, &[&str]); 5] = [
            (
                "kubelet.yaml",
                &[
                    "# winpool\nmaxPods: 110\nfeatureGates: {A: true, B: false}\nresolvConf: \"\"\n",
                    "resolvConf: ''\nfeatureGates:\n  B: false   # comment\n  \"A\": true\n\nmaxPods: 110",
                ],
            ),
            (
                "containerd.toml",
                &[
                    "version = 3\n[plugins.\"a.b\"]\nroot = 'D:\\c'\nlist = [1, 2]\n",
                    "# x\nplugins.\"a.b\" = { list = [1,2], root = \"D:\\\\c\" }\nversion = 3",
                ],
            ),
            (
                "hosts.docker.io.toml",
                &["server = \"s\"\n[host.a]\n[host.b]\nx = 1\n", "server = 's' # s\n[host]\na = {}\nb.x = 1\n"],
            ),
            ("kubelet.args", &["--v=2\n--resolv-conf=\n", "# flags\n\n--resolv-conf=\n--v=3\n--v=2\r\n"]),
            ("environment", &["HTTP_PROXY=http://p\nNO_PROXY=a,b\n", "NO_PROXY=a,b\n\nHTTP_PROXY=http://p"]),
        ];
        for (file, texts) in table {
            for text in texts {
                assert!(parse(file, text).is_object(), "{file}: {text}");
                assert_eq!(digest(&of(&[(file, text)])), digest(&of(&[(file, texts[0])])), "{file}: {text}");
            }
        }
    }

    #[test]
    fn another_value_key_file_or_order_changes_the_digest() {
        let table = [
            ("kubelet.yaml", "maxPods: 110\n", "maxPods: \"110\"\n"),
            ("kubelet.yaml", "a: [1, 2]\n", "a: [2, 1]\n"),
            ("kubelet.yaml", "a: null\n", "{}\n"),
            ("kubelet.yaml", "text\n", "text2\n"),
            ("containerd.toml", "a = 1\n", "a = 1.0\n"),
            // containerd tries the mirrors in their order.
            ("hosts.docker.io.toml", "[host.a]\n[host.b]\n", "[host.b]\n[host.a]\n"),
            ("kubelet.args", "--v=2\n", "--v=3\n"),
            ("kubelet.args", "--v=2\n", "--v=2\nv=3\n"),
            ("environment", "A=1\n", "A=2\n"),
            ("other", "a: 1\n", "a:  1\n"),
        ];
        for (file, one, other) in table {
            assert_ne!(digest(&of(&[(file, one)])), digest(&of(&[(file, other)])), "{file}: {one} {other}");
        }
        assert_ne!(digest(&of(&[("a.yaml", "a: 1")])), digest(&of(&[("b.yaml", "a: 1")])));
        let unparsed = of(&[("a.yaml", "{")]);
        assert_ne!(digest(&unparsed), digest(&of(&[("a.yaml", "\"{\"")])), "a text is not what it quotes");
    }

    #[test]
    fn differences_have_file_path_and_both_values() {
        let table: [(&str, &str, &str, &[&str]); 7] = [
            ("kubelet.yaml", "maxPods: 110\na: 1", "maxPods: 120\na: 1", &["kubelet.yaml maxPods: 110 → 120"]),
            (
                "kubelet.yaml",
                "evictionHard: {memory.available: 500Mi}",
                "evictionHard: {memory.available: 1Gi, x: z}",
                &[
                    "kubelet.yaml evictionHard.memory.available: \"500Mi\" → \"1Gi\"",
                    "kubelet.yaml evictionHard.x: unset → \"z\"",
                ],
            ),
            ("kubelet.args", "--v=2", "", &["kubelet.args: unset → {}", "kubelet.args v: \"2\" → unset"]),
            (
                "hosts.a.toml",
                "[host.b]\n[host.c]\n",
                "[host.c]\n[host.b]\n",
                &["hosts.a.toml host (in order): [\"b\",\"c\"] → [\"c\",\"b\"]"],
            ),
            (
                "spec.yaml",
                "files: [{path: a, content: 1}, {path: b, content: 2}]",
                "files: [{path: b, content: 3}, {path: a, content: 1}]",
                &["spec.yaml files[b].content: 2 → 3"],
            ),
            ("run.ps1", "one\ntwo\nthree", "one\n2\nthree", &["run.ps1 line 2: two → 2"]),
            ("a.yaml", "a: 1", "a: 1 # same", &[]),
        ];
        for (file, before, after, expected) in table {
            assert_eq!(differences(&of(&[(file, before)]), &of(&[(file, after)])), expected, "{file}");
        }
        let (long, short) = ("x".repeat(100), "kubelet.yaml a: 1 → ".len());
        let line =
            differences(&of(&[("kubelet.yaml", "a: 1")]), &of(&[("kubelet.yaml", &format!("a: {long}"))])).remove(0);
        assert!(line.ends_with('…') && line.len() < short + SHOWN + 5, "{line}");
    }
}
