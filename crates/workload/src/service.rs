//! Services, reduced to what known issues of kube-proxy depend on.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};
use winpool_core::{
    bounded::{MAX_LABELS, weight},
    named, object_key,
};
use winpool_facts::known_issues::ServiceFeature;

use super::Pod;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its namespace and name, as `namespace/name`.
    pub key: Arc<str>,
    pub namespace: String,
    /// What known issues depend on.
    pub features: Vec<ServiceFeature>,
    /// The labels of its pods; empty if there is no feature.
    selector: BTreeMap<String, String>,
    /// Whether its selector has more labels than are kept: it then counts as a Service without features.
    pub oversized: bool,
}

named!(Service: key);

impl From<core::Service> for Service {
    fn from(object: core::Service) -> Self {
        let spec = object.spec.unwrap_or_default();
        let read = json!({
            "clusterIP": spec.cluster_ip,
            "externalTrafficPolicy": spec.external_traffic_policy,
            "internalTrafficPolicy": spec.internal_traffic_policy,
            "ipFamilyPolicy": spec.ip_family_policy,
            "type": spec.type_,
        });
        let mut features = service_features(&read);
        let oversized = weight(&spec.selector) > MAX_LABELS;
        if oversized {
            features.clear();
        }
        let selector = spec.selector.filter(|_| !features.is_empty()).unwrap_or_default();
        let key = object_key(&object.metadata).into();
        Self { key, namespace: object.metadata.namespace.unwrap_or_default(), features, selector, oversized }
    }
}

impl Service {
    /// Whether a pod is one of its endpoints, once it is ready. A pod with more labels than are kept does not count as one.
    pub fn selects(&self, pod: &Pod) -> bool {
        let Some(labels) = &pod.labels else { return false };
        let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
        self.namespace == pod.workload.namespace && !self.selector.is_empty() && self.selector.iter().all(has)
    }
}

/// What known issues depend on in the spec of a Service. kube-proxy ignores Services without a cluster IP (kubernetes/kubernetes,
/// `pkg/proxy/util/utils.go`, `ShouldSkipService`).
pub fn service_features(spec: &Value) -> Vec<ServiceFeature> {
    if spec["clusterIP"] == "None" || spec["type"] == "ExternalName" {
        return Vec::new();
    }
    let uses = |feature: &ServiceFeature| {
        let (field, value) = feature.field();
        spec[field] == value
    };
    ServiceFeature::ALL.into_iter().filter(uses).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shared;

    fn service(spec: Value) -> Service {
        let object = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": spec});
        serde_json::from_value::<core::Service>(object).unwrap().into()
    }

    #[test]
    fn a_service_with_a_cluster_ip_uses_what_its_fields_have() {
        use ServiceFeature::*;
        let (local, dual) = ("internalTrafficPolicy", "ipFamilyPolicy");
        let table: [(Value, &[ServiceFeature]); 8] = [
            (json!({}), &[]),
            (json!({local: "Cluster", dual: "PreferDualStack"}), &[]),
            (json!({local: "Local"}), &[InternalTrafficLocal]),
            (json!({local: "Local", "clusterIP": "10.0.0.7"}), &[InternalTrafficLocal]),
            (json!({"externalTrafficPolicy": "Local"}), &[ExternalTrafficLocal]),
            (json!({local: "Local", dual: "RequireDualStack"}), &[InternalTrafficLocal, DualStack]),
            (json!({local: "Local", "clusterIP": "None"}), &[]),
            (json!({local: "Local", "type": "ExternalName"}), &[]),
        ];
        for (spec, features) in table {
            assert_eq!(service(spec.clone()).features, features, "{spec}");
        }
    }

    #[test]
    fn a_service_with_a_large_selector_has_no_features() {
        let selector = |count: usize| (0..count).map(|number| (format!("l{number}"), json!(""))).collect::<Value>();
        for (count, oversized) in [(100, false), (1000, true)] {
            let service = service(json!({"internalTrafficPolicy": "Local", "selector": selector(count)}));
            assert_eq!((service.oversized, service.features.is_empty()), (oversized, oversized), "{count}");
        }
    }

    #[test]
    fn a_service_selects_the_pods_of_its_namespace_with_all_of_its_labels() {
        let pod = |namespace: &str, labels: Value| {
            let object = json!({"metadata": {"namespace": namespace, "name": "web-1", "labels": labels}});
            Pod::read(serde_json::from_value(object).unwrap(), &mut Shared::default())
        };
        let of_web = json!({"app": "web", "tier": "front"});
        let table = [
            (json!({"app": "web"}), pod("shop", of_web.clone()), true),
            (json!({"app": "web", "tier": "front"}), pod("shop", of_web.clone()), true),
            (json!({"app": "web", "tier": "back"}), pod("shop", of_web.clone()), false),
            (json!({"app": "web"}), pod("other", of_web.clone()), false),
            (json!({}), pod("shop", of_web), false),
            (json!({"app": "web"}), pod("shop", json!(null)), false),
        ];
        for (selector, pod, expected) in table {
            let service = service(json!({"internalTrafficPolicy": "Local", "selector": selector}));
            assert_eq!(service.selects(&pod), expected, "{selector} {:?}", pod.labels);
        }
    }
}
