//! Reduces objects to the fields that a diagnosis needs, without credentials in their texts.

use serde_json::Value;
use winpool_core::masking::{MASK, masked};
use winpool_facts::runtime_errors;

use super::{checks::with_expiry, errors::NOT_STARTED, evidence::EvidencePart};

/// The fields of each part that are kept, with everything below them. A path through a list is through each of its items. A path
/// that ends in `{}` keeps that there is a value, without its fields or its text. A key may have dots.
const fn fields(part: EvidencePart) -> &'static [&'static str] {
    match part {
        EvidencePart::Pools => POOLS,
        EvidencePart::Nodes => &[
            "metadata.annotations.flannel.alpha.coreos.com/node-public-ip",
            "metadata.annotations.flannel.alpha.coreos.com/public-ip",
            "metadata.annotations.flannel.alpha.coreos.com/public-ip-overwrite",
            "metadata.annotations.projectcalico.org/IPv4Address",
            "metadata.creationTimestamp",
            "metadata.labels",
            "metadata.name",
            "metadata.uid",
            "spec.taints",
            "spec.unschedulable",
            "status.addresses",
            "status.allocatable",
            "status.capacity",
            "status.conditions",
            "status.daemonEndpoints",
            "status.nodeInfo",
        ],
        EvidencePart::Pods => PODS,
        EvidencePart::Events => &[
            "count",
            "eventTime",
            "firstTimestamp",
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.uid",
            "lastTimestamp",
            "message",
            "metadata.name",
            "metadata.namespace",
            "reason",
            "reportingComponent",
            "source.component",
            "type",
        ],
        EvidencePart::DaemonSets => &[
            "metadata.name",
            "metadata.namespace",
            "metadata.uid",
            "spec.selector.{}",
            "spec.template.spec.affinity.{}",
            "spec.template.spec.containers.image",
            "spec.template.spec.containers.name",
            "spec.template.spec.nodeSelector",
        ],
        EvidencePart::Leases => &["metadata.name", "metadata.namespace", "spec.renewTime"],
        EvidencePart::EndpointSlices => &[
            "addressType",
            "endpoints.addresses",
            "endpoints.conditions.ready",
            "endpoints.targetRef.kind",
            "endpoints.targetRef.name",
            "endpoints.targetRef.namespace",
            "metadata.labels.kubernetes.io/service-name",
            "metadata.name",
            "metadata.namespace",
        ],
        EvidencePart::Claims => &["metadata.name", "metadata.namespace", "spec.storageClassName", "spec.volumeName"],
        EvidencePart::Volumes => VOLUMES,
        EvidencePart::StorageClasses => {
            &["metadata.name", "parameters.csi.storage.k8s.io/fstype", "parameters.fsType", "provisioner"]
        }
        EvidencePart::CsiNodes => &["metadata.name", "spec.drivers.allocatable", "spec.drivers.name"],
        EvidencePart::Machines => &[
            "metadata.creationTimestamp",
            "metadata.deletionTimestamp",
            "metadata.name",
            "metadata.namespace",
            "metadata.ownerReferences",
            "metadata.labels",
            "status.nodeRef.name",
            "status.phase",
        ],
        EvidencePart::MachineDeployments | EvidencePart::MachinePools | EvidencePart::MachineSets => {
            &["metadata.labels", "metadata.name", "metadata.namespace", "status.conditions"]
        }
        EvidencePart::NodeConfigs => &[
            "apiVersion",
            "kind",
            "metadata.name",
            "spec",
            "status.diagnosis",
            "status.facts",
            "status.message",
            "status.phase",
            "status.reason",
        ],
        // The input of a plug-in may be a password.
        EvidencePart::CredentialSpecs => &[
            "credspec.ActiveDirectoryConfig.GroupManagedServiceAccounts",
            "credspec.CmsPlugins",
            "credspec.DomainJoinConfig",
            "metadata.name",
        ],
        EvidencePart::MutatingWebhooks => &[
            "metadata.name",
            "webhooks.clientConfig.expires",
            "webhooks.clientConfig.service",
            "webhooks.failurePolicy",
            "webhooks.name",
        ],
        // They are no objects.
        EvidencePart::NodeLogs | EvidencePart::Images | EvidencePart::AccessReviews => &[],
    }
}

const POOLS: &[&str] =
    &["apiVersion", "kind", "metadata.annotations.winpool.dev/acknowledge-issues", "metadata.name", "spec", "status"];

#[rustfmt::skip] // the types of volumes, without their parameters
const VOLUMES: &[&str] = &[
    "metadata.name", "spec.awsElasticBlockStore.{}", "spec.azureDisk.{}", "spec.azureFile.{}", "spec.csi.driver", "spec.csi.fsType",
    "spec.flexVolume.{}", "spec.gcePersistentDisk.{}", "spec.iscsi.{}", "spec.nfs.{}", "spec.vsphereVolume.{}",
];

const PODS: &[&str] = &[
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.ownerReferences",
    "metadata.uid",
    "spec.containers.image",
    "spec.containers.lifecycle.postStart.{}",
    "spec.containers.livenessProbe.exec.{}",
    "spec.containers.name",
    "spec.containers.readinessProbe.exec.{}",
    "spec.containers.securityContext.runAsUser",
    "spec.containers.securityContext.windowsOptions.gmsaCredentialSpec.{}",
    "spec.containers.securityContext.windowsOptions.gmsaCredentialSpecName",
    "spec.containers.securityContext.windowsOptions.hostProcess",
    "spec.containers.startupProbe.exec.{}",
    "spec.containers.volumeMounts.mountPath",
    "spec.containers.volumeMounts.name",
    "spec.containers.volumeMounts.subPath",
    "spec.dnsPolicy",
    "spec.hostNetwork",
    "spec.initContainers.image",
    "spec.initContainers.name",
    "spec.initContainers.securityContext.windowsOptions.gmsaCredentialSpec.{}",
    "spec.initContainers.securityContext.windowsOptions.gmsaCredentialSpecName",
    "spec.initContainers.volumeMounts.mountPath",
    "spec.initContainers.volumeMounts.name",
    "spec.initContainers.volumeMounts.subPath",
    "spec.nodeName",
    "spec.nodeSelector",
    "spec.os",
    "spec.runtimeClassName",
    "spec.securityContext.runAsUser",
    "spec.securityContext.windowsOptions.gmsaCredentialSpec.{}",
    "spec.securityContext.windowsOptions.gmsaCredentialSpecName",
    "spec.securityContext.windowsOptions.hostProcess",
    "spec.serviceAccountName",
    "spec.volumes.awsElasticBlockStore.{}",
    "spec.volumes.azureDisk.{}",
    "spec.volumes.azureFile.{}",
    "spec.volumes.csi.driver",
    "spec.volumes.csi.fsType",
    "spec.volumes.ephemeral.{}",
    "spec.volumes.fc.{}",
    "spec.volumes.flexVolume.{}",
    "spec.volumes.gcePersistentDisk.{}",
    "spec.volumes.image.{}",
    "spec.volumes.iscsi.{}",
    "spec.volumes.name",
    "spec.volumes.nfs.{}",
    "spec.volumes.persistentVolumeClaim.claimName",
    "spec.volumes.vsphereVolume.{}",
    "status.conditions",
    "status.containerStatuses",
    "status.initContainerStatuses",
    "status.message",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.reason",
    "status.startTime",
];

/// An object of a part, reduced to the fields that a diagnosis needs. No text in it has a credential, as far as its form shows.
pub fn reduced(part: EvidencePart, object: Value) -> Value {
    let object = if part == EvidencePart::MutatingWebhooks { with_expiry(object) } else { object };
    let mut object = kept(object, fields(part)).unwrap_or(Value::Null);
    if part == EvidencePart::Pods {
        remove_output(&mut object);
    }
    object
}

fn kept(value: Value, paths: &[&str]) -> Option<Value> {
    match value {
        Value::Array(items) => Some(items.into_iter().filter_map(|item| kept(item, paths)).collect()),
        Value::Object(fields) => {
            let fields = fields.into_iter().filter_map(|(key, value)| {
                let below: Vec<&str> = paths.iter().filter_map(|path| rest(path, &key)).collect();
                let value = match &below[..] {
                    [] => None,
                    // The name of an image is no credential, also if it has the form of one.
                    below if below.contains(&"") && key == "image" => Some(value),
                    below if below.contains(&"") => Some(masked_value(value)),
                    below => kept(value, below),
                };
                Some((key, value?))
            });
            Some(Value::Object(fields.collect()))
        }
        Value::String(_) if paths.contains(&"{}") => Some(MASK.into()),
        _ => None,
    }
}

/// The part of a path after its first field, if that is `key`.
fn rest<'p>(path: &'p str, key: &str) -> Option<&'p str> {
    match path.strip_prefix(key)? {
        "" => Some(""),
        below => below.strip_prefix('.'),
    }
}

fn masked_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(masked(&text)),
        Value::Array(items) => items.into_iter().map(masked_value).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, masked_value(value))).collect(),
        other => other,
    }
}

/// Removes what programs in containers have written: the message of a container that ended is its termination log, or the end
/// of its output. Messages of the container runtime about a container that did not start, or an image that does not match, stay.
fn remove_output(pod: &mut Value) {
    let status = pod.get_mut("status").and_then(Value::as_object_mut);
    let lists = status.into_iter().flatten().filter(|(key, _)| key.ends_with("ontainerStatuses"));
    for container in lists.filter_map(|(_, list)| list.as_array_mut()).flatten() {
        for state in ["state", "lastState"] {
            let terminated = container.get_mut(state).and_then(|state| state.get_mut("terminated"));
            if let Some(terminated) = terminated.and_then(Value::as_object_mut) {
                let reason = terminated.get("reason").and_then(Value::as_str);
                let never_ran = reason.is_some_and(|reason| NOT_STARTED.contains(&reason));
                let is_of_runtime = |text: &Value| text.as_str().is_some_and(runtime_errors::is_platform_mismatch);
                terminated.retain(|key, value| key != "message" || never_ran || is_of_runtime(value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_keeps_no_environment_command_or_output() {
        let pod = json!({
            "metadata": {"name": "web", "annotations": {"a": "planted"}},
            "spec": {
                "nodeName": "win-1",
                "securityContext": {"windowsOptions": {"gmsaCredentialSpec": "planted"}},
                "containers": [{
                    "name": "app", "image": "app-token:1.2", "args": ["planted"], "command": ["planted"],
                    "env": [{"name": "A", "value": "planted"}],
                    "livenessProbe": {"exec": {"command": ["planted"]}},
                }],
                "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"key": "planted"}}}],
            },
            "status": {"containerStatuses": [{
                "name": "app",
                "state": {"terminated": {"exitCode": 1, "message": "planted"}},
                "lastState": {"terminated": {"exitCode": 1, "message": "x: 0xc0370101"}},
            }]},
        });
        let expected = json!({
            "metadata": {"name": "web"},
            "spec": {
                "nodeName": "win-1",
                "securityContext": {"windowsOptions": {"gmsaCredentialSpec": "***"}},
                "containers": [{"name": "app", "image": "app-token:1.2", "livenessProbe": {"exec": {}}}],
                "volumes": [{"name": "v", "csi": {"driver": "d"}}],
            },
            "status": {"containerStatuses": [{
                "name": "app",
                "state": {"terminated": {"exitCode": 1}},
                "lastState": {"terminated": {"exitCode": 1, "message": "x: 0xc0370101"}},
            }]},
        });
        assert_eq!(reduced(EvidencePart::Pods, pod), expected);
    }
}
