//! The PowerShell scripts, read with a grammar of PowerShell: no value becomes code.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;
use tree_sitter::{Node, Parser, Tree};
use winpool_api::{
    ProxySettings,
    facts::{Build, ContainerRuntime, ContainerdLine, Minor},
};
use winpool_core::{
    profile::{self, Profile},
    render::{Variant, kubelet::kubeadm_patch, node_script::NodeScript, scripts},
};

use crate::{cases::cases, golden_cluster_api::output};

/// What a script writes and sets, and its other statements as text.
#[derive(Debug, Default, PartialEq)]
struct Script {
    files: Vec<(String, String)>,
    environment: Vec<String>,
    statements: Vec<String>,
}

/// The tree of a script.
///
/// # Panics
/// The script does not match the grammar.
fn parse(text: &str) -> Tree {
    let tree = tree(text);
    assert!(!tree.root_node().has_error(), "{}\n{text}", tree.root_node().to_sexp());
    tree
}

fn tree(text: &str) -> Tree {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_powershell::LANGUAGE.into()).unwrap();
    parser.parse(text, None).unwrap()
}

fn children(node: Node) -> Vec<Node> {
    (0..node.named_child_count()).map(|index| node.named_child(index.try_into().unwrap()).unwrap()).collect()
}

/// The innermost node that alone makes up a node.
fn inner(node: Node) -> Node {
    match children(node)[..] {
        [child] if node.kind() != "array_expression" && node.kind() != "cast_expression" => inner(child),
        _ => node,
    }
}

/// The value of an expression that consists of strings in single quotes and `[char]` only, as PowerShell computes it.
fn value(node: Node, text: &str) -> Vec<u16> {
    let node = inner(node);
    let source = node.utf8_text(text.as_bytes()).unwrap();
    match (node.kind(), &children(node)[..]) {
        ("verbatim_string_characters", []) => {
            let content = source.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap();
            content.replace("''", "'").encode_utf16().collect()
        }
        ("additive_expression", [left, right]) => {
            assert_eq!(node.child(1).unwrap().kind(), "+");
            [value(*left, text), value(*right, text)].concat()
        }
        ("cast_expression", [to, number]) => {
            assert_eq!(to.utf8_text(text.as_bytes()).unwrap(), "[char]");
            let number = number.utf8_text(text.as_bytes()).unwrap();
            vec![u16::from_str_radix(number.strip_prefix("0x").unwrap(), 16).unwrap()]
        }
        (kind, _) => panic!("{kind} is not a part of a text: {source}"),
    }
}

fn string(node: Node, text: &str) -> String {
    String::from_utf16(&value(node, text)).unwrap()
}

/// The texts of `@(…)`.
fn strings(node: Node, text: &str) -> Vec<String> {
    let node = inner(node);
    assert_eq!(node.kind(), "array_expression");
    children(node).into_iter().flat_map(children).map(|item| string(item, text)).collect()
}

fn read(text: &str) -> Script {
    let tree = parse(text);
    let mut script = Script::default();
    for node in children(tree.root_node()) {
        let statements = if node.kind() == "statement_list" { children(node) } else { vec![node] };
        for statement in statements {
            script.add(statement, text);
        }
    }
    script
}

impl Script {
    fn add(&mut self, statement: Node, text: &str) {
        let source = statement.utf8_text(text.as_bytes()).unwrap();
        let command = inner(statement);
        if source.starts_with("Write-Text ") {
            let arguments: Vec<_> = children(children(command)[1])
                .into_iter()
                .filter(|argument| argument.kind() != "command_argument_sep")
                .collect();
            let [path, lines] = arguments[..] else { panic!("{source}") };
            self.files.push((string(path, text), strings(lines, text).join("\n")));
        } else if source.starts_with("$environment = ") {
            let value = children(command).into_iter().next_back().unwrap();
            self.environment = strings(value, text);
        } else {
            self.statements.push(source.to_owned());
        }
    }
}

fn profile(value: &str) -> Profile {
    let profile = profile::check(&serde_json::from_value(json!({})).unwrap()).unwrap();
    let text = value.to_owned();
    Profile { proxy: ProxySettings { http_proxy: text.clone(), https_proxy: text.clone(), no_proxy: text }, ..profile }
}

/// The script of a configuration in which every file and variable has this value.
fn with_value(value: &str) -> String {
    let keys = ["kubelet.yaml", "kubelet.args", "containerd.toml", "hosts.docker.io.toml", "environment"];
    NodeScript {
        name: "web-1",
        files: &keys.map(|key| (key.to_owned(), value.to_owned())).into(),
        variants: &BTreeSet::from([Variant {
            kubelet: Minor(36),
            runtime: ContainerRuntime::Containerd(ContainerdLine::new(2, 2)),
            host: Build(20348),
        }]),
        profile: &profile(value),
    }
    .text()
}

fn environment(value: &str) -> Vec<String> {
    ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"].map(|name| format!("{name}={value}")).to_vec()
}

/// Whether the content of a file is the value. A patch for kubeadm has comments around it.
fn has_value(path: &str, content: &str, value: &str) -> bool {
    match path.ends_with("kubeletconfiguration0+merge.yaml") {
        true => content == kubeadm_patch(value, Minor(36)),
        false => content == value,
    }
}

/// Checks that a value is only data in both scripts that contain values.
fn is_only_data(value: &str) {
    let (script, harmless) = (read(&with_value(value)), read(&with_value("x")));
    assert_eq!(script.statements, harmless.statements);
    let paths = |script: &Script| script.files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&script), paths(&harmless));
    assert!(
        script.files.len() >= 6 && script.files.iter().all(|(path, content)| has_value(path, content, value)),
        "{script:?}"
    );
    // An empty variable is not set.
    assert_eq!(script.environment, if value.is_empty() { Vec::new() } else { environment(value) });

    let pairs = [("HTTP_PROXY", value), ("HTTPS_PROXY", value), ("NO_PROXY", value)];
    let arguments = ["--node-labels=agentpool=web".to_owned()];
    let before_join = |variables: &[(&str, &str)]| read(&scripts::containerd(variables, &arguments));
    let after_join = |variables: &[(&str, &str)]| read(&scripts::kubelet(variables));
    for (script, harmless) in
        [(before_join(&pairs), before_join(&[("A", "x")])), (after_join(&pairs), after_join(&[("A", "x")]))]
    {
        assert_eq!(script.statements, harmless.statements);
        assert_eq!(script.environment, environment(value));
    }
}

#[test]
fn no_hostile_value_becomes_code() {
    let table = [
        "it's",
        "'; Stop-Computer; '",
        "\"; Stop-Computer; \"",
        "$(Stop-Computer) $env:PATH ${x}",
        "`n`0 a``b",
        "a\nb\r\nc\r",
        "\n'@\nStop-Computer\n@'",
        "\u{2018}a\u{2019}b\u{201a}c\u{201b}",
        "\u{201c}a\u{201d}b\u{201e}",
        "\u{e9}\u{451}\u{1f600}\u{2028}",
        "\0\u{7f}\u{85}",
        "# <# x #> --% ; | & { } ( ) @( )",
        "\n)\nStop-Computer\n@(",
    ];
    for value in table {
        is_only_data(value);
    }
}

proptest! {
    #![proptest_config(cases(128))]
    #[test]
    fn no_value_becomes_code(
        value in prop_oneof![any::<String>(), "['\"`$\u{2018}-\u{201f}\r\n a()@{};#+]{1,16}"],
    ) {
        prop_assume!(!value.is_empty());
        is_only_data(&value);
    }
}

#[test]
fn the_grammar_finds_a_value_that_is_not_quoted() {
    for text in ["$a = @(\r\n  'it's'\r\n)\r\n", "Write-Text 'a' @(\r\n  \"x\r\n)\r\n"] {
        assert!(tree(text).root_node().has_error(), "{text}");
    }
    let script = read("Write-Text 'a' @(\r\n  'b'\r\n)\r\nStop-Computer\r\n");
    assert_eq!(script.statements, ["Stop-Computer"]);
}

#[test]
fn the_scripts_of_machines_match_the_grammar() {
    parse(include_str!("../../crates/winpool-agent/src/facts/machine.ps1"));
    for text in [scripts::kubelet(&[]), scripts::containerd(&[], &[]), with_value("")] {
        parse(&text);
        assert!(text.is_ascii() && text.lines().count() == text.matches("\r\n").count(), "{text}");
    }
}

/// The files that the script for a golden profile writes, by path.
fn files(kubernetes: &str, containerd: &str) -> BTreeMap<String, String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/platforms");
    let more = ["--kubernetes", kubernetes, "--containerd", containerd];
    let output = output(&folder, "pools.yaml", "powershell", &more);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let script = read(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(script.environment, ["HTTPS_PROXY=http://proxy.example:3128", "NO_PROXY=10.0.0.0/8"]);
    script.files.into_iter().collect()
}

#[test]
fn each_file_has_the_place_that_its_version_reads() {
    const DROP_IN: &str = r"C:\Program Files\containerd\conf.d\50-winpool.toml";
    const PARTIAL: &str = r"C:\Program Files\containerd\winpool.partial.toml";
    const CONF_D: &str = r"C:\k\winpool\kubelet.conf.d\50-winpool.conf";
    const PATCH: &str = r"C:\k\winpool\patches\kubeletconfiguration0+merge.yaml";
    let table = [("1.36", "2.2", DROP_IN, PARTIAL), ("1.30", "1.7", PARTIAL, DROP_IN)];
    for (kubernetes, containerd, present, absent) in table {
        let files = files(kubernetes, containerd);
        for path in [present, CONF_D, PATCH] {
            assert!(files.contains_key(path), "{kubernetes}: {path} is not in {:?}", files.keys());
        }
        assert!(!files.contains_key(absent), "{kubernetes}: {absent}");
        let others = [r"C:\Program Files\containerd\certs.d\docker.io\hosts.toml", r"C:\k\winpool\kubelet.args"];
        assert!(others.iter().all(|path| files.contains_key(*path)), "{:?}", files.keys());
        assert!(files.keys().all(|path| !path.ends_with(r"\config.toml")), "the file of the node is not written");
    }
}
