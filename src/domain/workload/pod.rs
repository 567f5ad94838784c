//! A pod, and what makes pods, as the rules see them: trimmed when they arrive.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1 as core,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::Template;
use crate::{domain::image::Said, facts::mismatch};

/// The longest part of a runtime's message that is kept, in characters.
const LONGEST_SAYING: usize = 160;
/// The annotation of a pod that stands for one that a kubelet made of a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The label by which the pods of a Deployment carry the end of their ReplicaSet's name.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// What people call a workload: the object that they wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadName {
    /// `Deployment`, `DaemonSet`, `Job`, `Pod` …
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl WorkloadName {
    /// The API version of its kind, of those that we read.
    pub fn api_version(&self) -> &'static str {
        match self.kind.as_str() {
            "Deployment" | "StatefulSet" | "DaemonSet" => "apps/v1",
            "Job" => "batch/v1",
            _ => "v1",
        }
    }
}

impl fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace and name, as `namespace/name`.
    pub key: Arc<str>,
    /// Its uid.
    pub uid: String,
    /// The workload that it belongs to.
    pub workload: Arc<WorkloadName>,
    /// The node that it is on, or that a DaemonSet made it for.
    pub node: Option<String>,
    /// Whether it has run to its end.
    pub finished: bool,
    /// Whether a kubelet made it of a file: no scheduler places it, and it is back whatever the taints of its node.
    pub is_static: bool,
    /// Its spec.
    pub template: Arc<Template>,
    /// What the runtime said of the images of its containers, in the order of the template.
    pub said: Vec<Option<Said>>,
}

/// What makes pods: a Deployment, StatefulSet, DaemonSet or Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Its namespace and name, as `namespace/name`.
    pub key: String,
    /// Its uid.
    pub uid: String,
    /// What people call it.
    pub workload: Arc<WorkloadName>,
    /// Whether it wants any pod now.
    pub active: bool,
    /// The spec of its pods.
    pub template: Arc<Template>,
}

/// Specs and names that many have in common, each kept once.
#[derive(Debug, Default)]
pub struct Shared {
    templates: HashSet<Arc<Template>>,
    workloads: HashSet<Arc<WorkloadName>>,
    /// The number of templates at which those that nobody has any more are looked for.
    sweep_at: usize,
}

impl Shared {
    fn template(&mut self, template: Template) -> Arc<Template> {
        if self.templates.len() >= self.sweep_at {
            self.templates.retain(|known| Arc::strong_count(known) > 1);
            self.workloads.retain(|known| Arc::strong_count(known) > 1);
            self.sweep_at = 1024.max(self.templates.len() * 2);
        }
        shared(&mut self.templates, template)
    }

    fn workload(&mut self, workload: WorkloadName) -> Arc<WorkloadName> {
        shared(&mut self.workloads, workload)
    }
}

fn shared<T: std::hash::Hash + Eq>(known: &mut HashSet<Arc<T>>, new: T) -> Arc<T> {
    if let Some(same) = known.get(&new) {
        return same.clone();
    }
    let new = Arc::new(new);
    known.insert(new.clone());
    new
}

/// `namespace/name`
fn key(metadata: &ObjectMeta) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
}

impl Pod {
    /// Reads a pod; one without a spec has no containers.
    pub fn read(pod: core::Pod, shared: &mut Shared) -> Self {
        let spec = pod.spec.unwrap_or_default();
        let status = pod.status.unwrap_or_default();
        let mut template = Template::from(&spec);
        // The node of a pod is its own and not part of what it has in common with others.
        let pinned = template.unpin();
        let node = template.node_name.take().or(pinned);
        let said = said_of_each(&status, &template);
        Self {
            key: key(&pod.metadata).into(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            workload: shared.workload(workload(&pod.metadata)),
            node,
            finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            is_static: pod.metadata.annotations.iter().flatten().any(|(key, _)| key == MIRROR),
            template: shared.template(template),
            said,
        }
    }
}

/// The object that a person wrote to get this pod, as far as the pod itself tells.
fn workload(metadata: &ObjectMeta) -> WorkloadName {
    let owners = metadata.owner_references.iter().flatten();
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true) && owner.kind != "Node");
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

fn said_of_each(status: &core::PodStatus, template: &Template) -> Vec<Option<Said>> {
    let all = status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let by_name: HashMap<&str, &core::ContainerStatus> = all.map(|status| (status.name.as_str(), status)).collect();
    template.containers.iter().map(|container| said(by_name.get(container.name.as_str())?)).collect()
}

/// What the runtime said of a container's image, in its status.
fn said(status: &core::ContainerStatus) -> Option<Said> {
    let states = [status.state.as_ref(), status.last_state.as_ref()];
    let mut messages = states.into_iter().flatten().flat_map(|state| {
        let waiting = state.waiting.as_ref().and_then(|waiting| waiting.message.as_deref());
        let terminated = state.terminated.as_ref().and_then(|terminated| terminated.message.as_deref());
        [waiting, terminated].into_iter().flatten()
    });
    let runs = status.state.as_ref().is_some_and(|state| state.running.is_some());
    if runs {
        return Some(Said::Started);
    }
    if let Some(message) = messages.find(|message| mismatch::says(message)) {
        return Some(Said::misfit(message));
    }
    // A container that was never started has no time at which it was.
    let started = |state: &&core::ContainerState| {
        state.terminated.as_ref().is_some_and(|terminated| terminated.started_at.is_some())
    };
    states.into_iter().flatten().find(started).map(|_| Said::Started)
}

impl Said {
    /// A misfit in the words of a runtime, on one line and shortened: of what runtimes say at length, with the name of a
    /// container that is another at every attempt, the part that says so.
    pub fn misfit(message: &str) -> Self {
        let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let part = line.split(": ").find(|part| mismatch::says(part)).unwrap_or(&line);
        let line = part.trim_end_matches(" extra info");
        let skip = line.chars().count().saturating_sub(LONGEST_SAYING);
        // What matters comes last.
        let end: String = line.chars().skip(skip).collect();
        Self::Misfit(if skip > 0 { format!("…{end}") } else { end })
    }
}

/// The objects that make pods.
pub trait PodController {
    /// Its kind.
    const KIND: &'static str;
    /// Its metadata, its template, and whether it wants any pod now.
    fn parts(self) -> (ObjectMeta, Option<core::PodSpec>, bool);
}

impl Controller {
    /// Reads an object that makes pods.
    pub fn read<T: PodController>(object: T, shared: &mut Shared) -> Self {
        let (metadata, spec, active) = object.parts();
        let workload = WorkloadName {
            kind: T::KIND.to_owned(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        };
        Self {
            key: key(&metadata),
            uid: metadata.uid.unwrap_or_default(),
            workload: shared.workload(workload),
            active: active && spec.is_some(),
            template: shared.template(Template::from(&spec.unwrap_or_default())),
        }
    }
}

impl PodController for Deployment {
    const KIND: &'static str = "Deployment";

    fn parts(self) -> (ObjectMeta, Option<core::PodSpec>, bool) {
        let active = self.spec.as_ref().is_some_and(|spec| spec.replicas != Some(0));
        (self.metadata, self.spec.and_then(|spec| spec.template.spec), active)
    }
}

impl PodController for StatefulSet {
    const KIND: &'static str = "StatefulSet";

    fn parts(self) -> (ObjectMeta, Option<core::PodSpec>, bool) {
        let active = self.spec.as_ref().is_some_and(|spec| spec.replicas != Some(0));
        (self.metadata, self.spec.and_then(|spec| spec.template.spec), active)
    }
}

impl PodController for DaemonSet {
    const KIND: &'static str = "DaemonSet";

    fn parts(self) -> (ObjectMeta, Option<core::PodSpec>, bool) {
        (self.metadata, self.spec.and_then(|spec| spec.template.spec), true)
    }
}

impl PodController for Job {
    const KIND: &'static str = "Job";

    fn parts(self) -> (ObjectMeta, Option<core::PodSpec>, bool) {
        // One that failed has no time of completion.
        let conditions = self.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ended = conditions
            .into_iter()
            .any(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True");
        let suspended = self.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true));
        (self.metadata, self.spec.and_then(|spec| spec.template.spec), !ended && !suspended)
    }
}

impl PodController for CronJob {
    const KIND: &'static str = "CronJob";

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
    fn a_pod_belongs_to_what_a_person_wrote() {
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
    fn what_the_runtime_said_is_read_of_the_status() {
        let no_match = "failed to pull and unpack image \"x\": no match for platform in manifest: not found";
        let misfit = Some(Said::Misfit("no match for platform in manifest".into()));
        let exit = json!({"exitCode": 1, "startedAt": "2026-01-01T00:00:00Z"});
        let table = [
            (json!({"state": {"running": {}}}), Some(Said::Started)),
            (json!({"state": {"waiting": {"reason": "ErrImagePull", "message": no_match}}}), misfit.clone()),
            (
                json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}},
                       "lastState": {"terminated": {"exitCode": 128, "reason": "ContainerCannotRun", "message": no_match}}}),
                misfit,
            ),
            (
                json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": exit}}),
                Some(Said::Started),
            ),
            (json!({"state": {"terminated": exit}}), Some(Said::Started)),
            (json!({"state": {"waiting": {"reason": "ErrImagePull", "message": "401 Unauthorized"}}}), None),
            (json!({"state": {"waiting": {"reason": "ContainerCreating"}}}), None),
            (json!({}), None),
        ];
        for (mut status, expected) in table {
            let told = status.to_string();
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
            assert_eq!(pod.said, [expected], "{told}");
        }
    }

    #[test]
    fn the_same_misfit_is_said_in_the_same_words_at_every_attempt() {
        let hcs = "The container operating system does not match the host operating system.";
        let table = [
            (format!("failed to create shim task: hcs::CreateComputeSystem 6b86b273ff34: {hcs}: unknown"), hcs),
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
        for (message, words) in table {
            assert_eq!(Said::misfit(&message), Said::Misfit(words.to_owned()));
        }
    }

    #[test]
    fn a_long_saying_keeps_its_end() {
        let Said::Misfit(words) = Said::misfit(&format!("{}\nno match", "call; ".repeat(99))) else { unreachable!() };
        assert!(words.starts_with('…') && words.ends_with("call; no match") && words.chars().count() == 161, "{words}");
    }

    #[test]
    fn pods_of_one_workload_share_its_spec_wherever_they_are() {
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
    fn a_pod_without_a_spec_has_nothing_to_say() {
        let pod = read(json!({"metadata": {"name": "empty"}}));
        assert!(pod.said.is_empty() && pod.node.is_none() && *pod.template == Template::default());
    }

    #[test]
    fn a_controller_that_wants_no_pod_is_not_active() {
        let template = json!({"spec": {"containers": []}});
        let read = |spec: Value| {
            let object = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": spec});
            Controller::read(serde_json::from_value::<Deployment>(object).unwrap(), &mut Shared::default())
        };
        let spec = |replicas: Value| json!({"selector": {}, "template": template, "replicas": replicas});
        assert!(read(spec(json!(2))).active && read(spec(Value::Null)).active && !read(spec(json!(0))).active);
        assert_eq!(read(spec(json!(2))).workload.to_string(), "Deployment b/a");
    }

    #[test]
    fn a_job_that_ended_or_waits_makes_no_pod() {
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
