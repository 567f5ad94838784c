//! Reads what a diagnosis needs. Only the subject itself is required.

use std::{collections::BTreeSet, slice};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::{Client, api::ListParams};
use serde_json::Value;
use tokio::time::Instant;
use winpool_api::names::{NODE_LEASES, label};
use winpool_check::doctor::{
    DiagnosisSubject, Evidence, EvidenceLayer, EvidencePart, Unavailable, access_reviews, has_gmsa_webhook,
};
use winpool_core::{Objects, node::WindowsNode};
use winpool_facts::cluster_api::DEPLOYMENT_NAME;
use winpool_rules::pool::{Pool, Snapshot, plan::Planner};
use winpool_workload::volumes;

use crate::{CommandError, evidence::EvidenceReader, input, node_logs::NodeLogReader, pools::check_names};

/// Reads the parts one after the other, because what is read of one follows from another.
pub struct SubjectReader {
    reader: EvidenceReader,
    logs: Option<NodeLogReader>,
}

/// The namespace of events about objects without one (kubernetes/client-go v0.37.2, `tools/record/event.go`, `makeEvent`).
const NODE_EVENTS: &str = "default";

fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

impl SubjectReader {
    /// Reads with this client until a deadline; also logs of nodes, if there is a time before now of which they are read.
    pub fn new(client: Client, deadline: Instant, logs: Option<SignedDuration>) -> Self {
        let logs = logs.map(|time| NodeLogReader::new(client.clone(), deadline, time));
        Self { reader: EvidenceReader::new(client, deadline), logs }
    }

    /// What can be read about a subject; an error if it does not exist or may not be read, or the cluster cannot be reached.
    pub async fn evidence(self, subject: DiagnosisSubject) -> Result<Evidence, CommandError> {
        let mut evidence = Evidence::empty(jiff::Timestamp::now(), subject.clone());
        self.read_all(&mut evidence, EvidencePart::Pools).await;
        match &subject {
            DiagnosisSubject::Pool { name } => self.read_pool(&mut evidence, name).await?,
            DiagnosisSubject::Node { name } => self.read_node(&mut evidence, name).await?,
            DiagnosisSubject::Pod { namespace, name } => self.read_pod(&mut evidence, namespace, name).await?,
        }
        let pods = evidence.pods().unwrap_or_default().iter();
        let pods: BTreeSet<String> = pods.filter_map(|pod| pod.metadata.uid.clone()).collect();
        let is_about = |event: &Value| event["involvedObject"]["uid"].as_str().is_some_and(|uid| pods.contains(uid));
        let events = match &evidence.pods {
            // Without the pods it is not known which events are about them.
            EvidenceLayer::Unavailable(_) => EvidenceLayer::Read { items: Vec::new(), omitted: true },
            EvidenceLayer::Read { .. } => {
                let (namespace, params) = selected_events(&subject);
                self.reader.part(EvidencePart::Events, namespace, &params, is_about).await
            }
        };
        let events = self.with_events_of_nodes(events, &evidence).await;
        evidence.set(EvidencePart::Events, events);
        self.read_storage(&mut evidence, &subject).await;
        self.read_all(&mut evidence, EvidencePart::DaemonSets).await;
        self.read_all(&mut evidence, EvidencePart::EndpointSlices).await;
        let reviews = access_reviews(&evidence);
        if !reviews.is_empty() {
            self.read_all(&mut evidence, EvidencePart::CredentialSpecs).await;
            let all = ListParams::default();
            self.read(&mut evidence, EvidencePart::MutatingWebhooks, None, &all, has_gmsa_webhook).await;
            evidence.access_reviews = self.reader.answers(reviews).await;
        }
        if let Some(logs) = &self.logs {
            let read = match (evidence.nodes(), &subject) {
                (Ok(nodes), _) => logs.logs(&by_readiness(nodes)).await,
                (Err(_), DiagnosisSubject::Node { name }) => logs.logs(slice::from_ref(name)).await,
                (Err(unavailable), _) => EvidenceLayer::Unavailable(unavailable.to_string()),
            };
            evidence.node_logs = read;
        }
        Ok(evidence)
    }

    /// Reads volumes and the drivers of nodes, if a pod has a volume that a driver mounts.
    async fn read_storage(&self, evidence: &mut Evidence, subject: &DiagnosisSubject) {
        let mut specs = evidence.pods().unwrap_or_default().iter().filter_map(|pod| pod.spec.as_ref());
        if specs.all(|spec| volumes(spec).is_empty()) {
            return;
        }
        let (namespace, _) = selected_events(subject);
        self.read(evidence, EvidencePart::Claims, namespace, &ListParams::default(), |_| true).await;
        for part in [EvidencePart::Volumes, EvidencePart::StorageClasses, EvidencePart::CsiNodes] {
            self.read_all(evidence, part).await;
        }
    }

    /// The events of pods with those of the nodes that were read. They are in one namespace, and name the node, whose uid not all have.
    async fn with_events_of_nodes(&self, events: EvidenceLayer<Value>, evidence: &Evidence) -> EvidenceLayer<Value> {
        let nodes = evidence.nodes().unwrap_or_default().iter();
        let names: BTreeSet<&str> = nodes.filter_map(|node| node.metadata.name.as_deref()).collect();
        let params = match names.iter().next() {
            None => return events,
            Some(name) if names.len() == 1 => format!("involvedObject.kind=Node,involvedObject.name={name}"),
            Some(_) => "involvedObject.kind=Node".to_owned(),
        };
        let is_about =
            |event: &Value| event["involvedObject"]["name"].as_str().is_some_and(|name| names.contains(name));
        let params = ListParams::default().fields(&params);
        let of_nodes = self.reader.part(EvidencePart::Events, Some(NODE_EVENTS), &params, is_about).await;
        match (&evidence.subject, of_nodes) {
            // Who asks about a pod need not have the permission for other namespaces.
            (DiagnosisSubject::Pod { .. }, EvidenceLayer::Unavailable(_)) => events,
            (_, of_nodes) => events.and(of_nodes),
        }
    }

    /// Reads all objects of a part.
    async fn read_all(&self, evidence: &mut Evidence, part: EvidencePart) {
        self.read(evidence, part, None, &ListParams::default(), |_| true).await;
    }

    async fn read(
        &self,
        evidence: &mut Evidence,
        part: EvidencePart,
        namespace: Option<&str>,
        params: &ListParams,
        keep: impl Fn(&Value) -> bool,
    ) {
        evidence.set(part, self.reader.part(part, namespace, params, keep).await);
    }

    async fn read_pool(&self, evidence: &mut Evidence, name: &str) -> Result<(), CommandError> {
        let pools = evidence.pools().map_err(failure)?.iter().cloned();
        let pools: Objects<Pool> = pools.map(Pool::from_object).collect();
        check_names("", [name], pools.names())?;
        let windows = ListParams::default().labels(&format!("{}=windows", label::OS));
        self.read(evidence, EvidencePart::Nodes, None, &windows, |_| true).await;
        if let EvidenceLayer::Read { items, .. } = &mut evidence.nodes {
            retain_members(items, pools.clone(), name);
        }
        let nodes = evidence.nodes().unwrap_or_default().iter();
        let names: Vec<_> = nodes.filter_map(|node| node.metadata.name.clone()).collect();
        self.read_on_nodes(evidence, &names).await;
        if let Some(used) = pools.get(name).and_then(|pool| pool.status.cluster_api.as_ref()) {
            let groups: BTreeSet<&str> = used.groups.iter().map(|group| group.name.as_str()).collect();
            let is_member = |machine: &Value| {
                let labels = &machine["metadata"]["labels"];
                labels[DEPLOYMENT_NAME].as_str().is_some_and(|group| groups.contains(group))
            };
            let (namespace, all) = (Some(&*used.namespace), ListParams::default());
            self.read(evidence, EvidencePart::Machines, namespace, &all, is_member).await;
            for part in [EvidencePart::MachineDeployments, EvidencePart::MachinePools, EvidencePart::MachineSets] {
                self.read(evidence, part, namespace, &all, |_| true).await;
            }
        }
        Ok(())
    }

    async fn read_node(&self, evidence: &mut Evidence, name: &str) -> Result<(), CommandError> {
        self.read_named_node(evidence, name).await;
        if let Ok(nodes) = evidence.nodes() {
            let node = nodes
                .first()
                .ok_or_else(|| CommandError::Usage(format!("there is no node {name}. See kubectl get nodes")))?;
            check_windows(node)?;
        }
        self.read_on_nodes(evidence, &[name.to_owned()]).await;
        if let (Err(nodes), Err(_)) = (evidence.nodes(), evidence.pods()) {
            return Err(failure(nodes));
        }
        Ok(())
    }

    async fn read_pod(&self, evidence: &mut Evidence, namespace: &str, name: &str) -> Result<(), CommandError> {
        self.read(evidence, EvidencePart::Pods, Some(namespace), &named(name), |_| true).await;
        let own = evidence.pods.clone();
        let missing = || {
            let text = format!(
                "there is no pod {name} in namespace {namespace}. See kubectl -n {namespace} get pods, or set -n"
            );
            CommandError::Usage(text)
        };
        let pod = evidence.pods().map_err(failure)?.first().ok_or_else(missing)?;
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else {
            input::note(&format!("pod {name} is on no node yet: see kubectl -n {namespace} describe pod {name}"));
            return Ok(());
        };
        self.read_named_node(evidence, &node).await;
        evidence.nodes().ok().and_then(<[Node]>::first).map_or(Ok(()), check_windows)?;
        self.read_on_nodes(evidence, &[node]).await;
        if let (EvidenceLayer::Unavailable(_), EvidenceLayer::Read { items, .. }) = (&evidence.pods, own) {
            evidence.pods = EvidenceLayer::Read { items, omitted: true };
        }
        Ok(())
    }

    async fn read_named_node(&self, evidence: &mut Evidence, name: &str) {
        self.read(evidence, EvidencePart::Nodes, None, &named(name), |_| true).await;
    }

    /// Reads the pods on nodes, the Leases of the nodes, and their WindowsNodeConfigs.
    async fn read_on_nodes(&self, evidence: &mut Evidence, names: &[String]) {
        let (on_node, own) = match names {
            [name] => (ListParams::default().fields(&format!("spec.nodeName={name}")), named(name)),
            _ => (ListParams::default(), ListParams::default()),
        };
        let is_of = |name: &Value| name.as_str().is_some_and(|name| names.iter().any(|known| known == name));
        let pods = match &evidence.nodes {
            EvidenceLayer::Unavailable(reason) if names.is_empty() => EvidenceLayer::Unavailable(reason.clone()),
            _ if names.is_empty() => EvidenceLayer::default(),
            _ => self.reader.part(EvidencePart::Pods, None, &on_node, |pod| is_of(&pod["spec"]["nodeName"])).await,
        };
        evidence.set(EvidencePart::Pods, pods);
        self.read(evidence, EvidencePart::NodeConfigs, None, &own, |config| is_of(&config["metadata"]["name"])).await;
        self.read(evidence, EvidencePart::Leases, Some(NODE_LEASES), &own, |lease| is_of(&lease["metadata"]["name"]))
            .await;
    }
}

/// The namespace and the fields of events: those about one pod can be selected, those about many cannot.
fn selected_events(subject: &DiagnosisSubject) -> (Option<&str>, ListParams) {
    match subject {
        DiagnosisSubject::Pod { namespace, name } => {
            let fields = format!("involvedObject.kind=Pod,involvedObject.name={name}");
            (Some(namespace), ListParams::default().fields(&fields))
        }
        DiagnosisSubject::Pool { .. } | DiagnosisSubject::Node { .. } => {
            (None, ListParams::default().fields("involvedObject.kind=Pod"))
        }
    }
}

fn failure(unavailable: Unavailable) -> CommandError {
    let Unavailable { part, reason } = unavailable;
    CommandError::Cluster(format!("cannot read {}: {reason}", part.resource()))
}

/// The names of nodes, of those that are not ready first.
fn by_readiness(nodes: &[Node]) -> Vec<String> {
    let nodes = nodes.iter().cloned().map(WindowsNode::from);
    let mut names: Vec<_> = nodes.map(|node| (node.ready, node.name)).collect();
    names.sort();
    names.into_iter().map(|(_, name)| name).collect()
}

fn check_windows(node: &Node) -> Result<(), CommandError> {
    let os = node.metadata.labels.as_ref().and_then(|labels| labels.get(label::OS));
    match os.map(String::as_str) {
        Some(os) if os != "windows" => {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            Err(CommandError::Usage(format!("node {name} runs {os}: winpool doctor knows symptoms of Windows nodes")))
        }
        _ => Ok(()),
    }
}

/// Keeps the nodes of a pool: those with its label, and those that it will take.
fn retain_members(nodes: &mut Vec<Node>, pools: Objects<Pool>, name: &str) {
    let windows = nodes.iter().cloned().map(WindowsNode::from).collect();
    let snapshot = Snapshot { pools, nodes: windows, ..Snapshot::default() };
    let planner = Planner::new(&snapshot);
    let members: BTreeSet<&str> = planner.members(name).map(|node| node.name.as_str()).collect();
    nodes.retain(|node| match node.metadata.labels.as_ref().and_then(|labels| labels.get(label::POOL)) {
        Some(pool) => pool == name,
        None => node.metadata.name.as_deref().is_some_and(|name| members.contains(name)),
    });
}
