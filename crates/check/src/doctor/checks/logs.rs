//! Symptoms that lines of logs show.

use winpool_api::{LogEnd, NodeDiagnosis};
use winpool_core::{Objects, text::some_of};

use crate::doctor::{
    case::{Case, Checked, Observation, Undetermined},
    evidence::{LogContent, NodeLog},
};

/// The last line of each log of these services with one of these texts. Without one, the symptom is not determinable.
pub fn logged(case: &Case<'_>, services: &[&str], texts: &[&str], command: &'static str) -> Checked {
    let undetermined = |because: String| Undetermined::NotShownByNode { because, command };
    let configs = case.node_configs().ok().into_iter().flat_map(Objects::values);
    let by_agents: Vec<_> =
        configs.filter_map(|config| Some(logs_of(&config.name, case.answer(config)?))).flatten().collect();
    let logs = match case.evidence.node_logs() {
        Err(unavailable) if by_agents.is_empty() => return Err(undetermined(unavailable.to_string())),
        logs => logs.unwrap_or_default(),
    };
    let of_services = logs.iter().chain(&by_agents).filter(|log| services.contains(&log.service.as_str()));
    let observed: Vec<_> = of_services.clone().filter_map(|log| observation(log, texts)).collect();
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

fn observation(log: &NodeLog, texts: &[&str]) -> Option<Observation> {
    let LogContent::Read { place, lines, .. } = &log.content else { return None };
    let line = lines.iter().rev().find(|line| texts.iter().any(|text| has_parts(line, text)))?;
    Some(Observation::of_node(&log.node, format!("log of {}, {place}", log.service), line))
}

/// Whether a line has the parts of a text in their order, which `…` separates.
fn has_parts(line: &str, text: &str) -> bool {
    let line = line.to_lowercase();
    let after = |rest: &'_ str, part: &str| rest.find(part).map(|at| at + part.len());
    let mut at = 0;
    text.split('…').all(|part| after(&line[at..], part).map(|length| at += length).is_some())
}

fn gap(NodeLog { node, service, content }: &NodeLog) -> Option<String> {
    match content {
        LogContent::Read { cut: false, .. } => None,
        LogContent::Read { cut: true, .. } => Some(format!("{service} on {node} is cut")),
        LogContent::Unread(reason) => Some(format!("{service} on {node} is not read: {reason}")),
    }
}
