//! What `kubectl get` prints.

use e2e::{cluster::NODE_LABEL, control_plane::User, fixture::spec, kubectl::kubectl, kubelet::SimulatedNode};
use serde_json::json;

use super::{shared, with_nodes};

/// The names of the columns and the cells of a pool, in `kubectl get wnp`. A column begins where its name does.
async fn cells(pool: &str, more: &[&str]) -> Vec<(String, String)> {
    let arguments = [&["get", "wnp", pool], more].concat();
    let table = kubectl(&shared().await.control_plane, User::Admin, &arguments).unwrap();
    let (header, row) = table.trim_end().split_once('\n').unwrap();
    let begins = |at: &usize| !header[*at..].starts_with(' ') && (*at == 0 || header[..*at].ends_with(' '));
    let starts: Vec<usize> = (0..header.len()).filter(begins).collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let part = |line: &str, start: usize, end: usize| line[start..end.min(line.len())].trim().to_owned();
    starts.iter().zip(ends).map(|(start, end)| (part(header, *start, end), part(row, *start, end))).collect()
}

#[tokio::test]
async fn kubectl_get_shows_ready_nodes_versions_support_and_the_worst_problem() {
    let node = |number: usize, version: &str| {
        SimulatedNode::windows(&format!("columns-{number}"), version).label(NODE_LABEL, "columns")
    };
    let nodes = vec![node(1, "10.0.20348.4529"), node(2, "10.0.20348.4529"), node(3, "10.0.17763.5329")];
    let fixture = with_nodes("columns", nodes).await;
    fixture.apply_pool("columns", spec("columns", json!({}))).await.unwrap();
    fixture.until_condition("columns", "Ready", "True", "AsSpecified").await.unwrap();
    fixture.until_condition("columns", "OSMismatch", "True", "NodeBuildDiffers").await.unwrap();
    let cells_of = |cells: &[(String, String)], names: &[&str]| -> Vec<String> {
        let cell = |name: &&str| cells.iter().find(|(known, _)| known == name).map(|(_, cell)| cell.clone());
        names.iter().map(|name| cell(name).unwrap_or_else(|| panic!("no {name}: {cells:?}"))).collect()
    };
    let narrow = cells("columns", &[]).await;
    let header: Vec<&str> = narrow.iter().map(|(name, _)| name.as_str()).collect();
    let design =
        ["NAME", "READY", "MODE", "NODES", "TAINTED", "CONFIGURED", "WINDOWS", "KUBELET", "SUPPORT", "PROBLEM", "AGE"];
    assert_eq!(header, design);
    assert_eq!(
        cells_of(&narrow, &["NAME", "READY", "MODE", "NODES", "TAINTED", "WINDOWS", "SUPPORT"]),
        ["columns", "True", "Enforce", "3/3", "3/3", "10.0.20348", "2031-10-14"]
    );
    // How many versions are not supported depends on the server and on the date.
    let problem = &cells_of(&narrow, &["PROBLEM"])[0];
    assert!(problem.starts_with("Windows/NodeBuildDiffers(1)"), "{problem}");
    let wide = cells("columns", &["-o", "wide"]).await;
    assert_eq!(
        cells_of(&wide, &["PROFILE", "RUNTIMECLASS", "SKEWED", "MISMATCHED", "MESSAGE"]),
        ["", "columns", "", "1", "the spec is applied to 3 nodes"]
    );
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_pool_whose_selector_matches_only_linux_nodes_says_so() {
    let linux = (1..=3).map(|number| SimulatedNode::linux(&format!("penguin-{number}")).label(NODE_LABEL, "penguin"));
    let fixture = with_nodes("penguin", linux.collect()).await;
    fixture.apply_pool("penguin", spec("penguin", json!({}))).await.unwrap();
    let message = fixture.until_condition("penguin", "NodesAssigned", "True", "OnlyLinuxNodes").await.unwrap().message;
    assert!(message.contains("3 Linux nodes"), "{message}");
    fixture.nothing_was_forbidden().unwrap();
}
