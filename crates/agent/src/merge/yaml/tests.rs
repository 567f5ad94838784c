use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn merged(text: &str, layer: &Value) -> String {
    merge(text, layer.as_object().unwrap()).unwrap()
}

const KUBEADM: &str = "\
# kubelet of node web-1
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt # the cluster's
clusterDNS:
- 10.96.0.10
# limits
evictionHard: # for the small disk
  memory.available: 100Mi   # too little
  nodefs.available: \"10%\"
kind: KubeletConfiguration
maxPods: 50
";

#[test]
fn only_the_settings_that_differ_change() {
    let layer = json!({
        "kind": "KubeletConfiguration",
        "clusterDNS": ["10.96.0.20", "10.96.0.21"],
        "evictionHard": {"memory.available": "500Mi", "imagefs.available": "15%"},
        "maxPods": 110,
        "systemReserved": {"memory": "2Gi"},
    });
    let expected = "\
# kubelet of node web-1
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt # the cluster's
clusterDNS: [\"10.96.0.20\", \"10.96.0.21\"]
# limits
evictionHard: # for the small disk
  memory.available: \"500Mi\"   # too little
  nodefs.available: \"10%\"
  imagefs.available: \"15%\"
kind: KubeletConfiguration
maxPods: 110
systemReserved:
  memory: \"2Gi\"
";
    assert_eq!(merged(KUBEADM, &layer), expected);
    let windows = KUBEADM.replace('\n', "\r\n");
    assert_eq!(merged(&windows, &layer), expected.replace('\n', "\r\n"));
}

#[test]
fn each_notation_is_edited_in_place() {
    let table = [
        ("", json!({"a": 1}), "a: 1\n"),
        ("# only a comment\n", json!({"a": 1}), "# only a comment\na: 1\n"),
        ("# only a comment", json!({"a": 1}), "# only a comment\na: 1\n"),
        ("---\n", json!({"a": 1}), "---\na: 1\n"),
        ("a: 1", json!({"b": 2}), "a: 1\nb: 2"),
        ("a: 1", json!({"a": {"b": true}}), "a: {\"b\": true}"),
        ("a:\nb: 1\n", json!({"a": "x"}), "a: \"x\"\nb: 1\n"),
        ("a: # none\nb: 1\n", json!({"a": "x"}), "a: \"x\" # none\nb: 1\n"),
        ("a: ~\n", json!({"a": {"b": "c"}}), "a: {\"b\": \"c\"}\n"),
        ("a: 'it''s' # c\n", json!({"a": "ü"}), "a: \"ü\" # c\n"),
        ("a: |\n  long\n  text\nb: 1\n", json!({"a": "x"}), "a: \"x\"\nb: 1\n"),
        ("a: >-\n  long\n\n# c\nb: 1\n", json!({"a": "x"}), "a: \"x\"\n# c\nb: 1\n"),
        ("a:\n  - b: 1\n    c: 2\n  - d\n# end\ne: 1\n", json!({"a": []}), "a: []\n# end\ne: 1\n"),
        ("a:\n- 1\n- 2", json!({"a": [3]}), "a: [3]"),
        ("a: {b: 1, c: 2}\n", json!({"a": {"c": 3, "d": 4}}), "a: {b: 1, c: 3, \"d\": 4}\n"),
        ("a: {}\n", json!({"a": {"b": 1}}), "a: {\"b\": 1}\n"),
        (
            "a:\n    b:\n        c: 1\n",
            json!({"a": {"b": {"d": 2}, "e": 3}}),
            "a:\n    b:\n        c: 1\n        d: 2\n    e: 3\n",
        ),
        ("\"a b\": 1\n", json!({"a b": 2, "on": 3}), "\"a b\": 2\n\"on\": 3\n"),
        ("a: 1\n", json!({"a": 1}), "a: 1\n"),
        ("a: 0x10\n", json!({"b": "12:30"}), "a: 0x10\nb: \"12:30\"\n"),
        ("1: a\ntrue: b\n", json!({"1": 2, "true": {"c": 3}}), "1: 2\ntrue: {\"c\": 3}\n"),
        ("a: 1\r\nb: 2\n", json!({"a": 3, "c": 4}), "a: 3\r\nb: 2\nc: 4\r\n"),
        ("# a\n---\na: | # b\n  text\n...\n# c\n", json!({"a": 1}), "# a\n---\na: 1 # b\n...\n# c\n"),
    ];
    for (text, layer, expected) in table {
        assert_eq!(merged(text, &layer), expected, "{text}");
    }
}

#[test]
fn json_stays_json_with_its_layout() {
    let text = "{\r\n  \"kind\": \"KubeletConfiguration\",\r\n  \"featureGates\": {\r\n    \"A\": true\r\n  },\r\n  \"clusterDNS\": [\r\n    \"10.100.0.10\"\r\n  ]\r\n}\r\n";
    let layer = json!({"clusterDNS": ["10.1.0.10"], "featureGates": {"A": false, "B": true}, "maxPods": 110, "x": {"y": "\u{1}ü"}});
    let expected = "{\r\n  \"kind\": \"KubeletConfiguration\",\r\n  \"featureGates\": {\r\n    \"A\": false, \"B\": true\r\n  },\r\n  \"clusterDNS\": [\"10.1.0.10\"],\r\n  \"maxPods\": 110,\r\n  \"x\": {\"y\": \"\\u0001ü\"}\r\n}\r\n";
    let result = merged(text, &layer);
    assert_eq!(result, expected);
    assert_eq!(serde_json::from_str::<Value>(&result).unwrap()["maxPods"], 110);
}

#[test]
fn settings_are_removed_with_their_lines() {
    let table = [
        ("a: 1\n# b\nb: 2 # c\nc: 3\n", json!({"a": 1, "c": 3}), "a: 1\n# b\nc: 3\n"),
        ("a:\n  b: 1\n  c:\n  - 1\nd: 2\n", json!({"a": {"b": 1}}), "a:\n  b: 1\n"),
        ("a:\n  b: 1\n", json!({"a": {}}), "a: {}\n"),
        ("# a\na: 1\n# b\nb: 2\n", json!({}), "# a\n# b\n"),
        ("a: {b: 1, c: 2, d: 3}\n", json!({"a": {"c": 2}}), "a: {c: 2}\n"),
        ("{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}\n", json!({"a": 1, "d": 4}), "{\n  \"a\": 1,\n  \"d\": 4\n}\n"),
        ("{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}\n", json!({"a": 1}), "{\n  \"a\": 1\n}\n"),
        ("{\"a\": 1}\n", json!({}), "{}\n"),
    ];
    for (text, after, expected) in table {
        assert_eq!(set(text, after.as_object().unwrap()).unwrap(), expected, "{text}");
    }
}

#[test]
fn a_file_with_anchors_at_a_setting_that_differs_is_written_anew() {
    let text = "a: &x\n  b: 1\nc: *x\n# comment\n";
    assert_eq!(merged(text, &json!({"d": 1})), "a: &x\n  b: 1\nc: *x\nd: 1\n# comment\n");
    let result = merged(text, &json!({"a": {"b": 2}}));
    assert_eq!(result, format!("{REWRITTEN}\na:\n  b: 2\nc:\n  b: 1\n"));
}

#[test]
fn a_file_that_is_not_one_mapping_is_an_error() {
    for (text, wrong) in [
        ("a: [", ""),
        ("- 1\n", "not a mapping"),
        ("a: 1\n---\nb: 2\n", "several YAML documents"),
        ("a: 1\na: 2\n", ""),
    ] {
        let error = merge(text, &Map::from_iter([("b".to_owned(), json!(1))])).expect_err(text);
        assert!(error.contains(wrong), "{error}");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(Value::Null),
        "[ -~äß€\n\t]{0,8}".prop_map(Value::from),
        "(yes|on|1_0|12:30|~|0x1|-|\\{|#)".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-d]|[a-zA-Z.]{1,6}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn any_map() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("[a-e]", any_value(), 0..5).prop_map(|map| map.into_iter().collect())
}

/// A base file in one of several notations.
fn written(map: &Map<String, Value>, notation: u8) -> String {
    match notation % 4 {
        0 => serde_saphyr::to_string(map).unwrap(),
        1 => serde_json::to_string_pretty(map).unwrap(),
        2 => render::block(map, 0).iter().map(|line| format!("{line} # kept\r\n")).collect(),
        _ => serde_json::to_string(map).unwrap(),
    }
}

proptest! {
    #[test]
    fn a_file_is_merged_in_place_and_merging_again_changes_nothing(base in any_map(), layer in any_map(), notation: u8) {
        let text = written(&base, notation);
        let before = parse(&text).map_err(TestCaseError::fail)?;
        let mut expected = before.clone();
        merge_maps(&mut expected, &layer);
        let result = merge(&text, &layer).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&parse(&result).unwrap(), &expected, "{}", &result);
        if expected != before {
            // Without anchors no file is written anew.
            prop_assert_eq!(edit(&text, &before, &expected), Some(result.clone()), "{}", text);
        }
        prop_assert_eq!(merge(&result, &layer).unwrap(), result);
    }

    #[test]
    fn any_settings_can_be_set(base in any_map(), after in any_map(), notation: u8) {
        let result = set(&written(&base, notation), &after).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&parse(&result).unwrap(), &after, "{}", &result);
    }
}
