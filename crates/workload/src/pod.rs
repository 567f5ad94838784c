//! Pods and the controllers that create them, reduced to the checked fields.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1 as core,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use winpool_core::{image::RuntimeReport, kind::Kind, kubernetes::WorkloadName, named, object_key};
use winpool_facts::runtime_errors;

use super::{Shared, Template, volume};

/// The maximum length of a kind: it is a DNS label in lower case (kubernetes/apiextensions-apiserver,
/// `pkg/apis/apiextensions/validation`).
const MAX_KIND: usize = 63;
const MAX_NAME: usize = 253;
const MIRROR_POD: &str = "kubernetes.io/config.mirror";
/// The label of the pods of a Deployment whose value is the suffix of their ReplicaSet's name.
const TEMPLATE_HASH: &str = "pod-template-hash";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace and name, as `namespace/name`.
    pub key: Arc<str>,
    pub uid: String,
    pub workload: Arc<WorkloadName>,
    /// Its labels, by which Services select it; `None` if there are more than are kept.
    pub labels: Option<Arc<BTreeMap<String, String>>>,
    /// Its node, or the node that the DaemonSet controller created it for.
    pub node: Option<String>,
    pub finished: bool,
    /// Whether it is a static pod, which the kubelet runs regardless of the taints of the node.
    pub is_static: bool,
    pub template: Arc<Template>,
    /// The report of the container runtime about each container of the template.
    pub reports: Vec<Option<RuntimeReport>>,
}

/// An object that creates pods, such as a Deployment, StatefulSet, DaemonSet or Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Its namespace and name, as `namespace/name`.
    pub key: String,
    pub uid: String,
    pub workload: Arc<WorkloadName>,
    /// Whether it creates pods: it is not finished, suspended or scaled to zero.
    pub active: bool,
    pub template: Arc<Template>,
}

named!(Pod: key);

impl Pod {
    /// Reads a pod. A pod without a spec has no containers.
    pub fn read(pod: core::Pod, shared: &mut Shared) -> Self {
        let spec = pod.spec.unwrap_or_default();
        let status = pod.status.unwrap_or_default();
        let mut template = Template::from(&spec);
        // Without its node, the template is the same as that of other pods of the workload.
        let affinity_node = template.take_affinity_node();
        let node = template.node_name.take().or(affinity_node);
        volume::without_pod(&mut template.volumes, pod.metadata.name.as_deref().unwrap_or_default());
        let workload = shared.workload(workload(&pod.metadata));
        let template = shared.template(template);
        let reports = runtime_reports(&status, &template);
        Self {
            key: object_key(&pod.metadata).into(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            workload,
            labels: shared.labels(pod.metadata.labels.unwrap_or_default()),
            node,
            finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            is_static: pod.metadata.annotations.iter().flatten().any(|(key, _)| key == MIRROR_POD),
            template,
            reports,
        }
    }

    /// Whether it has more labels, or a larger spec, than is kept.
    pub fn is_oversized(&self) -> bool {
        self.labels.is_none() || self.template.oversized
    }
}

/// The workload that a pod belongs to, by its owner and labels.
fn workload(metadata: &ObjectMeta) -> WorkloadName {
    let owners = metadata.owner_references.iter().flatten();
    // The API server does not check whether an object can have these names.
    let is_short = |owner: &&OwnerReference| owner.kind.len() <= MAX_KIND && owner.name.len() <= MAX_NAME;
    let owner =
        owners.into_iter().find(|owner| owner.controller == Some(true) && owner.kind != "Node").filter(is_short);
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let hash = metadata.labels.as_ref().and_then(|labels| labels.get(TEMPLATE_HASH));
    let (kind, name) = match owner {
        None => ("Pod", metadata.name.clone().unwrap_or_default()),
        Some(owner) => {
            let of_deployment = hash.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
            match of_deployment.filter(|_| owner.kind == "ReplicaSet") {
                Some(deployment) => ("Deployment", deployment.to_owned()),
                None => (owner.kind.as_str(), owner.name.clone()),
            }
        }
    };
    WorkloadName { kind: kind.to_owned(), namespace, name }
}

fn runtime_reports(status: &core::PodStatus, template: &Template) -> Vec<Option<RuntimeReport>> {
    let all = status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let by_name: HashMap<&str, &core::ContainerStatus> = all.map(|status| (status.name.as_str(), status)).collect();
    template.containers.iter().map(|container| runtime_report(by_name.get(container.name.as_str())?)).collect()
}

/// The present state of a container, and the one before.
fn states(status: &core::ContainerStatus) -> impl Iterator<Item = &core::ContainerState> {
    [&status.state, &status.last_state].into_iter().flatten()
}

pub fn runtime_messages(status: &core::ContainerStatus) -> impl Iterator<Item = &str> {
    states(status).flat_map(|state| {
        let waiting = state.waiting.as_ref().and_then(|waiting| waiting.message.as_deref());
        let ended = state.terminated.as_ref().and_then(|ended| ended.message.as_deref());
        [waiting, ended].into_iter().flatten()
    })
}

pub fn runtime_report(status: &core::ContainerStatus) -> Option<RuntimeReport> {
    if status.state.as_ref().is_some_and(|state| state.running.is_some()) {
        return Some(RuntimeReport::Started);
    }
    if let Some(message) = runtime_messages(status).find(|message| runtime_errors::is_platform_mismatch(message)) {
        return Some(RuntimeReport::incompatible(message));
    }
    // A container that failed to start has no start time.
    let has_run = |state: &core::ContainerState| state.terminated.as_ref().is_some_and(|end| end.started_at.is_some());
    states(status).any(has_run).then_some(RuntimeReport::Started)
}

/// The kinds of objects that create pods.
pub trait PodController: PartialEq {
    const KIND: Kind;
    /// The metadata, the spec of the pods, and whether it creates pods.
    fn parts(self) -> (ObjectMeta, Option<core::PodSpec>, bool);
}

impl Controller {
    pub fn read<T: PodController>(object: T, shared: &mut Shared) -> Self {
        let (metadata, spec, active) = object.parts();
        let workload = WorkloadName {
            kind: T::KIND.name.to_owned(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        };
        Self {
            key: object_key(&metadata),
            uid: metadata.uid.unwrap_or_default(),
            workload: shared.workload(workload),
            active: active && spec.is_some(),
            template: shared.template(Template::from(&spec.unwrap_or_default())),
        }
    }
}

impl PodController for Deployment {
    const KIND: Kind = Kind::DEPLOYMENT;

    fn parts(self) -> (ObjectMeta, Option<core::PodSpec>, bool) {
        let active = self.spec.as_ref().is_some_and(|spec| spec.replicas != Some(0));
        (self.metadata, self.spec.and_then(|spec| spec.template.spec), active)
    }
}

impl PodController for StatefulSet {
    const KIND: Kind = Kind::STATEFUL_SET;

    fn parts(self) -> (ObjectMeta, Option<core::PodSpec>, bool) {
        let active = self.spec.as_ref().is_some_and(|spec| spec.replicas != Some(0));
        (self.metadata, self.spec.and_then(|spec| spec.template.spec), active)
    }
}

impl PodController for DaemonSet {
    const KIND: Kind = Kind::DAEMON_SET;

    fn parts(self) -> (ObjectMeta, Option<core::PodSpec>, bool) {
        (self.metadata, self.spec.and_then(|spec| spec.template.spec), true)
    }
}

impl PodController for Job {
    const KIND: Kind = Kind::JOB;

    fn parts(self) -> (ObjectMeta, Option<core::PodSpec>, bool) {
        // A failed Job has no completion time, so its conditions are read.
        let conditions = self.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ended = conditions
            .into_iter()
            .any(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True");
        let suspended = self.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true));
        (self.metadata, self.spec.and_then(|spec| spec.template.spec), !ended && !suspended)
    }
}

impl PodController for CronJob {
    const KIND: Kind = Kind::CRON_JOB;

    fn parts(self) -> (ObjectMeta, Option<core::PodSpec>, bool) {
        let suspended = self.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true));
        let job = self.spec.and_then(|spec| spec.job_template.spec);
        (self.metadata, job.and_then(|job| job.template.spec), !suspended)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(pod: Value) -> Pod {
        Pod::read(serde_json::from_value(pod).unwrap(), &mut Shared::default())
    }

    #[test]
    fn a_pod_belongs_to_the_workload_that_created_it() {
        let owner = |kind: &str, name: &str| json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
        let table = [
            (
                json!({"name": "web-5d8-x", "labels": {"pod-template-hash": "5d8"}, "ownerReferences": owner("ReplicaSet", "web-5d8")}),
                "Deployment shop/web",
            ),
            (json!({"name": "rs-x", "ownerReferences": owner("ReplicaSet", "rs")}), "ReplicaSet shop/rs"),
            (json!({"name": "agent-x", "ownerReferences": owner("DaemonSet", "agent")}), "DaemonSet shop/agent"),
            (json!({"name": "static-win-1", "ownerReferences": owner("Node", "win-1")}), "Pod shop/static-win-1"),
            (json!({"name": "bare"}), "Pod shop/bare"),
        ];
        for (mut metadata, expected) in table {
            metadata["namespace"] = json!("shop");
            assert_eq!(read(json!({"metadata": metadata})).workload.to_string(), expected);
        }
    }

    #[test]
    fn runtime_reports_are_read_from_container_statuses() {
        let no_match = "failed to pull and unpack image \"x\": no match for platform in manifest: not found";
        let incompatible = Some(RuntimeReport::Incompatible("no match for platform in manifest".into()));
        let exit = json!({"exitCode": 1, "startedAt": "2026-01-01T00:00:00Z"});
        let table = [
            (json!({"state": {"running": {}}}), Some(RuntimeReport::Started)),
            (json!({"state": {"waiting": {"reason": "ErrImagePull", "message": no_match}}}), incompatible.clone()),
            (
                json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}},
                       "lastState": {"terminated": {"exitCode": 128, "reason": "ContainerCannotRun", "message": no_match}}}),
                incompatible,
            ),
            (
                json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": exit}}),
                Some(RuntimeReport::Started),
            ),
            (json!({"state": {"terminated": exit}}), Some(RuntimeReport::Started)),
            (json!({"state": {"waiting": {"reason": "ErrImagePull", "message": "401 Unauthorized"}}}), None),
            (json!({"state": {"waiting": {"reason": "ContainerCreating"}}}), None),
            (json!({}), None),
        ];
        for (mut status, expected) in table {
            let case = status.to_string();
            for (field, value) in [
                ("name", json!("a")),
                ("image", json!("x")),
                ("imageID", json!("example.com/x@sha256:1")),
                ("ready", json!(false)),
                ("restartCount", json!(0)),
            ] {
                status[field] = value;
            }
            let pod = read(json!({
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "a", "image": "x"}]},
                "status": {"containerStatuses": [status]},
            }));
            assert_eq!(pod.reports, [expected], "{case}");
        }
    }

    #[test]
    fn an_error_is_the_same_at_every_attempt() {
        let hcs = "The container operating system does not match the host operating system";
        let table = [
            (format!("failed to create shim task: hcs::CreateComputeSystem 6b86b273ff34: {hcs}.: unknown"), hcs),
            (
                "container 6b86b273ff34 encountered an error during CreateContainer: failure in a Windows system call: \
                 The operating system of the container does not match the operating system of the host. (0xc0370101) \
                 extra info: {\"SystemType\":\"Container\",\"Name\":\"6b86b273ff34\"}"
                    .to_owned(),
                "The operating system of the container does not match the operating system of the host. (0xc0370101)",
            ),
            (
                "no matching manifest for windows/amd64 10.0.17763\n in the manifest list entries".to_owned(),
                "no matching manifest for windows/amd64 10.0.17763 in the manifest list entries",
            ),
        ];
        for (message, error) in table {
            assert_eq!(RuntimeReport::incompatible(&message), RuntimeReport::Incompatible(error.into()));
        }
    }

    #[test]
    fn a_long_error_keeps_its_end() {
        let message = format!("{}\nno match", "call; ".repeat(99));
        let RuntimeReport::Incompatible(error) = RuntimeReport::incompatible(&message) else { unreachable!() };
        let error = error.raw();
        assert!(error.starts_with('…') && error.ends_with("call; no match") && error.chars().count() == 161, "{error}");
    }

    #[test]
    fn pods_of_a_workload_share_a_template_on_different_nodes() {
        let mut shared = Shared::default();
        let pod = |node: &str| {
            json!({"metadata": {"name": node, "namespace": "kube-system"}, "spec": {
                "containers": [{"name": "a", "image": "x"}],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]},
                ]}}},
            }})
        };
        let read = |node: &str, shared: &mut Shared| Pod::read(serde_json::from_value(pod(node)).unwrap(), shared);
        let (one, two) = (read("win-1", &mut shared), read("win-2", &mut shared));
        assert!(Arc::ptr_eq(&one.template, &two.template));
        assert_eq!((one.node.as_deref(), two.node.as_deref()), (Some("win-1"), Some("win-2")));
        assert_eq!(one.template.affinity, Vec::<Vec<super::super::Requirement>>::new());
    }

    #[test]
    fn of_a_pod_with_many_labels_or_a_large_spec_only_a_part_is_kept() {
        let labels = |count: usize| (0..count).map(|number| (format!("l{number}"), json!(""))).collect::<Value>();
        let tolerations = |count: usize| vec![json!({"key": "a", "operator": "Exists"}); count];
        let table = [
            (labels(50), tolerations(50), (50, 50, false)),
            (labels(1000), tolerations(50), (0, 50, true)),
            (labels(50), tolerations(1000), (50, 0, true)),
        ];
        for (labels, tolerations, expected) in table {
            let containers = json!([
                {"name": "a", "image": "x"},
                {"name": "b", "image": "x", "securityContext": {"windowsOptions": {"hostProcess": true}}},
            ]);
            let pod = read(json!({
                "metadata": {"name": "web", "labels": labels},
                "spec": {"nodeName": "win-1", "runtimeClassName": "w", "containers": containers, "tolerations": tolerations},
            }));
            let kept = pod.labels.as_ref().map_or(0, |labels| labels.len());
            assert_eq!((kept, pod.template.scheduling.tolerations.len(), pod.is_oversized()), expected);
            assert_eq!((pod.node.as_deref(), pod.template.runtime_class.as_deref()), (Some("win-1"), Some("w")));
            assert!(pod.template.containers.iter().any(|container| container.host_process));
        }
    }

    #[test]
    fn an_owner_with_a_name_that_no_object_can_have_is_none() {
        let owned = |kind: usize, name: usize| {
            let (kind, name) = ("K".repeat(kind), "n".repeat(name));
            let owner = json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true}]);
            read(json!({"metadata": {"name": "web", "ownerReferences": owner}})).workload.kind == kind
        };
        assert_eq!([owned(63, 253), owned(64, 253), owned(63, 254)], [true, false, false]);
    }

    #[test]
    fn a_pod_without_a_spec_has_no_reports() {
        let pod = read(json!({"metadata": {"name": "empty"}}));
        assert!(pod.reports.is_empty() && pod.node.is_none() && *pod.template == Template::default());
    }

    #[test]
    fn a_finished_or_suspended_job_is_inactive() {
        let condition = |kind: &str| json!({"conditions": [{"type": kind, "status": "True"}]});
        let table = [
            (json!({}), json!({}), true),
            (json!({}), condition("SuccessCriteriaMet"), true),
            (json!({}), condition("Complete"), false),
            (json!({}), condition("Failed"), false),
            (json!({"suspend": true}), json!({}), false),
        ];
        for (mut spec, status, expected) in table {
            spec["template"] = json!({"spec": {"containers": []}});
            let job = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
            let read = Controller::read(serde_json::from_value::<Job>(job.clone()).unwrap(), &mut Shared::default());
            assert_eq!(read.active, expected, "{job}");
        }
    }
}
