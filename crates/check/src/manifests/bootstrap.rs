//! The KubeadmConfigTemplates among manifests, to which pools refer by name.

use serde_json::Value;
use winpool_core::kind::Kind;

use super::{Location, Manifest};

#[derive(Debug, Default)]
pub struct BootstrapTemplates(Vec<BootstrapTemplate>);

#[derive(Debug)]
pub struct BootstrapTemplate {
    /// The object. Its namespace may be absent.
    pub object: Value,
    pub location: Location,
}

impl BootstrapTemplates {
    /// The templates among objects. Only those to which a pool refers are read further.
    pub fn among(objects: &[Manifest]) -> Self {
        let is_template = |manifest: &&Manifest| {
            let Kind { name, group, .. } = Kind::KUBEADM_CONFIG_TEMPLATE;
            manifest.object.kind() == name && manifest.object.group() == group
        };
        let template = |Manifest { object, location }: &Manifest| BootstrapTemplate {
            object: object.value(),
            location: location.clone(),
        };
        Self(objects.iter().filter(is_template).map(template).collect())
    }

    /// The templates with a name in a namespace. Those without a namespace get it when they are applied.
    pub fn named(&self, namespace: &str, name: &str) -> Vec<&BootstrapTemplate> {
        let matches = |template: &&BootstrapTemplate| {
            let metadata = &template.object["metadata"];
            metadata["name"] == name && (metadata["namespace"].is_null() || metadata["namespace"] == namespace)
        };
        self.0.iter().filter(matches).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::{Budget, Manifests, PathSource};

    #[test]
    fn templates_are_found_by_name_and_namespace() {
        let text = "\
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: a, namespace: one}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta1
kind: KubeadmConfigTemplate
metadata: {name: a, namespace: two}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: b}
---
apiVersion: example.com/v1
kind: KubeadmConfigTemplate
metadata: {name: a, namespace: one}
";
        let mut manifests = Manifests::default();
        manifests.add("a.yaml", text.to_owned(), PathSource::Argument, &mut Budget::unbounded());
        let templates = BootstrapTemplates::among(&manifests.objects);
        let versions = |namespace: &str, name: &str| -> Vec<String> {
            let templates = templates.named(namespace, name).into_iter();
            templates.map(|template| template.object["apiVersion"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(versions("one", "a"), ["bootstrap.cluster.x-k8s.io/v1beta2"]);
        // Whoever reads it can say that the version is not supported.
        assert_eq!(versions("two", "a"), ["bootstrap.cluster.x-k8s.io/v1beta1"]);
        assert_eq!(versions("three", "b"), ["bootstrap.cluster.x-k8s.io/v1beta2"]);
        assert_eq!(versions("three", "a"), [""; 0]);
    }
}
