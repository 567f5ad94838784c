//! Arbitrary input.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{POD, check};

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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn generated_objects_never_panic(objects in prop::collection::vec(prop_oneof![object(), value()], 0..4)) {
        let text: Vec<_> = objects.iter().map(Value::to_string).collect();
        check(&text.join("\n---\n"));
    }

    #[test]
    fn generated_text_never_panics(lines in prop::collection::vec("[ -]{0,6}[a-z{}\\[\\]&*:|>\"'#!%@,]{0,12}(: )?\\PC{0,8}", 0..12)) {
        check(&lines.join("\n"));
    }

    /// Removes a part of a manifest and inserts arbitrary text.
    #[test]
    fn broken_manifests_never_panic(begin in 0_usize..400, length in 0_usize..40, inserted in "\\PC{0,6}") {
        let text = format!("{POD}    image: example.com/web:latest # winpool:ignore image-latest\n  tolerations: [{{operator: Exists}}]\n");
        let begin = begin.min(text.len());
        let end = (begin + length).min(text.len());
        check(&format!("{}{inserted}{}", &text[..begin], &text[end..]));
    }
}
