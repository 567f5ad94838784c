//! The errors that no row explains: the newest distinct ones, with what they have in common, and what to collect next.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Serialize;
use winpool_core::object_key;
use winpool_facts::exit_codes::codes_in;

use super::{
    FoundSymptom,
    case::{Case, Observation, conditions, contains_one, name, node_of},
    checks,
    errors::{PROGRAM, PodError, events_of_nodes, reporter, times},
    evidence::LogContent,
    symptoms::row_of_line,
    with_names,
};

/// How many errors are reported.
const MAX_ERRORS: usize = 10;
/// How many objects of an error, and lines of a log that are no fatal ones, are reported.
const MAX_OBJECTS: usize = 5;
const MAX_LINES: usize = 3;

/// An error that no row of the symptoms explains.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnexplainedError {
    /// The program that reports it or fails, by its text.
    pub component: String,
    /// The newest text.
    pub text: String,
    /// Where the text is, such as `event FailedMount`.
    pub place: String,
    /// The first objects that have it, and how many more there are.
    pub objects: Vec<String>,
    pub more: usize,
    /// The first and the last time, if they are known; of a line as it is written.
    pub since: Option<String>,
    pub last: Option<String>,
    pub nodes: Vec<String>,
    /// What the pods and nodes with it have in common, such as `Windows 10.0.20348.2700`.
    pub common: Vec<String>,
    /// The codes of Windows in the text, in words.
    pub codes: Vec<String>,
    /// Commands that show more.
    pub collect: Vec<String>,
}

/// A program of a node that fails, what its errors contain in lower case, and the commands that show more. NODE, NAMESPACE and POD are
/// those of the error.
struct Component {
    name: &'static str,
    marks: &'static [&'static str],
    collect: &'static [&'static str],
}

const fn component(name: &'static str, marks: &'static [&'static str], collect: &'static [&'static str]) -> Component {
    Component { name, marks, collect }
}

/// The components; the first with a mark is the one of a text, and the last one, without marks, that of any other.
const COMPONENTS: &[Component] = &[
    component(
        "kube-scheduler",
        &["nodes are available", "failedscheduling", "no nodes available"],
        &[
            "kubectl -n NAMESPACE describe pod POD",
            "kubectl get nodes -L kubernetes.io/os,node.kubernetes.io/windows-build -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints",
        ],
    ),
    component(
        "registry or containerd",
        &["pull image", "pulling image", "errimagepull", "imagepullbackoff", "image \""],
        &["on the node: crictl pull IMAGE", "winpool doctor pod/POD -n NAMESPACE --registry"],
    ),
    component(
        "CNI or HNS",
        &[
            "networkplugin",
            "cni",
            "hns",
            "hcn",
            "ipam",
            "network for sandbox",
            "network for pod",
            "endpoint",
            "calico",
            "flannel",
        ],
        &[
            "kubectl get pods -A -o wide --field-selector spec.nodeName=NODE",
            "winpool doctor node/NODE --node-logs",
            "on the node: hnsdiag list all; Get-HnsNetwork; Get-HnsEndpoint",
        ],
    ),
    component(
        "CSI driver",
        &["csi", "mountdevice", "attachvolume", "smbglobalmapping"],
        &["kubectl get csinodes,volumeattachments", "kubectl get pods -A -o wide --field-selector spec.nodeName=NODE"],
    ),
    component(
        "Docker",
        &["error response from daemon"],
        &[
            "on the node: Get-EventLog Application -Source Docker -Newest 50",
            "kubectl -n NAMESPACE get pod POD -o yaml",
        ],
    ),
    component(
        "containerd or the host compute service",
        &["hcs", "shim", "containerd task", "compute system", "layer", "sandbox"],
        &[
            "winpool doctor node/NODE --node-logs",
            "on the node: Get-WinEvent -LogName Microsoft-Windows-Hyper-V-Compute-Operational -MaxEvents 50",
        ],
    ),
    component(
        "program of the container",
        &["exit code", "probe failed", "poststart", "prestop"],
        &["kubectl -n NAMESPACE logs POD --all-containers --previous", "kubectl -n NAMESPACE describe pod POD"],
    ),
    component("kubelet", &[], &["kubectl -n NAMESPACE describe pod POD", "winpool doctor node/NODE --node-logs"]),
];

fn component_of(text: &str) -> &'static Component {
    let fits = |component: &&Component| contains_one(text, component.marks);
    COMPONENTS.iter().find(fits).unwrap_or(&COMPONENTS[COMPONENTS.len() - 1])
}

/// How bad a line of a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LineSeverity {
    /// The program ends with it.
    Fatal,
    Error,
}

/// The severity of a line as klog, logrus, zap, Calico and Go write it; `None` for other lines. A program of Kubernetes that ends with an
/// error writes `command failed` before it (kubernetes/component-base, `cli/run.go`, 0.37.2).
fn severity(line: &str) -> Option<LineSeverity> {
    const FATAL: &[&str] = &[
        "level=fatal",
        "level=panic",
        "\"level\":\"fatal\"",
        "[fatal]",
        "[panic]",
        "\"command failed\"",
        "failed to run kubelet",
        "fatal error:",
    ];
    const ERROR: &[&str] = &["level=error", "\"level\":\"error\"", "[error]"];
    let lower = line.to_lowercase();
    let is_klog = |letter: char| {
        let mut chars = line.chars();
        chars.next() == Some(letter)
            && chars.by_ref().take(4).filter(char::is_ascii_digit).count() == 4
            && chars.next() == Some(' ')
    };
    if is_klog('F') || lower.starts_with("panic:") || lower.starts_with("error: ") || contains_one(&lower, FATAL) {
        return Some(LineSeverity::Fatal);
    }
    (is_klog('E') || contains_one(&lower, ERROR)).then_some(LineSeverity::Error)
}

/// The time of a line as it is written.
fn stamp(line: &str) -> Option<String> {
    let is_time =
        |text: &&str| text.len() > 4 && text.contains(':') && text.starts_with(|first: char| first.is_ascii_digit());
    if let Some((_, rest)) = line.split_once("time=\"") {
        return rest.split_once('"').map(|(time, _)| time.to_owned());
    }
    let mut words = line.trim_start_matches(['I', 'W', 'E', 'F']).split_ascii_whitespace();
    let (first, second) = (words.next()?, words.next().unwrap_or_default());
    match is_time(&first) {
        true => Some(first.to_owned()),
        false => Some(second).filter(is_time).map(|time| format!("{first} {time}")),
    }
}

/// An error before it is grouped with those of the same text.
struct Error<'e> {
    rank: u8,
    component: String,
    collect: &'static [&'static str],
    shown: Observation,
    pod: Option<&'e Pod>,
    node: String,
    since: Option<String>,
    last: Option<String>,
}

/// The errors that neither a row nor a found symptom explains, and how many are not reported.
pub(super) fn unexplained(case: &Case<'_>, found: &[FoundSymptom]) -> (Vec<UnexplainedError>, usize) {
    let explained: BTreeSet<(&str, &str)> = found
        .iter()
        .flat_map(|symptom| &symptom.all)
        .map(|shown| (shown.object.as_str(), shown.text.as_str()))
        .collect();
    let is_open = |shown: &Observation| !explained.contains(&(shown.object.as_str(), shown.text.as_str()));
    let mut errors: Vec<Error<'_>> =
        case.errors().unwrap_or_default().iter().filter(|error| error.row.is_none()).map(of_pod).collect();
    errors.extend(of_conditions(case));
    errors.extend(of_nodes(case));
    errors.retain(|error| is_open(&error.shown));
    let troubled = troubled(case, &errors);
    errors.extend(of_logs(case, &troubled));
    let groups = grouped(errors);
    let more = groups.len().saturating_sub(MAX_ERRORS);
    (groups.iter().take(MAX_ERRORS).map(|group| reported(case, group)).collect(), more)
}

fn of_pod<'e>(error: &PodError<'e>) -> Error<'e> {
    let of_program = error.reason == PROGRAM;
    let text = if of_program { format!("exit code {}", error.shown.text) } else { error.shown.text.clone() };
    let Component { name, collect, .. } = component_of(&text);
    Error {
        rank: 1,
        component: (*name).to_owned(),
        collect,
        shown: error.shown.clone(),
        pod: Some(error.pod),
        node: node_of(error.pod).to_owned(),
        since: error.first.map(|at| at.to_string()),
        last: error.last.map(|at| at.to_string()),
    }
}

/// The nodes that are not ready.
fn of_conditions<'e>(case: &Case<'e>) -> Vec<Error<'e>> {
    let all = case.conditions().unwrap_or_default().into_iter();
    let not_ready = all.filter(|(_, of)| of.type_ == "Ready" && of.status != "True");
    let error = |(node, of): (&Node, _)| {
        let shown = Observation::of_condition(node, of);
        let Component { collect, .. } = component_of("");
        let since = of.last_transition_time.as_ref().map(|at| at.0.to_string());
        let node = name(&node.metadata).to_owned();
        Error { rank: 1, component: "kubelet".to_owned(), collect, shown, pod: None, node, last: since.clone(), since }
    };
    not_ready.map(error).collect()
}

/// The warnings about nodes.
fn of_nodes<'e>(case: &Case<'e>) -> impl Iterator<Item = Error<'e>> {
    events_of_nodes(case.evidence).into_iter().map(|(node, event)| {
        let text = event.message.as_deref().unwrap_or_default();
        let shown = Observation::of_node(
            node,
            format!("event {}", event.reason.as_deref().unwrap_or("without a reason")),
            text,
        );
        let Component { name, collect, .. } = component_of(text);
        let [since, last] = times(event).map(|at| at.map(|at| at.to_string()));
        let component = reporter(event).unwrap_or(name).to_owned();
        Error { rank: 1, component, collect, shown, pod: None, node: node.to_owned(), since, last }
    })
}

/// The nodes that are not ready, or whose pods have errors.
fn troubled(case: &Case<'_>, errors: &[Error<'_>]) -> BTreeSet<String> {
    let is_ready = |node: &&Node| conditions(node).any(|of| of.type_ == "Ready" && of.status == "True");
    let nodes = case.evidence.nodes().unwrap_or_default().iter().filter(|node| !is_ready(node));
    let of_errors = errors.iter().map(|error| error.node.clone());
    nodes.map(|node| name(&node.metadata).to_owned()).chain(of_errors).collect()
}

/// Fatal lines of logs, and the last errors in those of nodes in trouble.
fn of_logs<'e>(case: &Case<'_>, troubled: &BTreeSet<String>) -> Vec<Error<'e>> {
    let logs = checks::logs(case).unwrap_or_default();
    logs.iter()
        .flat_map(|log| {
            let LogContent::Read { place, lines, .. } = &log.content else { return Vec::new() };
            let open = lines.iter().rev().filter_map(|line| Some((line, severity(line)?)));
            let open = open.filter(|(line, _)| row_of_line(&log.service, line).is_none());
            let mut left = if troubled.contains(&log.node) { MAX_LINES } else { 0 };
            let mut seen = BTreeSet::new();
            let mut is_reported = |severity: LineSeverity, line: &str| match severity {
                LineSeverity::Fatal => true,
                LineSeverity::Error if left > 0 && seen.insert(same(line, &[])) => {
                    left -= 1;
                    true
                }
                LineSeverity::Error => false,
            };
            let open = open.filter(|(line, severity)| is_reported(*severity, line));
            let error = |(line, severity): (&String, LineSeverity)| Error {
                rank: if severity == LineSeverity::Fatal { 0 } else { 2 },
                component: log.service.clone(),
                collect: &["winpool doctor node/NODE --node-logs --bundle DIR"],
                shown: Observation::of_node(&log.node, checks::log_place(&log.service, place), line),
                pod: None,
                node: log.node.clone(),
                since: stamp(line),
                last: stamp(line),
            };
            open.map(error).collect()
        })
        .collect()
}

/// The words of a text that are the same at every attempt and for every object: those without digits that are not one of these names.
fn same(text: &str, names: &[&str]) -> String {
    let mut text = text.to_lowercase();
    names.iter().filter(|name| name.len() > 2).for_each(|name| text = text.replace(&name.to_lowercase(), " "));
    let words = text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
    let words = words.filter(|word| !word.contains(|char: char| char.is_ascii_digit()));
    words.take(200).collect::<Vec<_>>().join(" ")
}

/// The errors with the same text, the newest first: fatal lines of logs, then the errors of pods and nodes, then lines of logs.
fn grouped(errors: Vec<Error<'_>>) -> Vec<Vec<Error<'_>>> {
    let mut groups: BTreeMap<(u8, String, String), Vec<Error<'_>>> = BTreeMap::new();
    for error in errors {
        let of_pod = error.pod.map(|pod| [name(&pod.metadata), pod.metadata.namespace.as_deref().unwrap_or_default()]);
        let names: Vec<&str> = of_pod.into_iter().flatten().chain([error.node.as_str()]).collect();
        let text = same(&error.shown.text, &names);
        let key = if text.is_empty() { error.shown.text.clone() } else { text };
        groups.entry((error.rank, error.component.clone(), key)).or_default().push(error);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.iter_mut().for_each(|group| group.sort_by(|one, other| other.last.cmp(&one.last)));
    groups.sort_by(|one, other| one[0].rank.cmp(&other[0].rank).then(other[0].last.cmp(&one[0].last)));
    groups
}

fn reported(case: &Case<'_>, group: &[Error<'_>]) -> UnexplainedError {
    let newest = &group[0];
    let objects: BTreeSet<&str> = group.iter().map(|error| error.shown.object.as_str()).collect();
    let nodes: BTreeSet<&str> = group.iter().map(|error| error.node.as_str()).filter(|node| !node.is_empty()).collect();
    let codes = codes_in(&newest.shown.text).into_iter();
    UnexplainedError {
        component: newest.component.clone(),
        text: newest.shown.text.clone(),
        place: newest.shown.place.clone(),
        objects: objects.iter().take(MAX_OBJECTS).map(|object| (*object).to_owned()).collect(),
        more: objects.len().saturating_sub(MAX_OBJECTS),
        since: group.iter().filter_map(|error| error.since.clone()).min(),
        last: newest.last.clone(),
        nodes: nodes.iter().take(MAX_OBJECTS).map(|node| (*node).to_owned()).collect(),
        common: common(case, group, &nodes),
        codes: codes.map(|row| format!("0x{:X} {}: {}", row.code, row.name, row.meaning)).collect(),
        collect: newest.collect.iter().filter_map(|command| filled(command, newest.pod, &newest.node)).collect(),
    }
}

/// A command with the names of a pod and a node; `None` if it needs one that there is not.
fn filled(command: &str, pod: Option<&Pod>, node: &str) -> Option<String> {
    let is_missing = (command.contains("POD") && pod.is_none()) || (command.contains("NODE") && node.is_empty());
    (!is_missing).then(|| with_names(command, pod, node))
}

/// What all pods and nodes of a group have in common.
fn common(case: &Case<'_>, group: &[Error<'_>], nodes: &BTreeSet<&str>) -> Vec<String> {
    let all = case.evidence.nodes().unwrap_or_default().iter();
    let nodes: Vec<&Node> = all.filter(|node| nodes.contains(name(&node.metadata))).collect();
    let info = |of: fn(&k8s_openapi::api::core::v1::NodeSystemInfo) -> String| {
        let of_node = |node: &&Node| Some(of(node.status.as_ref()?.node_info.as_ref()?));
        only(nodes.iter().map(of_node))
    };
    let pods: Vec<&Pod> = group.iter().filter_map(|error| error.pod).collect();
    let image = |pod: &&Pod| pod.spec.as_ref()?.containers.first()?.image.clone();
    let owner = |pod: &&Pod| {
        let owner = pod.metadata.owner_references.as_ref()?.first()?;
        Some(format!("{} {}/{}", owner.kind, pod.metadata.namespace.as_deref().unwrap_or_default(), owner.name))
    };
    let cni = checks::sets_of(case, checks::CNI).into_iter().map(|set| object_key(&set.metadata)).collect::<Vec<_>>();
    let parts = [
        only(nodes.iter().map(|node| Some(format!("node {}", name(&node.metadata))))),
        info(|info| format!("Windows {}", info.kernel_version)),
        info(|info| format!("kubelet {}", info.kubelet_version)),
        info(|info| info.container_runtime_version.clone()),
        (!cni.is_empty() && !nodes.is_empty()).then(|| format!("CNI {}", cni.join(", "))),
        only(pods.iter().map(owner)),
        only(pods.iter().map(image)).map(|image| format!("image {image}")),
    ];
    parts.into_iter().flatten().collect()
}

/// The value that all have.
fn only(values: impl Iterator<Item = Option<String>>) -> Option<String> {
    let values: Option<BTreeSet<String>> = values.collect();
    let mut values = values?.into_iter();
    values.next().filter(|_| values.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_fatal_errors_or_others_in_the_formats_of_the_programs_on_a_node() {
        use LineSeverity::{Error, Fatal};
        let table = [
            ("F1126 02:10:00.000000 1 a.go:1] gone", Some(Fatal)),
            (r#"E1126 02:10:00.000000 4112 run.go:72] "command failed" err="x""#, Some(Fatal)),
            ("E1126 02:10:00.000000 1 a.go:1] \"x\"", Some(Error)),
            ("I1126 02:10:00.000000 1 a.go:1] \"x\"", None),
            ("Everything is fine", None),
            ("time=\"2026-11-26T02:00:00Z\" level=fatal msg=x", Some(Fatal)),
            ("time=\"2026-11-26T02:00:00Z\" level=error msg=x", Some(Error)),
            ("time=\"2026-11-26T02:00:00Z\" level=info msg=x", None),
            ("2021-08-23 15:22:37.421 [FATAL][46] a.go 1: x", Some(Fatal)),
            ("panic: runtime error", Some(Fatal)),
            ("Error: unknown flag: --x", Some(Fatal)),
            ("", None),
        ];
        for (line, expected) in table {
            assert_eq!(severity(line), expected, "{line}");
        }
    }

    #[test]
    fn the_time_of_a_line_is_as_it_is_written() {
        let table = [
            ("E1126 02:10:00.000000 1 a.go:1] x", Some("1126 02:10:00.000000")),
            ("time=\"2026-11-26T02:00:00Z\" level=error", Some("2026-11-26T02:00:00Z")),
            ("2026-11-26T02:15:30Z Program x", Some("2026-11-26T02:15:30Z")),
            ("2021-08-23 15:22:37.421 [FATAL]", Some("2021-08-23 15:22:37.421")),
            ("panic: x", None),
            ("", None),
        ];
        for (line, expected) in table {
            assert_eq!(stamp(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn texts_that_differ_in_numbers_and_names_are_one_error() {
        let text = |pod: &str, id: &str| format!("failed for pod \"{pod}\": sandbox {id} at 0x1f: device is busy");
        assert_eq!(same(&text("web-abc", "5d8f"), &["web-abc"]), same(&text("web-xyz", "77aa1"), &["web-xyz"]));
        assert_ne!(same("disk is full", &[]), same("device is busy", &[]));
    }

    #[test]
    fn a_command_has_the_names_of_its_pod_and_node() {
        let pod: Pod =
            serde_json::from_value(serde_json::json!({"metadata": {"name": "web-1", "namespace": "shop"}})).unwrap();
        let logs = "kubectl -n NAMESPACE logs POD";
        assert_eq!(filled(logs, Some(&pod), "").as_deref(), Some("kubectl -n shop logs web-1"));
        assert_eq!(filled(logs, None, "win-1"), None);
        assert_eq!(filled("winpool doctor node/NODE", None, "win-1").as_deref(), Some("winpool doctor node/win-1"));
        assert_eq!(filled("winpool doctor node/NODE", Some(&pod), ""), None);
    }
}
