//! The PowerShell scripts, read with a grammar of PowerShell: no value becomes code.

use proptest::prelude::*;
use tree_sitter::{Node, Parser, Tree};
use winpool_render::scripts;

use winpool_model::cases;

/// What a script sets, and its other statements as text.
#[derive(Debug, Default, PartialEq)]
struct Script {
    environment: Vec<String>,
    statements: Vec<String>,
}

/// The tree of a script.
///
/// # Panics
/// The script does not match the grammar.
pub fn parse(text: &str) -> Tree {
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
        if source.starts_with("$environment = ") {
            let value = children(inner(statement)).into_iter().next_back().unwrap();
            self.environment = strings(value, text);
        } else {
            self.statements.push(source.to_owned());
        }
    }
}

/// Checks that a value is only data in both scripts that contain values.
fn is_only_data(value: &str) {
    let pairs = [("HTTP_PROXY", value), ("HTTPS_PROXY", value), ("NO_PROXY", value)];
    let arguments = ["--node-labels=agentpool=web".to_owned()];
    let before_join = |variables: &[(&str, &str)]| read(&scripts::containerd(variables, &arguments));
    let after_join = |variables: &[(&str, &str)]| read(&scripts::kubelet(variables));
    for (script, harmless) in
        [(before_join(&pairs), before_join(&[("A", "x")])), (after_join(&pairs), after_join(&[("A", "x")]))]
    {
        assert_eq!(script.statements, harmless.statements);
        assert_eq!(script.environment, pairs.map(|(name, value)| format!("{name}={value}")));
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
    for text in ["$a = @(\r\n  'it's'\r\n)\r\n", "Write-Output @(\r\n  \"x\r\n)\r\n"] {
        assert!(tree(text).root_node().has_error(), "{text}");
    }
    let script = read("$environment = @(\r\n  'b'\r\n)\r\nStop-Computer\r\n");
    assert_eq!(script.statements, ["Stop-Computer"]);
}

#[test]
fn the_scripts_of_machines_match_the_grammar() {
    parse(include_str!("../../crates/agent/src/facts/machine.ps1"));
    for text in [scripts::kubelet(&[]), scripts::containerd(&[], &[])] {
        parse(&text);
        assert!(text.is_ascii() && text.lines().count() == text.matches("\r\n").count(), "{text}");
    }
}

#[test]
fn the_script_of_the_first_run_matches_the_grammar_and_has_the_stages_of_its_page() {
    let (script, page) = (include_str!("../../docs/first-run.ps1"), include_str!("../../docs/first-run.md"));
    parse(script);
    let stages: Vec<_> =
        page.split(".\\first-run.ps1 -Stage ").skip(1).filter_map(|rest| rest.lines().next()).collect();
    assert_eq!(stages, ["before", "changed", "rolledback", "restored"]);
    let set = stages.iter().map(|stage| format!("'{stage}'")).collect::<Vec<_>>().join(", ");
    assert!(script.contains(&format!("[ValidateSet({set})]")), "{set}");
}
