//! Fields that do not exist, as strict decoding by the API server finds them.

use std::sync::LazyLock;

use schemars::SchemaGenerator;
use serde_json::{Map, Value};
use winpool_core::text::{closest, some_of};
use winpool_facts::api_versions::NEWER_FIELDS;

use super::{
    Code, Finding, join,
    workload::{KINDS, WorkloadKind},
};

/// The maximum number of reported fields of an object.
const MAX_FINDINGS: usize = 20;

/// The schemas of all types of workloads, and of the types of their fields, by name.
static TYPES: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let mut generator = SchemaGenerator::default();
    for WorkloadKind { schema, .. } in &KINDS {
        schema(&mut generator);
    }
    generator.take_definitions(false)
});

/// The unknown fields of a workload, with paths in the object. The status is not checked.
pub fn check(kind: &str, object: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(name) = TYPES.keys().find(|name| name.rsplit('.').next() == Some(kind)) {
        let fields = object.as_object().into_iter().flatten().filter(|(field, _)| *field != "status");
        check_fields(name, fields, "", &mut findings);
    }
    findings.truncate(MAX_FINDINGS);
    findings
}

fn check_fields<'v>(
    name: &str,
    fields: impl IntoIterator<Item = (&'v String, &'v Value)>,
    path: &str,
    findings: &mut Vec<Finding>,
) {
    // A type without fields, such as the fields of a manager, has any.
    let Some(properties) = TYPES.get(name).and_then(|schema| schema["properties"].as_object()) else { return };
    for (field, value) in fields {
        match properties.get(field) {
            Some(schema) => check_value(schema, value, &join(path, field), findings),
            None if is_newer(name, field) || field.starts_with('$') => {}
            None => findings.push(unknown(field, path, properties)),
        }
    }
}

/// Whether the field belongs to a later version of Kubernetes.
fn is_newer(name: &str, field: &str) -> bool {
    NEWER_FIELDS.iter().any(|(of, fields)| *of == name && fields.contains(&field))
}

fn unknown(field: &str, path: &str, properties: &Map<String, Value>) -> Finding {
    let remedy = match closest(field, properties.keys().map(String::as_str)) {
        Some(known) => format!("write {known}"),
        None => format!("remove it, or write one of {}", some_of(properties.keys())),
    };
    let at = if field.contains(['.', '/']) { format!("{path}[{field}]") } else { join(path, field) };
    Finding::new(Code::UnknownField, at, format!("the field {field} does not exist")).with_remedy(remedy)
}

fn check_value(schema: &Value, value: &Value, path: &str, findings: &mut Vec<Finding>) {
    match value {
        Value::Object(fields) => {
            if let Some(name) = type_name(schema) {
                check_fields(name, fields, path, findings);
            } else if let Some(entry) = schema.get("additionalProperties") {
                fields.iter().for_each(|(key, value)| check_value(entry, value, &format!("{path}[{key}]"), findings));
            }
        }
        Value::Array(items) => {
            let Some(item) = schema.get("items") else { return };
            for (index, value) in items.iter().enumerate() {
                check_value(item, value, &format!("{path}[{index}]"), findings);
            }
        }
        _ => {}
    }
}

/// The name of the type that a schema refers to, directly or with a description.
fn type_name(schema: &Value) -> Option<&str> {
    let references = schema["allOf"].as_array().into_iter().flatten().chain([schema]);
    references.filter_map(|schema| schema["$ref"].as_str()?.rsplit('/').next()).next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(kind: &str, object: &Value) -> Vec<String> {
        check(kind, object).into_iter().map(|finding| format!("{}: {}", finding.path, finding.remedy)).collect()
    }

    #[test]
    fn every_kind_has_a_schema() {
        for WorkloadKind { name, .. } in &KINDS {
            let of_kind = |(known, schema): (&String, &Value)| {
                known.rsplit('.').next() == Some(name) && schema["properties"]["metadata"].is_object()
            };
            assert!(TYPES.iter().any(of_kind), "{name}");
        }
        for (name, fields) in NEWER_FIELDS {
            let properties = TYPES[*name]["properties"].as_object().unwrap();
            assert!(fields.iter().all(|field| !properties.contains_key(*field)), "{name} has all of {fields:?}");
        }
    }

    #[test]
    fn unknown_and_misspelled_fields_are_found_at_any_depth() {
        let spec = json!({
            "nodeselector": {},
            "tolerations": [{"key": "os", "Effect": "NoSchedule"}],
            "containers": [{"name": "a", "securityContext": {"windowsOptions": {"hostprocess": true}}, "xyz": 1}],
            "initContainers": [{"resources": {"limit": {}}}],
            "volumes": [{"configMap": {"defaultUser": 1, "items": [{"kye": 1}]}}],
        });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "status": {"any": 1},
            "metadata": {"name": "a", "managedFields": [{"fieldsV1": {"f:any": {}}}], "annotations": {"any/thing": "x"}},
            "spec": {"template": {"metadata": {"lables": {}}, "spec": spec}, "$patch": "replace", "replica": 1},
        });
        let expected = [
            "spec.template.spec.tolerations[0].Effect: write effect",
            "spec.template.spec.volumes[0].configMap.items[0].kye: write key",
            "spec.template.metadata.lables: write labels",
            "spec.template.spec.nodeselector: write nodeSelector",
            "spec.template.spec.initContainers[0].resources.limit: write limits",
            "spec.template.spec.containers[0].securityContext.windowsOptions.hostprocess: write hostProcess",
            "spec.template.spec.containers[0].xyz: remove it, or write one of args, command, env, envFrom, image and 19 more",
            "spec.replica: write replicas",
        ];
        let found = found("Deployment", &deployment);
        assert_eq!(
            found.iter().collect::<std::collections::BTreeSet<_>>(),
            expected.map(str::to_owned).iter().collect()
        );
    }

    #[test]
    fn valid_objects_have_no_unknown_fields() {
        let container = json!({"name": "a", "image": "a:1", "ports": [{"containerPort": 80}], "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
            "livenessProbe": {"httpGet": {"port": "http", "httpHeaders": [{"name": "a", "value": "b"}]}}, "resources": {"limits": {"cpu": 1}}});
        let pod = json!({"spec": {"containers": [container], "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "a", "labelSelector": {"matchLabels": {"a": "b"}}}}]}},
            "volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}]}});
        let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"backoffLimit": 1, "template": pod}}}});
        assert_eq!(found("CronJob", &cron), Vec::<String>::new());
        assert_eq!(found("Pod", &json!([])), Vec::<String>::new());
        assert_eq!(found("ConfigMap", &json!({"anything": 1})), Vec::<String>::new());
    }
}
