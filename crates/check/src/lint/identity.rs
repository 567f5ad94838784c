//! What pods for Windows run as: gMSAs, with what the manifests have of their credential specs and permissions, and users.

use std::collections::BTreeSet;

use serde_json::Value;
use winpool_core::{image::Reference, json_path::fields, placeholder, text::did_you_mean};
use winpool_facts::pod_fields::{CONTAINER_USERS, GMSA_GROUP, GMSA_RESOURCE, GMSA_VERB, LOCAL_DOMAINS, LOCAL_USERS};
use winpool_workload::{is_host_process, windows_option};

use super::{Code, Finding, Workload, image_name::is_windows_image, windows_options::user_problem};
use crate::{gmsa, manifests::Object};

/// The credential specs in the manifests, and who may use them.
#[derive(Default)]
pub struct Identities {
    specs: BTreeSet<String>,
    /// Roles and their bindings, if a role is for credential specs.
    rbac: Vec<Value>,
    /// Whether pods have gMSAs, and there is no credential spec.
    pub is_unchecked: bool,
}

impl Identities {
    pub fn new<'o>(objects: impl Iterator<Item = &'o Object> + Clone) -> Self {
        let of = |group: &'static str| objects.clone().filter(move |object| object.group() == group).map(Object::value);
        let specs: BTreeSet<_> =
            of(GMSA_GROUP).filter_map(|spec| Some(spec["metadata"]["name"].as_str()?.to_owned())).collect();
        let rbac: Vec<_> = of("rbac.authorization.k8s.io").collect();
        let is_about = |role: &Value| fields(role, "rules[].resources").iter().any(|(_, of)| has(of, GMSA_RESOURCE));
        let is_unchecked = specs.is_empty() && objects.clone().any(|object| object.contains("gmsaCredentialSpecName"));
        Self { specs, rbac: if rbac.iter().any(is_about) { rbac } else { Vec::new() }, is_unchecked }
    }

    /// Credential specs of a pod that are missing, or that its ServiceAccount may not use.
    pub fn check(&self, workload: &Workload<'_>, spec: &Value) -> Vec<Finding> {
        let account = spec["serviceAccountName"].as_str().unwrap_or("default");
        let mut findings = Vec::new();
        for (path, name, _) in gmsa::names(spec).filter(|(_, name, _)| !placeholder::is_in(name)) {
            if !self.specs.is_empty() && !self.specs.contains(name) {
                let similar = did_you_mean(name, self.specs.iter().map(String::as_str));
                let finding = Finding::new(Code::Gmsa, &path, format!("no manifest has the GMSACredentialSpec {name}"));
                findings.push(finding.with_remedy(format!("{similar}add its manifest")));
            }
            let is_judged = !self.rbac.is_empty() && !placeholder::is_in(account);
            if is_judged && !self.may_use(workload.namespace(), account, name) {
                let problem = format!("no binding lets the ServiceAccount {account} use the GMSACredentialSpec {name}");
                findings.push(Finding::new(Code::Gmsa, path, problem));
            }
        }
        findings
    }

    /// Whether a binding lets a ServiceAccount use a credential spec, or has a role that is not in the manifests. The webhook asks for the
    /// namespace of the pod, so that a RoleBinding there is enough.
    fn may_use(&self, namespace: &str, account: &str, spec: &str) -> bool {
        // An object without a namespace gets one when it is applied.
        let is_there = |of: &Value| namespace.is_empty() || of.as_str().is_none_or(|of| of == namespace);
        let user = format!("system:serviceaccount:{namespace}:{account}");
        let is_subject = |subject: &Value| match subject["kind"].as_str() {
            Some("ServiceAccount") => subject["name"] == account && is_there(&subject["namespace"]),
            // A group is system:serviceaccounts, or that of a namespace.
            _ if namespace.is_empty() => true,
            _ => subject["name"].as_str().is_some_and(|name| user.starts_with(&name.replace("accounts", "account"))),
        };
        let applies = |binding: &&Value| {
            (binding["kind"] == "ClusterRoleBinding" || is_there(&binding["metadata"]["namespace"]))
                && fields(binding, "subjects[]").into_iter().any(|(_, subject)| is_subject(subject))
        };
        self.rbac.iter().filter(applies).any(|binding| {
            let of = &binding["roleRef"];
            let is_role = |role: &&Value| role["kind"] == of["kind"] && role["metadata"]["name"] == of["name"];
            let mut roles = self.rbac.iter().filter(is_role).peekable();
            roles.peek().is_none() || roles.any(|role| grants(role, spec))
        })
    }
}

fn has(list: &Value, text: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|one| one == "*" || one == text))
}

/// Whether a role permits to use a credential spec, or has the rules of others.
fn grants(role: &Value, spec: &str) -> bool {
    let permits = |rule: &Value| {
        let permitted = [("verbs", GMSA_VERB), ("apiGroups", GMSA_GROUP), ("resources", GMSA_RESOURCE)];
        let names = rule["resourceNames"].as_array().filter(|names| !names.is_empty());
        permitted.iter().all(|(field, text)| has(&rule[*field], text))
            && names.is_none_or(|names| names.iter().any(|name| name == spec))
    };
    !role["aggregationRule"].is_null() || fields(role, "rules[]").into_iter().any(|(_, rule)| permits(rule))
}

/// The findings of a GMSACredentialSpec.
pub fn credential_spec(object: &Value) -> Vec<Finding> {
    let problems = gmsa::problems(object).into_iter();
    problems.map(|found| Finding::new(Code::Gmsa, found.path, found.wrong).with_remedy(found.remedy)).collect()
}

/// Users that no container has. A HostProcess container may run as any user of the host and of its domain.
pub fn users(spec: &Value) -> BTreeSet<Finding> {
    let containers = fields(spec, "containers[]").into_iter().filter(|container| !is_host_process(spec, container));
    let finding = |container: (String, &Value)| {
        let (path, user) = windows_option(spec, &container, "runAsUserName")?;
        let user = user.as_str().filter(|user| !placeholder::is_in(user) && user_problem(user).is_none())?;
        let (domain, name) = user.split_once('\\').unwrap_or(("", user));
        let is_known = |names: &[&str], name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        let problem = if domain.is_empty() {
            let image: Reference = container.1["image"].as_str()?.parse().ok()?;
            let is_of_microsoft = image.registry() == "mcr.microsoft.com" && is_windows_image(&image);
            let is_missing = is_of_microsoft && !is_known(&CONTAINER_USERS, name) && !is_known(&LOCAL_USERS, name);
            is_missing.then(|| format!("{image} is an image of Microsoft, and has no user {user}"))
        } else {
            let problem = || format!("{user} is a user of a domain, and a container has only local users");
            (!is_known(&LOCAL_DOMAINS, domain)).then(problem)
        };
        Some(Finding::new(Code::UserUnknown, path, problem?))
    };
    containers.filter_map(finding).collect()
}
