//! Error messages of the programs on Windows nodes: which symptom explains each, and that none is lost.

use std::fs;

use serde_json::{Value, json};
use winpool_check::doctor::{Diagnosis, Evidence, explaining};

const MESSAGES: &str = "tests/doctor/messages.tsv";
/// The rows for any text with a reason.
const GENERAL: [&str; 2] = ["sandbox-other", "image-pull"];

/// The columns of each message.
fn messages(text: &str) -> Vec<[&str; 4]> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split('\t').collect::<Vec<_>>().try_into().unwrap()).collect()
}

/// What is read of a node that is not ready, with a pod that is not, and this message of it.
fn evidence(source: &str, message: &str) -> Evidence {
    let read = |items: Value| json!({"read": {"items": items, "omitted": false}});
    let is_event = source.starts_with("Failed");
    let event = json!({"metadata": {}, "type": "Warning", "reason": source, "message": message, "involvedObject": {"kind": "Pod", "uid": "u"}});
    let log = json!({"node": "win-1", "service": source, "content": {"read": {"place": "a", "lines": [message], "cut": false}}});
    let pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": {"nodeName": "win-1", "containers": []},
                     "status": {"phase": "Pending"}});
    let node = json!({"metadata": {"name": "win-1"}, "status": {"conditions": [{"type": "Ready", "status": "False", "message": "it is not"}]}});
    let mut parts = json!({"at": "2026-11-26T03:00:00Z", "subject": {"kind": "node", "name": "win-1"}});
    let machines = ["machines", "machineDeployments", "machinePools", "machineSets"];
    for part in ["pools", "daemonSets", "leases", "endpointSlices", "nodeConfigs", "images"].into_iter().chain(machines)
    {
        parts[part] = read(json!([]));
    }
    parts["nodes"] = read(json!([node]));
    parts["pods"] = read(json!([pod]));
    parts["events"] = read(if is_event { json!([event]) } else { json!([]) });
    parts["nodeLogs"] = read(if is_event { json!([]) } else { json!([log]) });
    Evidence::from_parts(serde_json::from_value(parts).unwrap()).unwrap()
}

#[test]
fn every_message_is_explained_by_a_symptom_or_reported_as_it_is() {
    let text = fs::read_to_string(MESSAGES).unwrap();
    let all = messages(&text);
    let id = |source: &str, message: &str| explaining(source, message).map_or("-", |symptom| symptom.entry.code);
    let numbers = |is: fn(&str) -> bool| all.iter().filter(|[_, source, _, message]| is(id(source, message))).count();
    let renewed =
        all.iter().map(|[place, source, _, message]| [place, *source, id(source, message), message].join("\t") + "\n");
    let head = text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n"));
    let renewed: String = head.chain(renewed).collect();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(MESSAGES, &renewed).unwrap();
    }
    assert_eq!(fs::read_to_string(MESSAGES).unwrap(), renewed, "UPDATE_DOCS=1 renews {MESSAGES}");
    for [place, source, _, message] in &all {
        let diagnosis = Diagnosis::of(&evidence(source, message));
        let expected = id(source, message);
        let is_found = diagnosis.found.iter().any(|found| found.id == expected);
        let is_reported = diagnosis.unexplained.iter().any(|error| error.text == *message);
        assert_eq!((is_found, is_reported), (expected != "-", expected == "-"), "{place}: {message}");
    }
    let (unexplained, general) = (numbers(|id| id == "-"), numbers(|id| GENERAL.contains(&id)));
    println!("{} messages: {unexplained} that no symptom explains, {general} that only a general one does", all.len());
    assert_eq!((all.len(), unexplained, general), (100, 29, 9));
}
