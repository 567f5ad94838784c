//! Symptoms that lines of logs show.

use winpool_api::{LogEnd, NodeDiagnosis};
use winpool_core::{Objects, text::some_of};

use crate::doctor::{
    case::{Case, Checked, Observation, Undetermined},
    evidence::{LogContent, NodeLog, Unavailable},
    symptoms::{is_of, row_of_line},
};

/// All logs of nodes, with the ends that their agents have read.
pub fn logs(case: &Case<'_>) -> Result<Vec<NodeLog>, Unavailable> {
    let configs = case.node_configs().ok().into_iter().flat_map(Objects::values);
    let by_agents: Vec<_> =
        configs.filter_map(|config| Some(logs_of(&config.name, case.answer(config)?))).flatten().collect();
    match case.evidence.node_logs() {
        Err(unavailable) if by_agents.is_empty() => Err(unavailable),
        logs => Ok(logs.unwrap_or_default().iter().cloned().chain(by_agents).collect()),
    }
}

/// The last line of each log of these services that this row explains. Without one, the symptom is not determinable.
pub fn logged(case: &Case<'_>, code: &str, services: &[&str], command: &'static str) -> Checked {
    let undetermined = |because: String| Undetermined::NotShownByNode { because, command };
    let logs = logs(case).map_err(|unavailable| undetermined(unavailable.to_string()))?;
    let of_services = logs.iter().filter(|log| is_of(services, &log.service));
    let observed: Vec<_> = of_services.clone().filter_map(|log| observation(log, code)).collect();
    let incomplete: Vec<_> = of_services.filter_map(gap).collect();
    match (&observed[..], &incomplete[..]) {
        ([], []) => Err(undetermined("no line of the logs shows it".to_owned())),
        ([], gaps) => Err(undetermined(format!("no line of the logs that were read shows it ({})", some_of(gaps)))),
        _ => Ok(observed),
    }
}

/// The ends of the logs that the agent of a node has read.
fn logs_of(node: &str, answer: &NodeDiagnosis) -> Vec<NodeLog> {
    let log = |LogEnd { service, place, lines }: &LogEnd| NodeLog {
        node: node.to_owned(),
        service: service.clone(),
        content: LogContent::Read { place: format!("{place}, by the agent"), lines: lines.clone(), cut: true },
    };
    answer.logs.iter().map(log).collect()
}

fn observation(log: &NodeLog, code: &str) -> Option<Observation> {
    let LogContent::Read { place, lines, .. } = &log.content else { return None };
    let explains = |line: &str| row_of_line(&log.service, line).is_some_and(|row| row.entry.code == code);
    let line = lines.iter().rev().find(|line| explains(line))?;
    Some(Observation::of_node(&log.node, log_place(&log.service, place), line))
}

/// The name of a log in reports.
pub fn log_place(service: &str, place: &str) -> String {
    format!("log of {service}, {place}")
}

fn gap(NodeLog { node, service, content }: &NodeLog) -> Option<String> {
    match content {
        LogContent::Read { cut: false, .. } => None,
        LogContent::Read { cut: true, .. } => Some(format!("{service} on {node} is cut")),
        LogContent::Unread(reason) => Some(format!("{service} on {node} is not read: {reason}")),
    }
}
