//! Variables and patches for a ClusterClass, with which its topology adds the settings of a pool to templates of machines.
//!
//! Source: kubernetes-sigs/cluster-api v1.14.0, `api/core/v1beta2/clusterclass_types.go`,
//! `core/webhooks/admission/patch_validation.go` and
//! `docs/book/src/tasks/experimental-features/cluster-class/write-clusterclass.md`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use winpool_check::manifests::LocatedProblem;
use winpool_core::{Problem, kind::Kind};
use winpool_render::{comment_lines, kubeadm::JsonPatches};
use winpool_rules::pool::cluster_api::{GroupKind, labels, secret_object};

use super::input::{DeliveredPool, Input, RenderedTemplate};
use crate::{output, render::Documents};

/// The most operations of one definition.
const MAX_OPERATIONS: usize = 100;

/// A document for each pool, and for each Secret.
pub fn cluster_class_patches(input: &Input, class: Option<&str>) -> Result<Documents, Vec<LocatedProblem>> {
    let (pools, notes) = input.pools();
    let (mut found, mut problems) = (Documents { notes, ..Documents::default() }, Vec::new());
    let mut variables: BTreeMap<String, &str> = BTreeMap::new();
    for of in &pools {
        let name = of.pool.name.as_str();
        if let Some(other) = variables.insert(variable(name), name) {
            let wrong = format!("pools {other} and {name} would have the same variable {}", variable(name));
            problems.push(of.problem(Problem::new("metadata.name", wrong, "render their files one by one")));
        }
        match input.templates(of).and_then(|rendered| one_containerd(of, rendered)) {
            Ok(rendered) => found.texts.extend(documents(input, of, class.unwrap_or(name), &rendered)),
            Err(wrong) => problems.extend(wrong),
        }
    }
    found.as_yaml().without(problems)
}

/// A ClusterClass knows the version of Kubernetes, but not that of containerd.
fn one_containerd(
    of: &DeliveredPool,
    rendered: Vec<RenderedTemplate>,
) -> Result<Vec<RenderedTemplate>, Vec<LocatedProblem>> {
    let minors: BTreeSet<_> = rendered.iter().map(|template| template.kubelet).collect();
    if minors.len() == rendered.len() {
        return Ok(rendered);
    }
    let wrong = "a ClusterClass cannot distinguish the versions of containerd";
    let remedy = "write the one of the machine image, or render for one with --containerd";
    Err(vec![of.problem(Problem::new("spec.delivery.clusterAPI.containerdVersion", wrong, remedy))])
}

fn documents(
    input: &Input,
    of: &DeliveredPool,
    class: &str,
    rendered: &[RenderedTemplate],
) -> BTreeMap<String, String> {
    let (pool, namespace) = (of.pool.name.as_str(), of.rules.namespace.as_str());
    let (mut documents, mut patches, mut assumed) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
    for RenderedTemplate { kubelet, containerd, desired } in rendered {
        let found = desired.template.patches(input.base_spec(of), &desired.name);
        assumed.extend(assumptions(&found));
        let version = match of.rules.kind {
            GroupKind::Deployment => ".builtin.machineDeployment.version",
            GroupKind::Pool => ".builtin.machinePool.version",
        };
        patches.push(json!({
            "name": format!("{pool}-kubelet-{kubelet}"),
            "description": format!("Adds WindowsNodePool {pool}, for kubelet {kubelet} with containerd {containerd}."),
            "enabledIf": format!("{{{{ and .{} (semverCompare \"~{kubelet}.0-0\" {version}) }}}}", variable(pool)),
            "definitions": definitions(of.rules.kind, class, &found.operations),
        }));
        if !desired.template.secret.is_empty() {
            let labels = labels(pool, &of.rules.cluster);
            let secret = secret_object(&desired.name, namespace, &labels, &desired.template);
            documents.insert(format!("secret-{namespace}-{}.yaml", desired.name), output::yaml(&secret));
        }
    }
    let variable = json!({
        "name": variable(pool),
        "required": false,
        "schema": {"openAPIV3Schema": {
            "type": "boolean",
            "default": false,
            "description": format!("Whether machines get the settings of WindowsNodePool {pool}."),
        }},
    });
    let body = json!({"spec": {"variables": [variable], "patches": patches}});
    let comment = comment_lines(&comment(of, &assumed.into_iter().collect::<Vec<_>>()));
    documents.insert(format!("{pool}.yaml"), format!("{comment}{}", output::yaml(&body)));
    documents
}

/// The definitions of a patch, each with as many operations as one can have.
fn definitions(kind: GroupKind, class: &str, operations: &[Value]) -> Vec<Value> {
    let field = match kind {
        GroupKind::Deployment => "machineDeploymentClass",
        GroupKind::Pool => "machinePoolClass",
    };
    let definition = |operations: &[Value]| {
        json!({
            "selector": {
                "apiVersion": Kind::KUBEADM_CONFIG_TEMPLATE.api_version(),
                "kind": Kind::KUBEADM_CONFIG_TEMPLATE.name,
                "matchResources": {field: {"names": [class]}},
            },
            "jsonPatches": operations,
        })
    };
    operations.chunks(MAX_OPERATIONS).map(definition).collect()
}

/// The variable that enables the patches of a pool: a name that Go templates can refer to.
fn variable(pool: &str) -> String {
    let capitalized = |part: &str| {
        let mut characters = part.chars();
        let first = characters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(characters).collect::<String>()
    };
    format!("winpool{}", pool.split(['-', '.']).map(capitalized).collect::<String>())
}

fn comment(of: &DeliveredPool, assumptions: &[String]) -> String {
    let known = match &of.rules.template_from {
        Some(name) => format!("The patches are made for the content of KubeadmConfigTemplate {name}."),
        None => {
            "The patches are made for a template that has only joinConfiguration.nodeRegistration.criSocket, because\n\
                 spec.delivery.clusterAPI.templateFrom names none."
                .to_owned()
        }
    };
    format!(
        "Pool {}: append these variables and patches to spec.variables and spec.patches of the ClusterClass. Set the variable\n\
         to true in the Cluster, for all machines of the class, or in variables.overrides of one group of machines.\n\
         {known}\n\
         JSON patches cannot merge, and assume of the template of the class:\n{}",
        of.pool.name,
        assumptions.concat()
    )
}

fn assumptions(patches: &JsonPatches) -> impl Iterator<Item = String> {
    let line =
        |text: &str, fields: &[String]| (!fields.is_empty()).then(|| format!("- {text}: {}\n", fields.join(", ")));
    [
        line("these lists exist, and get further items", &patches.appended),
        line("these fields do not exist, or are replaced", &patches.added),
        line("these fields have the known values, and are replaced", &patches.replaced),
    ]
    .into_iter()
    .flatten()
}
