//! Prints the cluster with `kubectl`, and the findings of its pools.

use std::sync::Arc;

use anyhow::Result;
use e2e::{
    control_plane::{ControlPlane, User},
    kubectl::kubectl,
};

use kube::ResourceExt;
use winpool_api::WindowsNodePool;

use crate::{
    pools,
    progress::{blocking, bold, dim},
};

/// The maximum line width of messages.
const WIDTH: usize = 110;

const NODES: &[&str] = &["get", "nodes", "-L", "winpool.dev/pool,node.kubernetes.io/windows-build"];
const POOLS: &[&str] = &["get", "wnp"];
const CLASSES: &[&str] = &["get", "runtimeclass"];
const PODS: &[&str] = &[
    "get",
    "pods",
    "-o",
    "custom-columns=POD:.metadata.name,STATUS:.status.phase,RUNTIMECLASS:.spec.runtimeClassName,NODE:.spec.nodeName",
];
/// The operator's warning events about workloads; the conditions have the same messages.
const WARNINGS: &[&str] = &[
    "get",
    "events",
    "--field-selector",
    "type=Warning,source=winpool,involvedObject.namespace=default",
    "-o",
    "custom-columns=WORKLOAD:.involvedObject.kind,NAME:.involvedObject.name,REASON:.reason",
];

/// Prints the output of `kubectl`.
///
/// # Errors
/// When `kubectl` fails.
pub async fn tables(control_plane: &Arc<ControlPlane>) -> Result<()> {
    let of_pods = [PODS, WARNINGS];
    for arguments in [NODES, POOLS, CLASSES].into_iter().chain(of_pods) {
        let shared = control_plane.clone();
        let text = blocking(move || kubectl(&shared, User::Admin, arguments)).await?;
        println!("\n{}\n{}", bold(&format!("$ kubectl {}", arguments.join(" "))), text.trim_end());
    }
    Ok(())
}

/// Prints the findings of each pool.
pub fn findings(pools: &[WindowsNodePool]) {
    println!("\n{}", bold("What the pools report, and what to do"));
    let all = pools.iter().map(|pool| (pool, pools::findings(pool)));
    for (pool, findings) in all.filter(|(_, findings)| !findings.is_empty()) {
        println!("{}", bold(&pool.name_any()));
        for finding in findings {
            paragraph(&format!("{}: {}", finding.title, finding.message));
        }
    }
}

/// Prints a text in several lines, the first of them less indented.
pub fn paragraph(text: &str) {
    for (number, line) in wrapped(text, WIDTH - 6).iter().enumerate() {
        println!("{}{line}", if number == 0 { "  " } else { "      " });
    }
}

/// Prints commands for further inspection.
pub fn next_steps(control_plane: &ControlPlane) {
    let kubectl = &control_plane.assets().kubectl;
    let folder = kubectl.parent().unwrap_or(kubectl).display();
    println!("\n{}", bold("It stays up until Ctrl-C. In another terminal:"));
    println!("  export KUBECONFIG={}", control_plane.kubeconfig(User::Admin).display());
    println!("  export PATH={folder}:$PATH");
    for (command, remark) in [
        ("kubectl describe wnp spare", "what a pool that only observes would change"),
        ("kubectl describe daemonset agent", "a workload that does not work, and why"),
        ("kubectl get wnc -o yaml", "what the agents of the nodes report"),
        ("kubectl taint nodes web-1 os-", "a taint removed by hand comes back"),
        ("kubectl events", "what the operator did"),
    ] {
        println!("  {command:<45}{}", dim(&format!("# {remark}")));
    }
    println!("{}", dim(&format!("  logs: {}", control_plane.directory().join("logs").display())));
}

/// The text in lines of at most `width` characters, unless a word is longer.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_wrapped_between_words() {
        for (text, lines) in [
            ("", vec![]),
            ("one two three", vec!["one two", "three"]),
            ("a-word-that-is-too-long b", vec!["a-word-that-is-too-long", "b"]),
        ] {
            assert_eq!(wrapped(text, 8), lines);
        }
    }
}
