//! The rules in CEL, and the rest of the schema: the tables of `tests/all/cel`, which the command line and the evaluator in
//! process are tested with too.

use super::{NODE_CONFIG, POOL, PROFILE, accepted, object, refusal, rejected, shared};

#[tokio::test]
async fn accepted_specs_are_accepted() {
    let (requests, _running) = shared().await;
    let versions = accepted::VERSIONS.map(|version| format!("{{windowsVersion: \"{version}\", fallback: true}}"));
    let pools = accepted::POOLS.iter().map(|spec| (*spec).to_owned()).chain(versions);
    let pools = pools.chain(accepted::PARTS_OF_POOLS.iter().map(|part| rejected::pool(part)));
    let profiles = accepted::PROFILES.iter().map(|spec| (PROFILE, (*spec).to_owned()));
    let configs = rejected::node_configs().into_iter();
    let configs = configs.map(|(spec, _)| (NODE_CONFIG, spec.replace(&"b".repeat(64), &"a".repeat(64))));
    for (kind, spec) in pools.map(|spec| (POOL, spec)).chain(profiles).chain(configs) {
        assert_eq!(refusal(&requests, &object(kind, "web", &spec)).await, "", "{spec}");
    }
    let longest = object(POOL, &"a".repeat(63), &rejected::pool(""));
    assert_eq!(refusal(&requests, &longest).await, "");
}

#[tokio::test]
async fn every_rule_refuses_its_specs_with_path_and_message() {
    let (requests, _running) = shared().await;
    let pools = rejected::pools().into_iter().map(|(spec, error)| (POOL, spec, error));
    let profiles = rejected::profiles().into_iter().map(|(spec, error)| (PROFILE, spec.to_owned(), error));
    let configs = rejected::node_configs().into_iter().map(|(spec, error)| (NODE_CONFIG, spec, error));
    for (kind, spec, error) in pools.chain(profiles).chain(configs) {
        let (path, message) = error.split_once(": ").unwrap();
        let answer = refusal(&requests, &object(kind, "ruled", &spec)).await;
        let answer = answer.replace("\\\"", "\"");
        assert!(answer.starts_with("422") && answer.contains(&format!("{path}: Invalid value")), "{spec}: {answer}");
        assert!(answer.contains(message), "{spec}: {answer}");
    }
    for version in rejected::UNKNOWN_VERSIONS {
        let spec = format!("{{windowsVersion: \"{version}\", fallback: true}}");
        let answer = refusal(&requests, &object(POOL, "ruled", &spec)).await;
        assert!(answer.contains("spec.windowsVersion: Invalid value"), "{version}: {answer}");
        assert!(version.is_empty() || answer.contains(rejected::UNKNOWN_VERSION), "{version}: {answer}");
    }
    let answer = refusal(&requests, &object(POOL, &"a".repeat(64), &rejected::pool(""))).await;
    assert!(answer.contains(rejected::LONG_NAME), "{answer}");
}

#[tokio::test]
async fn the_rest_of_the_schema_refuses_its_specs_with_the_path() {
    let (requests, _running) = shared().await;
    for (kind, spec, path) in rejected::by_schema() {
        let answer = refusal(&requests, &object(kind, "schema", &spec)).await;
        assert!(answer.contains(path), "{spec}: {answer}");
    }
}

#[tokio::test]
async fn an_unknown_field_is_refused_by_strict_validation() {
    let (requests, _running) = shared().await;
    let answer = refusal(&requests, &object(POOL, "strict", &rejected::pool("windowsVerison: ltsc2022"))).await;
    assert!(answer.contains("unknown field \\\"spec.windowsVerison\\\""), "{answer}");
}
