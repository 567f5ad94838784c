//! Facts about nodes, which their agents report, and what the pool says about them.

use e2e::{cluster::SOON, control_plane::User, wait::until};
use serde_json::{Value, json};

use super::{Fleet, POOL};

/// What the script of the agent prints: everyone with an account can read the files of the kubelet, and BitLocker is not installed.
const MACHINE: [&str; 8] = [
    "acl|0|O:BAG:SYD:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;OICIID;0x1200a9;;;BU)",
    r"volume|0|\\?\Volume{4c1b02c1-d990-11dc-99ae-806e6f6e6963}\|1000|500",
    "acl|1|O:SYG:SYD:P(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)",
    r"volume|1|\\?\Volume{4c1b02c1-d990-11dc-99ae-806e6f6e6963}\|1000|500",
    "encryption|read",
    "boot|2026-11-20T07:00:00.5000000Z",
    "domain|False",
    "pipe|read",
];

#[tokio::test]
async fn a_pool_reports_unprotected_secrets_and_stays_ready_and_nothing_is_written_while_nothing_changes() {
    let (mut fleet, operator) = Fleet::configured(&MACHINE).await;

    let found = fleet.cluster.until_condition(POOL, "NodeHygiene", "True", "SecretsReadable").await.unwrap();
    let restarts = |service: &str| {
        format!(
            "win-01: the service {service} is not started again when it fails. Run: sc.exe failure {service} reset= 86400 \
             actions= restart/15000. "
        )
    };
    let expected = [
        r"win-01: C:\var\lib\kubelet has Secrets of pods in clear text, and BUILTIN\Users can read it. Give access to SYSTEM and ",
        "Administrators only; if pods run as ContainerUser, which has the rights of BUILTIN\\Users, let only administrators log on. ",
        r"win-01: BitLocker does not protect C:\var\lib\kubelet and C:\ProgramData\containerd\root with Secrets of pods in clear ",
        "text. Turn it on, unless the platform encrypts the disk. ",
        &restarts("containerd"),
        &restarts("kubelet"),
        "List the nodes: kubectl get nodes -l winpool.dev/pool=web",
    ];
    assert_eq!(found.message, expected.concat());
    fleet.cluster.until_condition(POOL, "Ready", "True", "AsSpecified").await.unwrap();

    let read = |fleet: &Fleet, kind, name, path| fleet.cluster.kubectl(&["get", kind, name, "-o", path]).unwrap();
    let facts: Value = serde_json::from_str(&read(&fleet, "wnc", "win-01", "jsonpath={.status.facts}")).unwrap();
    let service = |name: &str| json!({ "name": name, "start": "Manual", "restarts": false });
    let expected = json!({
        "directories": [
            { "path": r"C:\var\lib\kubelet", "readers": [r"BUILTIN\Users"], "encrypted": false },
            { "path": r"C:\ProgramData\containerd\root", "readers": [], "encrypted": false },
        ],
        "services": [service("containerd"), service("kubelet")],
        "rebootPending": false, "bootedAt": "2026-11-20T07:00:00Z", "domainJoined": false,
        "ccgPlugins": [], "compartmentNamespace": false, "csiProxyPipes": [],
    });
    assert_eq!(facts, expected);
    let nothing = read(&fleet, "wnc", "win-02", "jsonpath={.status.facts}");
    assert_eq!(nothing, r#"{"directories":[],"services":[]}"#, "no fact can be read there");

    // An agent that starts reads the same facts again. It reports no layout before the next change, which is the only difference.
    let version = "jsonpath={.metadata.resourceVersion}";
    restart_agent(&mut fleet).await;
    let versions = |fleet: &Fleet| [read(fleet, "wnc", "win-01", version), read(fleet, "wnp", POOL, version)];
    let before = versions(&fleet);
    restart_agent(&mut fleet).await;
    assert_eq!(versions(&fleet), before);
    operator.stop().await.unwrap();
    fleet.stop().await;
}

/// Starts the agent of the first node again, and waits until it has reported its status, and the facts.
async fn restart_agent(fleet: &mut Fleet) {
    let reports = |fleet: &Fleet| {
        let all = fleet.cluster.control_plane.requests_of(User::Agent).unwrap();
        all.iter().filter(|request| request.subresource == "status").count()
    };
    let before = reports(fleet);
    drop(fleet.agents.remove("win-01"));
    fleet.start_agent("win-01");
    let now = async || Ok(reports(fleet));
    until("the agent has reported twice", SOON, now, |now| *now >= before + 2).await.unwrap();
}
