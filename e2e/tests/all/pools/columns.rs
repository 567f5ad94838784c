//! What `kubectl get` prints.

use e2e::{cluster::NODE_LABEL, control_plane::User, fixture::spec, kubectl::kubectl, kubelet::SimulatedNode};
use serde_json::json;

use super::{shared, with_nodes};

/// The cells of the header and of a pool, in `kubectl get wnp`.
async fn cells(pool: &str, more: &[&str]) -> Vec<(String, String)> {
    let arguments = [&["get", "wnp", pool], more].concat();
    let table = kubectl(&shared().await.control_plane, User::Admin, &arguments).unwrap();
    let mut lines = table.lines().map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()));
    let (header, row) = (lines.next().unwrap(), lines.next().unwrap());
    header.zip(row).map(|(name, cell)| (name.to_owned(), cell.to_owned())).collect()
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
        cells_of(&narrow, &["NAME", "READY", "MODE", "NODES", "TAINTED", "WINDOWS", "SUPPORT", "PROBLEM"]),
        ["columns", "True", "Enforce", "3/3", "3/3", "10.0.20348", "2031-10-14", "NodeBuildDiffers(1)"]
    );
    let wide = cells("columns", &["-o", "wide"]).await;
    assert_eq!(cells_of(&wide, &["RUNTIMECLASS", "SKEWED", "MISMATCHED"])[2], "1");
    fixture.nothing_was_forbidden().unwrap();
}
