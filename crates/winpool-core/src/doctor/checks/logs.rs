//! Symptoms that lines of logs show.

use crate::{
    doctor::{
        case::{Case, Checked, Observation, Undetermined, contains_one},
        evidence::{LogContent, NodeLog},
    },
    text::some_of,
};

/// The last line of each log of these services with one of these texts. Without one, the symptom is not determinable.
pub fn logged(case: &Case<'_>, services: &[&str], texts: &[&str], command: &'static str) -> Checked {
    let undetermined = |because: String| Undetermined::NotLogged { because, command };
    let logs = case.evidence.node_logs().map_err(|unavailable| undetermined(unavailable.to_string()))?;
    let of_services = logs.iter().filter(|log| services.contains(&log.service.as_str()));
    let observed: Vec<_> = of_services.clone().filter_map(|log| observation(log, texts)).collect();
    let incomplete: Vec<_> = of_services.filter_map(gap).collect();
    match (&observed[..], &incomplete[..]) {
        ([], []) => Err(undetermined("no line of the logs shows it".to_owned())),
        ([], gaps) => Err(undetermined(format!("no line of the logs that were read shows it ({})", some_of(gaps)))),
        _ => Ok(observed),
    }
}

fn observation(log: &NodeLog, texts: &[&str]) -> Option<Observation> {
    let LogContent::Read { place, lines, .. } = &log.content else { return None };
    let line = lines.iter().rev().find(|line| contains_one(line, texts))?;
    Some(Observation::of_node(&log.node, format!("log of {}, {place}", log.service), line))
}

fn gap(NodeLog { node, service, content }: &NodeLog) -> Option<String> {
    match content {
        LogContent::Read { cut: false, .. } => None,
        LogContent::Read { cut: true, .. } => Some(format!("{service} on {node} is cut")),
        LogContent::Unread(reason) => Some(format!("{service} on {node} is not read: {reason}")),
    }
}
