//! The templates of machines that the operator would create for Cluster API, with their Secrets.

use std::collections::BTreeMap;

use winpool_check::manifests::LocatedProblem;
use winpool_render::kubeadm::omitted_taint;
use winpool_rules::pool::cluster_api::{DesiredTemplate, labels, secret_object, template_object};

use super::input::{Input, RenderedTemplate};
use crate::render::Documents;

/// Secrets, and the templates that need them.
pub fn machine_objects(input: &Input) -> Result<Documents, Vec<LocatedProblem>> {
    let (pools, mut notes) = input.pools();
    let (mut secrets, mut templates, mut problems) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for of in &pools {
        let (pool, namespace, kind) = (&of.pool.name, &of.rules.namespace, of.rules.kind);
        let labels = labels(pool, &of.rules.cluster);
        if let Some(taint) = input.base_spec(of).and_then(omitted_taint) {
            notes.push(format!(
                "pool {pool}: the taint {taint} of the base template is left out, because a kubelet with cloud-provider=external adds it"
            ));
        }
        let rendered = input.templates(of).unwrap_or_else(|wrong| {
            problems.extend(wrong);
            Vec::new()
        });
        for RenderedTemplate { kubelet, containerd, desired: DesiredTemplate { name, template, .. } } in &rendered {
            if !template.secret.is_empty() {
                let secret = secret_object(name, namespace, &labels, template);
                secrets.insert(format!("secret-{namespace}-{name}"), secret);
            }
            let object = template_object(kind, (name, namespace, &labels), template);
            templates.insert(format!("{}-{namespace}-{name}", kind.bootstrap().name.to_lowercase()), object);
            let versions = format!("kubelet {kubelet} with containerd {containerd}");
            notes.push(format!("pool {pool}: {} {name} is for {versions}", kind.bootstrap()));
        }
    }
    let objects = secrets.into_iter().chain(templates).collect();
    Documents { objects, notes, ..Documents::default() }.without(problems)
}
