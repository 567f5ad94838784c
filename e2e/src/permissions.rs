//! The permissions that the shipped roles grant, and the requests that use them.

use std::fs;

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use crate::{audit::Request, operator::workspace};

/// A rule of a role of `config/`.
#[derive(Clone, Debug)]
pub struct Rule {
    pub role: String,
    /// The namespace of the role; empty for a ClusterRole.
    pub namespace: String,
    pub rule: PolicyRule,
}

/// One verb for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Empty for every namespace, and for cluster-scoped resources.
    pub namespace: String,
    pub group: String,
    /// The resource with its subresource, for instance `pods/eviction`.
    pub resource: String,
    /// The only name, if the rule has one.
    pub name: Option<String>,
    pub verb: String,
}

pub fn rules(file: &str) -> Result<Vec<Rule>> {
    let text = fs::read_to_string(workspace().join(file)).with_context(|| file.to_owned())?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    let mut rules = Vec::new();
    for role in documents.iter().filter(|role| role["rules"].is_array()) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of_role: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone())?;
        rules.extend(of_role.into_iter().map(|rule| Rule {
            role: text(&role["metadata"]["name"]),
            namespace: text(&role["metadata"]["namespace"]),
            rule,
        }));
    }
    Ok(rules)
}

impl Rule {
    pub fn permissions(&self) -> Vec<Permission> {
        let PolicyRule { api_groups, resources, resource_names, verbs, .. } = &self.rule;
        let names: Vec<Option<&String>> = match resource_names {
            Some(names) => names.iter().map(Some).collect(),
            None => vec![None],
        };
        let mut permissions = Vec::new();
        for group in api_groups.iter().flatten() {
            for resource in resources.iter().flatten() {
                permissions.extend(names.iter().flat_map(|name| {
                    verbs.iter().map(|verb| Permission {
                        namespace: self.namespace.clone(),
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.cloned(),
                        verb: verb.clone(),
                    })
                }));
            }
        }
        permissions
    }
}

impl Permission {
    /// Whether a request needs this permission.
    pub fn permits(&self, request: &Request) -> bool {
        let resource = match request.subresource.as_str() {
            "" => request.resource.clone(),
            subresource => format!("{}/{subresource}", request.resource),
        };
        // A server-side apply that creates an object requires both verbs.
        let is_created = request.verb == "patch" && request.code == 201;
        (self.verb == request.verb || (self.verb == "create" && is_created))
            && self.group == request.group
            && (self.resource == "*" || self.resource == resource)
            && (self.namespace.is_empty() || self.namespace == request.namespace)
            && self.name.as_ref().is_none_or(|name| *name == request.name)
    }
}

/// The permissions of the roles in these files that no successful request has used.
pub fn unused(files: &[&str], requests: &[Request]) -> Result<Vec<Permission>> {
    let mut permissions = Vec::new();
    for file in files {
        permissions.extend(rules(file)?.iter().flat_map(Rule::permissions));
    }
    permissions
        .retain(|permission| !requests.iter().any(|request| !request.is_forbidden() && permission.permits(request)));
    Ok(permissions)
}
