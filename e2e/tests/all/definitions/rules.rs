//! The rules in CEL, and the rest of the schema: the specs of `tests/all/cel`, which the command line and the evaluator in
//! process are tested with too.

use super::{object, refusal, shared, specs};
use specs::{LONG_NAME, POOL, UNKNOWN_VERSION, of_version, pool};

#[tokio::test]
async fn accepted_specs_are_accepted() {
    let (requests, _running) = shared().await;
    for (kind, spec) in specs::accepted() {
        assert_eq!(refusal(&requests, &object(kind, "web", &spec)).await, "", "{spec}");
    }
    let longest = object(POOL, &"a".repeat(63), &pool(""));
    assert_eq!(refusal(&requests, &longest).await, "");
}

#[tokio::test]
async fn every_rule_refuses_its_specs_with_path_and_message() {
    let (requests, _running) = shared().await;
    for (kind, spec, error) in specs::rejected() {
        let (path, message) = error.split_once(": ").unwrap();
        let answer = refusal(&requests, &object(kind, "ruled", &spec)).await;
        let answer = answer.replace("\\\"", "\"");
        assert!(answer.starts_with("422") && answer.contains(&format!("{path}: Invalid value")), "{spec}: {answer}");
        assert!(answer.contains(message), "{spec}: {answer}");
    }
    for version in specs::unknown_versions() {
        let answer = refusal(&requests, &object(POOL, "ruled", &of_version(version))).await;
        assert!(answer.contains("spec.windowsVersion: Invalid value"), "{version}: {answer}");
        assert!(version.is_empty() || answer.contains(UNKNOWN_VERSION), "{version}: {answer}");
    }
    let answer = refusal(&requests, &object(POOL, &"a".repeat(64), &pool(""))).await;
    assert!(answer.contains(LONG_NAME), "{answer}");
}

#[tokio::test]
async fn the_rest_of_the_schema_refuses_its_specs_with_the_path() {
    let (requests, _running) = shared().await;
    for (kind, spec, path) in specs::by_schema() {
        let answer = refusal(&requests, &object(kind, "schema", &spec)).await;
        assert!(answer.contains(path), "{spec}: {answer}");
    }
}

#[tokio::test]
async fn an_unknown_field_is_refused_by_strict_validation() {
    let (requests, _running) = shared().await;
    let answer = refusal(&requests, &object(POOL, "strict", &pool("windowsVerison: ltsc2022"))).await;
    assert!(answer.contains("unknown field \\\"spec.windowsVerison\\\""), "{answer}");
}
