//! Whether the CustomResourceDefinitions in the cluster are those of this version of winpool.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, ResourceExt};
use winpool_api::{custom_resource_definitions, names::annotation};
use winpool_core::foreign_text::ForeignText;

use super::{explain, status_code};

/// What to run.
pub const REMEDY: &str = "install the CustomResourceDefinitions of this version: kubectl apply -k crds/, which also prints why the API server refuses one";

/// What is wrong with CustomResourceDefinitions, each with its name.
#[derive(Debug, Default)]
struct Problems {
    missing: Vec<String>,
    /// With the reason of the API server.
    not_served: Vec<String>,
    other_version: Vec<String>,
}

/// What is wrong with the CustomResourceDefinitions in the cluster, in a sentence; `None` if they are those of this version.
/// Err: why they may not be read. That an API server does not answer, other requests report.
pub async fn problem_of_definitions(client: &Client) -> Result<Option<String>, String> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let mut problems = Problems::default();
    for (_, expected) in custom_resource_definitions() {
        let name = expected.name_any();
        match api.get_opt(&name).await {
            Ok(None) => problems.missing.push(name),
            Ok(Some(found)) => {
                let schema = |one: &CustomResourceDefinition| one.annotations().get(annotation::SCHEMA).cloned();
                if let Some(reason) = refusal(&found) {
                    problems.not_served.push(format!("{name}: not served, {reason}"));
                } else if schema(&found) != schema(&expected) {
                    problems.other_version.push(name);
                }
            }
            Err(error) if status_code(&error) == Some(403) => return Err(explain(&error)),
            Err(_) => return Ok(None),
        }
    }
    Ok(problems.sentence())
}

/// Why the API server does not serve a definition that it has stored, such as a name that another definition has; `None` if it
/// serves it, or has not decided yet.
fn refusal(definition: &CustomResourceDefinition) -> Option<String> {
    let conditions = definition.status.as_ref()?.conditions.as_deref().unwrap_or_default();
    let find = |types: &str, status: &str| conditions.iter().find(|one| one.type_ == types && one.status == status);
    let cause = find("NamesAccepted", "False").or_else(|| find("NonStructuralSchema", "True"))?;
    let message = ForeignText::from(cause.message.clone().unwrap_or_default());
    find("Established", "True").is_none().then(|| format!("{} is {}: {message}", cause.type_, cause.status))
}

impl Problems {
    fn sentence(self) -> Option<String> {
        let part =
            |names: Vec<String>, what: &str| (!names.is_empty()).then(|| format!("{}: {what}", names.join(", ")));
        let other = format!(
            "of another version of winpool than this one ({}), fields that it has not are not stored",
            env!("CARGO_PKG_VERSION")
        );
        let parts = [part(self.missing, "not installed"), part(self.other_version, &other)];
        let parts: Vec<_> = parts.into_iter().flatten().chain(self.not_served).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_sentence_names_each_definition_that_is_missing_not_served_or_of_another_version() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(Problems::default().sentence(), None);
        let missing = Problems { missing: names(&["a", "b"]), ..Problems::default() };
        assert_eq!(missing.sentence().as_deref(), Some("a, b: not installed"));
        let all = Problems {
            missing: names(&["a"]),
            not_served: names(&["c: not served, NamesAccepted is False: \"c\" is already in use"]),
            other_version: names(&["b"]),
        };
        let sentence = all.sentence().unwrap();
        assert!(
            sentence.starts_with("a: not installed; b: of another version of winpool than this one (0."),
            "{sentence}"
        );
        assert!(sentence.ends_with("; c: not served, NamesAccepted is False: \"c\" is already in use"), "{sentence}");
    }

    #[test]
    fn a_definition_that_is_not_served_has_the_reason_of_the_api_server() {
        let condition = |types: &str, status: &str, message: &str| json!({"type": types, "status": status, "reason": "Reason", "message": message});
        let established = condition("Established", "True", "");
        let taken = condition("NamesAccepted", "False", "\"wnp\" is already in use");
        for (conditions, expected) in [
            (vec![], None),
            (vec![condition("NamesAccepted", "True", ""), established.clone()], None),
            (vec![condition("NamesAccepted", "True", ""), condition("Established", "False", "")], None),
            (vec![taken.clone()], Some("NamesAccepted is False: \"wnp\" is already in use")),
            // It is served by the names that were accepted before.
            (vec![taken, established], None),
            (
                vec![condition("NonStructuralSchema", "True", "spec.a:\u{1b}[31m Required")],
                Some("NonStructuralSchema is True: spec.a:\\u{1b}[31m Required"),
            ),
        ] {
            let definition = json!({
                "metadata": {"name": "windowsnodepools.winpool.dev"},
                "spec": {
                    "group": "winpool.dev", "names": {"kind": "WindowsNodePool", "plural": "windowsnodepools"},
                    "scope": "Cluster", "versions": [],
                },
                "status": {"conditions": conditions},
            });
            let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
            assert_eq!(refusal(&definition).as_deref(), expected);
        }
    }
}
