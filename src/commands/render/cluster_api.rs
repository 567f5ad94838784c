//! The templates of machines that the operator would create for Cluster API, with their Secrets.

use std::collections::BTreeMap;

use serde_json::Value;
use winpool_api::facts::cluster_api::ApiVersion;
use winpool_core::{
    manifests::LocatedProblem,
    pool::machines::{labels, secret_object, template_object},
};

use super::machines::{Input, MachinePool, RenderedTemplate};
use crate::commands::output;

/// Secrets and templates, by `kind-namespace-name` in lower case, and notes for the user.
#[derive(Debug, Default)]
pub struct MachineObjects {
    secrets: BTreeMap<String, Value>,
    templates: BTreeMap<String, Value>,
    /// A note for each pool.
    pub notes: Vec<String>,
}

impl MachineObjects {
    /// All objects, in the order of application.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.secrets.values().chain(self.templates.values())
    }

    /// One file for each object.
    pub fn files(&self) -> BTreeMap<String, String> {
        let objects = self.secrets.iter().chain(&self.templates);
        objects.map(|(name, object)| (format!("{name}.yaml"), output::yaml(object))).collect()
    }

    fn add(&mut self, of: &MachinePool, version: ApiVersion, rendered: &[RenderedTemplate]) {
        let namespace = &of.rules.namespace;
        let labels = labels(&of.pool.name, &of.rules.cluster);
        let kind = of.rules.kind;
        for RenderedTemplate { kubelet, containerd, desired } in rendered {
            let name = &desired.name;
            if !desired.template.secret.is_empty() {
                let secret = secret_object(name, namespace, &labels, &desired.template);
                self.secrets.insert(format!("secret-{namespace}-{name}"), secret);
            }
            let object = template_object(kind, version, (name, namespace, &labels), &desired.template);
            let key = format!("{}-{namespace}-{name}", kind.bootstrap().name.to_lowercase());
            self.templates.insert(key, object);
            let versions = format!("kubelet {kubelet} with containerd {containerd}");
            self.notes.push(format!("pool {}: {} {name} is for {versions}", of.pool.name, kind.bootstrap()));
        }
    }
}

/// The objects for all pools.
///
/// # Errors
/// All problems, by file and line.
pub fn machine_objects(input: &Input) -> Result<MachineObjects, Vec<LocatedProblem>> {
    let (pools, notes) = input.pools();
    let (mut found, mut problems) = (MachineObjects { notes, ..MachineObjects::default() }, Vec::new());
    for pool in &pools {
        match input.templates(pool) {
            Ok(rendered) => found.add(pool, input.version, &rendered),
            Err(wrong) => problems.extend(wrong),
        }
    }
    problems.sort();
    problems.dedup();
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}
