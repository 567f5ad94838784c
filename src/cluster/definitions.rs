//! Whether the CustomResourceDefinitions in the cluster are those of this version of winpool.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt};
use winpool_api::{custom_resource_definitions, names::annotation};

use super::{explain, status_code};

/// What to run.
pub const REMEDY: &str = "install the CustomResourceDefinitions of this version: kubectl apply -k crds/ (before Kubernetes 1.25 with --validate=false)";

/// What is wrong with the CustomResourceDefinitions in the cluster, in a sentence; `None` if they are those of this version.
///
/// # Errors
/// With the message, if they may not be read. An API server that does not answer is no error: other requests report it.
pub async fn problem_of_definitions(client: &Client) -> Result<Option<String>, String> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let (mut missing, mut other) = (Vec::new(), Vec::new());
    for (_, expected) in custom_resource_definitions() {
        let name = expected.name_any();
        match api.get_metadata_opt(&name).await {
            Ok(None) => missing.push(name),
            Ok(Some(found)) => {
                let digest = |annotations: &std::collections::BTreeMap<String, String>| {
                    annotations.get(annotation::SCHEMA).cloned()
                };
                if digest(found.annotations()) != digest(expected.annotations()) {
                    other.push(name);
                }
            }
            Err(error) if status_code(&error) == Some(403) => return Err(explain(&error)),
            Err(_) => return Ok(None),
        }
    }
    Ok(sentence(&missing, &other))
}

fn sentence(missing: &[String], other: &[String]) -> Option<String> {
    let part = |names: &[String], what: &str| (!names.is_empty()).then(|| format!("{}: {what}", names.join(", ")));
    let version = env!("CARGO_PKG_VERSION");
    let parts = [
        part(missing, "not installed"),
        part(
            other,
            &format!("of another version of winpool than this one ({version}), fields that it has not are not stored"),
        ),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_names_each_definition_that_is_missing_or_of_another_version() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(sentence(&[], &[]), None);
        assert_eq!(sentence(&names(&["a", "b"]), &[]).as_deref(), Some("a, b: not installed"));
        let both = sentence(&names(&["a"]), &names(&["b"])).unwrap();
        assert!(both.starts_with("a: not installed; b: of another version of winpool than this one (0."), "{both}");
    }
}
