//! A diagnosis of a part of what was read.

use winpool_core::text::some_of;

use super::{
    DiagnosisSubject, Evidence, EvidenceLayer,
    case::{name, node_of, pods_of},
};

impl<T> EvidenceLayer<T> {
    fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        if let Self::Read { items, .. } = self {
            items.retain(keep);
        }
    }
}

impl Evidence {
    /// The same evidence about another subject, which is a part of it. A pod whose name only one pod has is found in any namespace.
    ///
    /// # Errors
    /// What was read does not have the subject: which ones it has.
    pub fn about(mut self, subject: DiagnosisSubject) -> Result<Self, String> {
        let nodes: Vec<String> =
            self.nodes().unwrap_or_default().iter().map(|node| name(&node.metadata).to_owned()).collect();
        let pods: Vec<(String, String)> = self
            .pods()
            .unwrap_or_default()
            .iter()
            .map(|pod| (pod.metadata.namespace.clone().unwrap_or_default(), name(&pod.metadata).to_owned()))
            .collect();
        self.subject = match subject {
            DiagnosisSubject::Pod { namespace, name } => {
                let has_name: Vec<_> = pods.iter().filter(|(_, own)| *own == name).collect();
                let own = has_name.iter().find(|(of, _)| *of == namespace).or(match &has_name[..] {
                    [only] => Some(only),
                    _ => None,
                });
                let (namespace, name) = own.ok_or_else(|| {
                    let names = some_of(pods.iter().map(|(namespace, name)| format!("{namespace}/{name}")));
                    format!("it has no pod {namespace}/{name}, but {names}")
                })?;
                DiagnosisSubject::Pod { namespace: namespace.clone(), name: name.clone() }
            }
            DiagnosisSubject::Node { name } if !nodes.contains(&name) => {
                return Err(format!("it has no node {name}, but {}", some_of(&nodes)));
            }
            DiagnosisSubject::Pool { .. } if subject != self.subject => {
                return Err(format!("it is about {}", self.subject));
            }
            other => other,
        };
        let node = match &self.subject {
            DiagnosisSubject::Pool { .. } => return Ok(self),
            DiagnosisSubject::Node { name } => name.clone(),
            DiagnosisSubject::Pod { .. } => {
                let pods = pods_of(&self).unwrap_or_default();
                pods.first().map(|pod| node_of(pod).to_owned()).unwrap_or_default()
            }
        };
        self.nodes.retain(|one| name(&one.metadata) == node);
        self.pods.retain(|pod| node_of(pod) == node);
        self.leases.retain(|lease| name(&lease.metadata) == node);
        self.node_configs.retain(|config| name(&config.metadata) == node);
        self.node_logs.retain(|log| log.node == node);
        Ok(self)
    }
}
