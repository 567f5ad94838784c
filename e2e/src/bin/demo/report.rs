//! What the demonstration prints of the cluster: commands of kubectl and winpool with their output.

use anyhow::Result;
use e2e::{
    cluster::Cluster,
    control_plane::User,
    install::path,
    operator::{binary, winpool},
};

use crate::{
    progress::{bold, dim},
    windows,
};

/// Commands for another terminal, each with a remark.
const NEXT: [(&str, &str); 5] = [
    ("kubectl describe wnp batch-2019", "conditions, with what is wrong and what to do"),
    ("kubectl taint nodes web-1 os-", "a taint that is removed by hand is added again"),
    ("kubectl annotate node web-1 a=b", "what others set on a node stays"),
    ("winpool verify web-2022 --dry-run", "the Jobs that check the nodes of a pool; on these nothing would connect"),
    ("winpool explain OSMismatch", "what a condition means"),
];

/// Prints what is right, what is wrong, and what to do.
pub fn report(cluster: &Cluster) -> Result<()> {
    title(
        "Two pools write labels, taints and RuntimeClasses; the third one only observes. PROBLEM is the worst problem:",
    );
    show_kubectl(cluster, &["get", "nodes", "-L", "winpool.dev/pool,node.kubernetes.io/windows-build"])?;
    show_kubectl(cluster, &["get", "wnp"])?;
    title("Pods run on nodes of their build because of their RuntimeClass, and none on batch-2:");
    let columns = "custom-columns=POD:.metadata.name,RUNTIMECLASS:.spec.runtimeClassName,NODE:.spec.nodeName,STATUS:.status.phase";
    show_kubectl(cluster, &["get", "pods", "-o", columns])?;
    title("What is right, what would make a pod fail, and what to do:");
    show_winpool(cluster, &["status"])?;
    title("What pool spare would change if it did not only observe:");
    show_winpool(cluster, &["plan", "--pool", "spare"])?;
    title("How many more pods fit, and how web-2022 would move to another Windows:");
    show_winpool(cluster, &["status", "--capacity", "web-2022"])?;
    show_winpool(cluster, &["migrate", "web-2022", "--to", "ltsc2025", "--plan"])?;
    title("What the manifests of an application with a gMSA lack, before it is deployed:");
    show_winpool(cluster, &["lint", "crates/check/tests/lint/gmsa/bad.yaml"])?;
    title("A volume whose CSI driver the nodes do not have, as the operator reports it with --storage:");
    cluster.kubectl(&["apply", "-f", &path("docs/storage/orders.yaml")])?;
    let found = "--for=jsonpath={.status.conditions[?(@.type=='WorkloadsPlaced')].reason}=DriverNotRegistered";
    cluster.kubectl(&["wait", "wnp/web-2022", found, "--timeout=60s"])?;
    show_winpool(cluster, &["status", "web-2022"])?;
    title(
        "What the nodes of web-2022 should reserve, from example samples, because simulated kubelets measure nothing:",
    );
    show_winpool(cluster, &["recommend", "web-2022", "--samples", "docs/recommend/web-2022.jsonl"])
}

/// Prints what the node under Wine reports.
pub fn windows_node(cluster: &Cluster) -> Result<()> {
    title("One node of web-2022 is not simulated: kubelet.exe on containerd.exe, under Wine, where no container runs:");
    show_kubectl(cluster, &["get", "node", windows::NAME, "-o", "wide"])
}

/// Prints how to look further.
pub fn next_steps(cluster: &Cluster, windows_node: bool) -> Result<()> {
    let control_plane = &cluster.control_plane;
    let folder = |program: &std::path::Path| program.parent().unwrap_or(program).display().to_string();
    title("The cluster runs until Ctrl-C. In another terminal:");
    println!("  export KUBECONFIG={}", control_plane.kubeconfig(User::Admin).display());
    println!("  export PATH={}:{}:$PATH", folder(&control_plane.assets().kubectl), folder(&binary()?.canonicalize()?));
    for (command, remark) in NEXT {
        println!("  {command:<34}{}", dim(&format!("# {remark}")));
    }
    if !windows_node {
        println!(
            "{}",
            dim("  make run ARGS=--windows-node adds a node with kubelet.exe and containerd.exe, under Wine")
        );
    }
    println!("{}", dim(&format!("  logs: {}", control_plane.directory().join("logs").display())));
    Ok(())
}

fn title(text: &str) {
    println!("\n{}", bold(text));
}

fn show_kubectl(cluster: &Cluster, arguments: &[&str]) -> Result<()> {
    show("kubectl", arguments, &cluster.kubectl(arguments)?);
    Ok(())
}

/// Its exit status says whether it has found something.
fn show_winpool(cluster: &Cluster, arguments: &[&str]) -> Result<()> {
    let output = winpool(&cluster.control_plane, User::Admin, arguments)?;
    show("winpool", arguments, &String::from_utf8_lossy(&output.stdout));
    Ok(())
}

fn show(program: &str, arguments: &[&str], output: &str) {
    println!("\n$ {program} {}\n{}", arguments.join(" "), output.trim_end());
}
