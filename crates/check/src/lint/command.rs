//! The commands of containers, probes and hooks of a pod for Windows.

use serde_json::Value;
use winpool_core::{foreign_text::escaped, json_path::fields as at};
use winpool_facts::pod_fields::{NODE_PORTS, PROBE_PERIOD, UNIX_PROGRAM_DIRS, UNIX_PROGRAMS, UNIX_SHELLS};
use winpool_workload::is_host_process;

use super::{Code, Finding, image_name, join};

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const HOOKS: [&str; 2] = ["lifecycle.preStop", "lifecycle.postStart"];
/// The addresses of a node for itself.
const LOOPBACK: [&str; 2] = ["localhost:", "127.0.0.1:"];

pub fn check(spec: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, container) in at(spec, "containers[]") {
        let (commands, has_unix_programs) = (of_container(&path, container), has_unix_programs(container));
        let programs = commands.iter().filter_map(|(path, command)| program(path, command));
        findings.extend(programs.filter(|found| !(found.code == Code::UnixCommand && has_unix_programs)));
        findings.extend(commands.iter().filter_map(|(path, command)| cmd_lines(spec, path, command)));
    }
    for probe in PROBES {
        let probes = at(spec, &format!("containers[].{probe}"));
        findings.extend(probes.iter().flat_map(|(path, probe)| of_probe(path, probe)));
    }
    let host = at(spec, "containers[]").into_iter().filter(|container| is_host_process(spec, container));
    findings.extend(host.flat_map(|(path, container)| node_ports(&path, container)));
    findings
}

/// Every command of the containers with its path.
pub fn commands(spec: &Value) -> Vec<(String, &Value)> {
    at(spec, "containers[]").into_iter().flat_map(|(path, container)| of_container(&path, container)).collect()
}

/// Every command of a container with its path.
fn of_container<'v>(path: &str, container: &'v Value) -> Vec<(String, &'v Value)> {
    let executed = PROBES.iter().chain(&HOOKS).map(|of| format!("{of}.exec.command"));
    let found = ["command".to_owned()].into_iter().chain(executed).flat_map(|field| at(container, &field));
    found.map(|(field, command)| (join(path, &field), command)).collect()
}

/// Whether the image of a container brings programs of Unix.
fn has_unix_programs(container: &Value) -> bool {
    let image = container["image"].as_str().and_then(|image| image.parse().ok());
    image.is_some_and(|image| image_name::has_unix_programs(&image))
}

/// A program that Windows does not have, or a command line as the name of a program.
fn program(path: &str, command: &Value) -> Option<Finding> {
    let program = command.get(0)?.as_str()?;
    let first = format!("{path}[0]");
    if is_of_unix(program) {
        let problem = format!("{:?} is a program of Unix", escaped(program));
        return Some(Finding::new(Code::UnixCommand, first, problem));
    }
    let (name, arguments) = program.trim().split_once(char::is_whitespace)?;
    let is_line = is_program_of_windows(name) || is_of_unix(name);
    let problem = || format!("{:?} is one argument, and no program has this name", escaped(program));
    (is_line && !arguments.trim().is_empty()).then(|| Finding::new(Code::CommandLine, first, problem()))
}

/// A shell or program of Unix, by its name or in a directory of programs, or a shell script. Other programs in such a directory
/// may be those of the image.
fn is_of_unix(program: &str) -> bool {
    let in_directory = UNIX_PROGRAM_DIRS.iter().any(|directory| program.starts_with(directory));
    let name = program.rsplit('/').next().filter(|_| in_directory).unwrap_or(program);
    let is_script = program.ends_with(".sh") && !program.contains(char::is_whitespace);
    is_script || UNIX_SHELLS.contains(&name) || UNIX_PROGRAMS.contains(&name)
}

fn is_program_of_windows(name: &str) -> bool {
    let name = name.to_lowercase();
    name.ends_with(".exe") || ["cmd", "powershell", "pwsh"].contains(&name.as_str())
}

/// Several lines for `cmd /c`, in the command or in the arguments after it.
fn cmd_lines(spec: &Value, path: &str, command: &Value) -> Option<Finding> {
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
    };
    let own = texts(command);
    let arguments_path =
        path.strip_suffix(".command").filter(|_| !path.contains("exec")).map(|container| format!("{container}.args"));
    let arguments = arguments_path.as_ref().and_then(|path| {
        let container = path.strip_suffix(".args")?;
        let (list, index) = container.strip_suffix(']')?.split_once('[')?;
        Some(texts(&spec[list][index.parse::<usize>().ok()?]["args"]))
    });
    let placed = own.iter().enumerate().map(|(index, text)| (format!("{path}[{index}]"), text));
    let arguments = arguments.unwrap_or_default();
    let of_arguments = arguments_path.unwrap_or_default();
    let after = arguments.iter().enumerate().map(|(index, text)| (format!("{of_arguments}[{index}]"), text));
    let all: Vec<_> = placed.chain(after).collect();
    let (_, first) = all.first()?;
    let name = first.rsplit(['\\', '/']).next().unwrap_or_default().to_lowercase();
    let (_, option) = all.get(1)?;
    if !["cmd", "cmd.exe"].contains(&name.as_str()) || !option.eq_ignore_ascii_case("/c") {
        return None;
    }
    let lines = |text: &str| text.trim().lines().filter(|line| !line.trim().is_empty()).count();
    // A caret at the end of a line continues it.
    let (at, text) = all[2..].iter().find(|(_, text)| lines(text) > 1 && !text.contains("^\n"))?;
    let problem = format!("the command has {} lines, and cmd may run only the first", lines(text));
    Some(Finding::new(Code::CmdLines, at, problem))
}

fn of_probe(path: &str, probe: &Value) -> Vec<Finding> {
    let command = &probe["exec"]["command"];
    let Some(words) = command.as_array().filter(|words| !words.is_empty()) else { return Vec::new() };
    let mut findings = Vec::new();
    let program = words[0].as_str().unwrap_or_default().to_lowercase();
    if ["ping", "ping.exe"].contains(&program.rsplit(['\\', '/']).next().unwrap_or_default()) {
        findings.push(Finding::new(Code::ProbePing, format!("{path}.exec.command"), "the probe runs ping"));
    }
    if let Some(period) = probe["periodSeconds"].as_u64().filter(|period| (1..PROBE_PERIOD).contains(period)) {
        let problem = format!("the command runs every {period} s");
        findings.push(Finding::new(Code::ProbeExecPeriod, format!("{path}.periodSeconds"), problem));
    }
    findings
}

/// The node ports that a HostProcess container uses on its own node.
fn node_ports(path: &str, container: &Value) -> Vec<Finding> {
    let texts = ["command[]", "args[]", "env[].value"].into_iter().flat_map(|field| at(container, field));
    let finding = |(field, value): (String, &Value)| {
        let port = node_port(value.as_str()?)?;
        let problem = format!("the container uses node port {port} of its own node");
        Some(Finding::new(Code::NodePortLoopback, format!("{path}.{field}"), problem))
    };
    texts.filter_map(finding).collect()
}

fn node_port(text: &str) -> Option<u32> {
    let after = LOOPBACK.iter().flat_map(|address| text.split(address).skip(1));
    let number = |rest: &str| rest.split(|char: char| !char.is_ascii_digit()).next()?.parse::<u32>().ok();
    after.filter_map(number).find(|port| NODE_PORTS.contains(port))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(container: Value) -> Vec<String> {
        let found = check(&json!({"containers": [container]}));
        found.into_iter().map(|finding| format!("{} {}", finding.path, finding.code)).collect()
    }

    #[test]
    fn a_command_is_a_program_of_windows_with_an_item_for_each_argument() {
        let table = [
            (json!(["/bin/sh", "-c", "app"]), Some("unix-command")),
            (json!(["sleep", "10"]), Some("unix-command")),
            (json!(["/entrypoint.sh"]), Some("unix-command")),
            (json!(["/bin/server"]), None),
            (json!(["powershell -Command app"]), Some("command-line")),
            (json!(["sh -c app"]), Some("command-line")),
            (json!(["C:\\Program Files\\app.exe"]), None),
            (json!(["powershell", "-Command", "sleep 10"]), None),
            (json!(["/app/server.exe", "x"]), None),
            (json!(["cmd", "/c", "a\nb"]), Some("cmd-lines")),
            (json!(["cmd.exe", "/C", "a && ^\nb"]), None),
            (json!(["cmd", "/c", "a\n"]), None),
            (json!([]), None),
        ];
        for (command, expected) in table {
            let found = found(json!({"command": command}));
            let codes: Vec<_> = found.iter().map(|found| found.split(' ').nth(1).unwrap()).collect();
            assert_eq!(codes, expected.into_iter().collect::<Vec<_>>(), "{command}");
        }
        let divided = found(json!({"command": ["cmd"], "args": ["/c", "a\nb"]}));
        assert_eq!(divided, ["containers[0].args[1] cmd-lines"]);
    }

    #[test]
    fn images_with_busybox_bring_programs_of_unix() {
        let table = [
            ("registry.k8s.io/e2e-test-images/busybox:1.36.1-1", 0),
            ("registry.k8s.io/e2e-test-images/agnhost:2.53", 0),
            ("e2eteam/dnsutils:1.1", 0),
            ("example.com/busybox:1", 0),
            ("busybox:1", 1),
            ("mcr.microsoft.com/windows/nanoserver:ltsc2022", 1),
            ("example.com/busybox/web:1", 1),
        ];
        for (image, expected) in table {
            assert_eq!(
                found(json!({"image": image, "command": ["/bin/sh", "-c", "sleep 1"]})).len(),
                expected,
                "{image}"
            );
        }
        assert_eq!(
            found(json!({"image": "example.com/busybox:1", "command": ["cmd /c dir"]})),
            ["containers[0].command[0] command-line"]
        );
    }

    #[test]
    fn a_probe_runs_no_ping_and_a_command_at_most_every_ten_seconds() {
        let probe = |command: Value, period: u64| json!({"livenessProbe": {"exec": {"command": command}, "periodSeconds": period}});
        assert_eq!(found(probe(json!(["ping", "a"]), 10)), ["containers[0].livenessProbe.exec.command probe-ping"]);
        assert_eq!(found(probe(json!(["app"]), 5)), ["containers[0].livenessProbe.periodSeconds probe-exec-period"]);
        assert_eq!(found(probe(json!(["app"]), 10)), [""; 0]);
        assert_eq!(found(json!({"livenessProbe": {"httpGet": {}, "periodSeconds": 1}})), [""; 0]);
    }

    #[test]
    fn a_node_port_of_the_own_node_is_found_in_host_process_containers() {
        let table = [("http://localhost:30080/", 1), ("127.0.0.1:32767", 1), ("localhost:9099", 0), ("web:30080", 0)];
        for (text, expected) in table {
            let host = json!({"args": [text], "securityContext": {"windowsOptions": {"hostProcess": true}}});
            assert_eq!(found(host).len(), expected, "{text}");
            assert_eq!(found(json!({"args": [text]})), [""; 0], "only the host uses ports of the node");
        }
    }
}
