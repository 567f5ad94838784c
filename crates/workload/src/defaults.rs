//! The memory defaults of a namespace, from its LimitRanges.

use k8s_openapi::api::core::v1::LimitRange;
use winpool_core::named;

use super::{Template, template::memory};

/// The memory defaults of a LimitRange for containers. The API server completes them when it stores the LimitRange
/// (kubernetes/kubernetes, `pkg/apis/core/v1/defaults.go`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryDefaults {
    /// Its namespace and name, as `namespace/name`.
    pub key: String,
    pub namespace: String,
    /// The default request, in bytes.
    request: Option<i64>,
    /// The default limit, in bytes.
    limit: Option<i64>,
}

named!(MemoryDefaults: key);

impl From<LimitRange> for MemoryDefaults {
    fn from(object: LimitRange) -> Self {
        let namespace = object.metadata.namespace.unwrap_or_default();
        let items = object.spec.map(|spec| spec.limits).unwrap_or_default();
        let of_containers = || items.iter().filter(|item| item.type_ == "Container");
        Self {
            key: format!("{namespace}/{}", object.metadata.name.unwrap_or_default()),
            namespace,
            request: of_containers().find_map(|item| memory(item.default_request.as_ref())),
            limit: of_containers().find_map(|item| memory(item.default.as_ref())),
        }
    }
}

impl MemoryDefaults {
    /// Applies the defaults to a template. The request of a container that has only a limit is its limit.
    pub fn fill_in(&self, mut template: Template) -> Template {
        for container in &mut template.containers {
            container.memory_request = container.memory_request.or(container.memory_limit).or(self.request);
            container.memory_limit = container.memory_limit.or(self.limit);
        }
        template
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Container;

    #[test]
    fn a_container_without_request_or_limit_gets_the_defaults() {
        let range = json!({
            "metadata": {"namespace": "shop", "name": "memory"},
            "spec": {"limits": [
                {"type": "Pod", "max": {"memory": "9Gi"}},
                {"type": "Container", "default": {"memory": "2Gi"}, "defaultRequest": {"memory": "1Gi"}},
            ]},
        });
        let defaults: MemoryDefaults = serde_json::from_value::<LimitRange>(range).unwrap().into();
        let gibibytes = |amount: i64| amount << 30;
        let table = [
            ((None, None), (1, 2)),
            ((Some(2), None), (2, 2)),
            ((None, Some(3)), (3, 3)),
            ((Some(1), Some(3)), (1, 3)),
        ];
        for ((request, limit), (requests, limits)) in table {
            let container = Container {
                memory_request: request.map(gibibytes),
                memory_limit: limit.map(gibibytes),
                ..Container::default()
            };
            let filled = defaults.fill_in(Template { containers: vec![container], ..Template::default() });
            let [container] = filled.containers.as_slice() else { panic!("one container") };
            let expected = (Some(gibibytes(requests)), Some(gibibytes(limits)));
            assert_eq!((container.memory_request, container.memory_limit), expected, "{request:?} {limit:?}");
        }
        assert_eq!(defaults.key, "shop/memory");
    }
}
