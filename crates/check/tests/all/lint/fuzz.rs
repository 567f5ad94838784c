//! Arbitrary input.

use std::{path::PathBuf, sync::LazyLock};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{check, check_bytes};
use winpool_model::cases;

/// Names and values that the rules read, so that generated objects reach them.
const NAMES: [&str; 40] = [
    "kind",
    "apiVersion",
    "Pod",
    "Service",
    "Deployment",
    "DaemonSet",
    "RuntimeClass",
    "WindowsNodePool",
    "v1",
    "apps/v1",
    "winpool.dev/v1alpha1",
    "node.k8s.io/v1",
    "metadata",
    "name",
    "annotations",
    "labels",
    "spec",
    "template",
    "os",
    "windows",
    "containers",
    "initContainers",
    "image",
    "nginx:latest",
    "securityContext",
    "windowsOptions",
    "hostProcess",
    "nodeSelector",
    "kubernetes.io/os",
    "tolerations",
    "operator",
    "Exists",
    "volumes",
    "emptyDir",
    "resources",
    "limits",
    "memory",
    "selector",
    "runtimeClassName",
    "winpool.dev/lint-ignore",
];

fn name() -> impl Strategy<Value = String> {
    prop_oneof![8 => prop::sample::select(&NAMES[..]).prop_map(str::to_owned), 1 => "\\PC{0,12}"]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        name().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// An object of a kind that is checked, with arbitrary values in the fields that the rules read.
fn object() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        ("v1", "Pod"),
        ("v1", "Service"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "CronJob"),
        ("node.k8s.io/v1", "RuntimeClass"),
        ("winpool.dev/v1alpha1", "WindowsNodePool"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
    ]);
    (kinds, value(), value(), value(), value()).prop_map(|((version, kind), metadata, scheduling, container, more)| {
        let pod = json!({"nodeSelector": scheduling, "securityContext": more, "os": {"name": "windows"},
            "containers": [container, {"name": "a", "image": "a:1", "securityContext": more, "volumeMounts": [more]}],
            "volumes": [more]});
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "endpoints": more, "scheduling": scheduling,
            "spec": {"template": {"metadata": metadata, "spec": pod}, "selector": scheduling, "containers": pod["containers"],
                "securityContext": more, "externalTrafficPolicy": "Local", "sessionAffinity": more}})
    })
}

/// The files of the corpus.
static CORPUS: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    let folders = ["missed", "recognized", "false"].map(|name| format!("tests/lint-corpus/{name}"));
    folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path()).collect()
});

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn generated_objects_never_panic(objects in prop::collection::vec(prop_oneof![object(), value()], 0..4)) {
        let text: Vec<_> = objects.iter().map(Value::to_string).collect();
        check(&text.join("\n---\n"));
    }

    #[test]
    fn generated_text_never_panics(lines in prop::collection::vec("[ -]{0,6}[a-z{}\\[\\]&*:|>\"'#!%@,]{0,12}(: )?\\PC{0,8}", 0..12)) {
        check(&lines.join("\n"));
    }

    /// Cuts bytes out of a manifest of the corpus and inserts others, in any encoding.
    #[test]
    fn broken_files_of_the_corpus_never_panic(
        file in prop::sample::select(CORPUS.as_slice()),
        begin in any::<prop::sample::Index>(),
        length in 0_usize..60,
        inserted in prop::collection::vec(any::<u8>(), 0..8),
        indentation in "[ \t]{0,3}",
    ) {
        let text = std::fs::read_to_string(file).unwrap_or_default().replace("\n  ", &format!("\n  {indentation}"));
        let mut bytes = text.into_bytes();
        let begin = begin.index(bytes.len() + 1);
        let end = (begin + length).min(bytes.len());
        bytes.splice(begin..end, inserted);
        check_bytes(&bytes, None, &|_| None);
    }
}
