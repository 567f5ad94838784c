//! What the observed pods of a verification amount to.

use std::{collections::BTreeMap, fmt::Write as _};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde::Serialize;
use winpool_api::names::label;
use winpool_core::ForeignText;

use super::{ATTEMPTS, BY_DESIGN, Check, LOGS_AND_EXEC, PODS, PROBES, Probe, SERVERS, Side, Target, Verification};

/// The worst is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Outcome {
    Failed,
    /// Not yet, or, at the end, not at all.
    NotDetermined,
    ByDesign,
    Passed,
}

impl Outcome {
    /// As in messages.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NotDetermined => "not determined",
            Self::ByDesign => "by design",
            Self::Passed => "passed",
        }
    }
}

/// The result of a check from one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    pub check: &'static str,
    /// The node, or what else.
    pub from: String,
    pub outcome: Outcome,
    /// Why it has not passed; empty if it has.
    pub message: String,
}

/// What was read of the log of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRead {
    Text(String),
    /// It could not be read so many times, because of this.
    Failed(i32, String),
}

/// An outcome and its message.
type Verdict = (Outcome, String);

const PASSED: Verdict = (Outcome::Passed, String::new());

fn waits(message: impl Into<String>) -> Verdict {
    (Outcome::NotDetermined, message.into())
}

/// The result of each check, in order, from all pods of a verification and the logs by pod.
pub fn verdicts(verification: &Verification, pods: &[Pod], logs: &BTreeMap<String, LogRead>) -> Vec<CheckResult> {
    let of = |probe: &str| -> Vec<&Pod> {
        let is_of =
            |pod: &&Pod| pod.metadata.labels.iter().flatten().any(|(key, of)| key == label::PROBE && of == probe);
        pods.iter().filter(is_of).collect()
    };
    let servers = of(PODS);
    let mut results = Vec::new();
    let mut add = |check: Check, from: &str, (outcome, message): Verdict| {
        results.push(CheckResult { check: check.name(), from: from.to_owned(), outcome, message });
    };
    for node in &verification.nodes {
        let own: Vec<&Pod> = on_node(&servers, &node.name).collect();
        add(Check::PodsRun, &node.name, run(&own, &servers));
        add(Check::NodeToPod, &node.name, ready(&own));
    }
    for probe in &PROBES {
        let found = of(probe.name);
        let judge = |pod: &Pod| match probe.name {
            LOGS_AND_EXEC => logs_and_exec(pod, logs.get(name(pod))),
            _ => connections(verification, probe, pod, &servers),
        };
        match probe.side {
            Side::LinuxNode => {
                let verdict = found.first().map_or_else(|| no_pod(&found), |pod| judge(pod));
                let from = found.first().and_then(|pod| node_of(pod)).unwrap_or("a Linux node");
                add(probe.check, from, verdict);
            }
            Side::Pods => {
                for node in &verification.nodes {
                    let verdict = on_node(&found, &node.name).next().map_or_else(|| no_pod(&found), judge);
                    add(probe.check, &node.name, verdict);
                }
            }
        }
    }
    for (check, from, why) in BY_DESIGN {
        add(check, from, (Outcome::ByDesign, why.to_owned()));
    }
    results.sort_by_key(|result| Check::named(result.check));
    results
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn on_node<'p>(pods: &'p [&'p Pod], node: &'p str) -> impl Iterator<Item = &'p Pod> {
    pods.iter().copied().filter(move |pod| node_of(pod) == Some(node))
}

fn statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

fn is_running(pod: &Pod) -> bool {
    let running = |status: &ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    !statuses(pod).is_empty() && statuses(pod).iter().all(running)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn run(own: &[&Pod], all: &[&Pod]) -> Verdict {
    match own.iter().filter(|pod| is_running(pod)).count() {
        running if running >= SERVERS => PASSED,
        running => match own.iter().find(|pod| !is_running(pod)) {
            Some(pod) => waits(format!("{running} of {SERVERS} pods run: {}", state(pod))),
            None => no_pod(all),
        },
    }
}

/// The kubelet of the node asks the servers by HTTP.
fn ready(own: &[&Pod]) -> Verdict {
    let running: Vec<_> = own.iter().filter(|pod| is_running(pod)).collect();
    match running.iter().find(|pod| !is_ready(pod)) {
        _ if running.is_empty() => waits("no pod runs on it"),
        Some(pod) => waits(format!("the kubelet does not reach pod {}", name(pod))),
        None => PASSED,
    }
}

/// Why a node has no pod: what the scheduler says about one that is on no node.
fn no_pod(pods: &[&Pod]) -> Verdict {
    let waiting = pods.iter().find(|pod| node_of(pod).is_none());
    waits(waiting.map_or_else(
        || "no pod was created for it. See the events of the Job".to_owned(),
        |pod| format!("pod {}: {}", name(pod), state(pod)),
    ))
}

/// What a pod waits for.
fn state(pod: &Pod) -> String {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let unscheduled = conditions.into_iter().find(|one| one.type_ == "PodScheduled" && one.status == "False");
    if let Some(message) = unscheduled.and_then(|condition| condition.message.as_deref()) {
        return ForeignText::from(message).to_string();
    }
    let mut text = String::new();
    for status in statuses(pod) {
        let Some(waiting) = status.state.as_ref().and_then(|state| state.waiting.as_ref()) else { continue };
        let reason = ForeignText::from(waiting.reason.clone().unwrap_or_default());
        let _ = write!(text, "{reason}");
        if let Some(message) = &waiting.message {
            let _ = write!(text, ": {}", ForeignText::from(message.as_str()));
        }
        return text;
    }
    let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
    format!("it is {}", ForeignText::from(phase.unwrap_or_else(|| "Pending".to_owned())))
}

/// The worst of the connections of a pod.
fn connections(verification: &Verification, probe: &Probe, pod: &Pod, servers: &[&Pod]) -> Verdict {
    let targets = (probe.targets)(verification, &[]);
    let of = |(index, target): (usize, &Target)| {
        let name = format!("to-{index}");
        let (outcome, message) = match statuses(pod).iter().find(|status| status.name == name) {
            Some(status) => connection(status),
            None => waits(state(pod)),
        };
        let place = servers.iter().find(|server| target.what.ends_with(&format!(" {}", server_name(server))));
        let place = place.and_then(|server| node_of(server)).map(|node| format!(" on {node}")).unwrap_or_default();
        (outcome, format!("to {}{place}: {message}", target.what))
    };
    let worst = targets.iter().enumerate().map(of).min_by_key(|(outcome, _)| *outcome);
    worst.filter(|(outcome, _)| *outcome != Outcome::Passed).unwrap_or(PASSED)
}

/// The name of a pod of an indexed Job, without the suffix that the controller adds.
fn server_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.hostname.as_deref()).unwrap_or_default()
}

/// What `connect` has ended with. It writes `TIMEOUT`, `REFUSED`, `DNS` or `OTHER`, which the kubelet reports as message.
fn connection(status: &ContainerStatus) -> Verdict {
    let states = [&status.state, &status.last_state].into_iter().flatten();
    let Some(ended) = states.filter_map(|state| state.terminated.as_ref()).next() else {
        let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
        let reason = waiting.and_then(|waiting| waiting.message.clone().or_else(|| waiting.reason.clone()));
        return waits(ForeignText::from(reason.unwrap_or_else(|| "it has not ended".to_owned())).to_string());
    };
    let why = ended.message.clone().filter(|message| !message.trim().is_empty());
    let why = why.unwrap_or_else(|| format!("exit code {}", ended.exit_code));
    let why = ForeignText::from(why.trim().to_owned()).to_string();
    match ended.exit_code {
        0 => PASSED,
        _ if status.restart_count + 1 >= ATTEMPTS => (Outcome::Failed, why),
        _ => waits(why),
    }
}

fn logs_and_exec(pod: &Pod, log: Option<&LogRead>) -> Verdict {
    match log {
        _ if !is_running(pod) => waits(state(pod)),
        Some(LogRead::Failed(times, why)) => {
            let outcome = if *times >= ATTEMPTS { Outcome::Failed } else { Outcome::NotDetermined };
            (outcome, format!("the log of pod {} cannot be read: {}", name(pod), ForeignText::from(why.as_str())))
        }
        Some(LogRead::Text(text)) if text.trim().is_empty() => waits(format!("the log of pod {} is empty", name(pod))),
        None => waits("the log was not read"),
        Some(_) if !is_ready(pod) => waits(format!("the kubelet cannot run a command in pod {}", name(pod))),
        Some(_) => PASSED,
    }
}
