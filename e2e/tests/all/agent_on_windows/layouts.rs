//! Other ways in which a kubelet is installed.

use e2e::windows_node::{KUBEADM_FLAGS, Setup};
use serde_json::json;
use winpool_api::NodeConfigPhase;

use super::{Fixture, NODE, POOL};
use crate::agent_programs::stripped_programs;

#[tokio::test]
async fn a_kubelet_under_nssm_gets_its_flags_in_the_file_of_its_start_script() {
    let setup = Setup { nssm: true, ..Setup::new(stripped_programs(), NODE, POOL) };
    let fixture = Fixture::with(setup).await;
    let former = fixture.status().await.observed_digest;
    fixture.apply_profile(json!({ "kubelet": { "maxPods": 41, "priorityClass": "High" } })).await;
    let status = fixture.until_ended(&former).await;
    assert_eq!((status.phase, status.reason.as_str()), (NodeConfigPhase::Applied, ""), "{}", status.message);
    fixture.until_in_effect().await;
    let flags = fixture.node.read(KUBEADM_FLAGS).unwrap();
    assert!(flags.contains("--windows-priorityclass=HIGH_PRIORITY_CLASS"), "{flags}");
    assert_eq!(fixture.node.configz().await.unwrap()["maxPods"], json!(41));
    fixture.stop().await;
}
