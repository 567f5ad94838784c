//! The delivery of configurations by node agents, on a model of the API server with simulated agents.

mod diagnoses;
mod drains;
mod renderings;
mod reports;
mod windows;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use winpool_api::{Disruption, WindowsNodeConfigSpec, WindowsNodePoolStatus};
use winpool_core::kind::Kind;
use winpool_rules::{
    operation::{Action, Done, Unwritten, Write, WriteTarget},
    pool::{
        Snapshot,
        delivery::awaiting_confirmation,
        plan::{clean_up, plan},
    },
    status::pool::report,
};

use winpool_model::{CONFIG, Model, NODE, NODE_CONFIG, POD, POOL, PROFILE, node, pod, pool, profile};

const RUNTIME: &str = "containerd://2.2.10";
const LIST: &str = "List the nodes: kubectl get nodes -l winpool.dev/pool=web";

/// What the agent of a node does with a configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Agent {
    Applies,
    RollsBack,
    Silent,
}

/// A pool `web` with a profile and nodes whose kubelets have the configuration of an empty profile.
struct Cluster {
    model: Model,
    /// What the agents do, by name of the node.
    agents: fn(&str) -> Agent,
    /// The operations, as `Node win-1: cordon`.
    log: Vec<String>,
}

impl Cluster {
    fn new(nodes: usize, rollout: Value) -> Self {
        let mut model = Model::new();
        model.put(PROFILE, "standard", profile(json!({})));
        for index in 1..=nodes {
            model.put(NODE, &format!("win-{index}"), web_node());
        }
        model.put(POOL, "web", pool(spec("web", json!({"method": "Agent", "rollout": rollout}))));
        // The nodes are older than the rollout.
        model.now += SignedDuration::from_hours(1);
        Self { model, agents: |_| Agent::Applies, log: Vec::new() }
    }

    /// The same after the first assignment.
    fn assigned(nodes: usize, rollout: Value) -> Self {
        let mut cluster = Self::new(nodes, rollout);
        cluster.reconcile("web");
        cluster.reconcile("web");
        cluster
    }

    /// The same after the rollout, with an empty log.
    fn converged(nodes: usize, rollout: Value) -> Self {
        let mut cluster = Self::new(nodes, rollout);
        cluster.converge();
        cluster.take_log();
        cluster
    }

    fn reconcile(&mut self, pool: &str) -> WindowsNodePoolStatus {
        let operations = plan(&self.model.snapshot(), pool).unwrap().steps.into_writes();
        let of_agents = |write: &Write| {
            use Action::{ApplyNodeConfig, CordonNode, DeleteNodeConfig, EvictPod, RemoveDrainRecord, UncordonNode};
            [ApplyNodeConfig, DeleteNodeConfig, CordonNode, UncordonNode, RemoveDrainRecord, EvictPod]
                .contains(&write.action)
        };
        self.log.extend(operations.filter(of_agents).filter_map(|operation| operation.summary()));
        self.model.reconcile_until(pool, usize::MAX, |_| {}).unwrap().1.status
    }

    /// The agents act, and two seconds pass.
    fn act(&mut self) {
        self.model.now += SignedDuration::from_secs(2);
        for name in self.model.names(NODE_CONFIG) {
            self.act_on(&name);
        }
    }

    fn act_on(&mut self, name: &str) {
        let config = self.model.get(NODE_CONFIG, name).unwrap().clone();
        let (spec, status) = (&config["spec"], &config["status"]);
        let observed = status["observedDigest"] == spec["digest"] && status["observedAttempt"] == spec["attempt"];
        let agent = (self.agents)(name);
        let phase = match (observed, agent) {
            (_, Agent::Silent) => return,
            (false, Agent::RollsBack) => "RolledBack",
            (false, Agent::Applies) => "Verifying",
            (true, _) if status["phase"] == "Verifying" && spec["confirmed"] == spec["digest"] => "Applied",
            (true, _) => return,
        };
        let now = self.model.now;
        let spec = spec.clone();
        self.model.edit(NODE_CONFIG, name, |config| {
            let status = &mut config["status"];
            status["phase"] = json!(phase);
            status["reason"] = json!(if phase == "RolledBack" { "KubeletNotHealthy" } else { "" });
            status["observedDigest"] = spec["digest"].clone();
            status["observedAttempt"] = spec["attempt"].clone();
            status["restartedAt"] = json!(now);
            if phase == "Applied" {
                status["applied"] = json!({"config": spec["config"], "digest": spec["digest"]});
            }
        });
        if phase == "Verifying" {
            let pods = self.max_pods();
            self.model.edit(NODE, name, |node| {
                let allocatable =
                    json!({"cpu": "4", "memory": "14168064Ki", "ephemeral-storage": "96636764160", "pods": pods});
                node["status"]["allocatable"] = allocatable;
                node["status"]["conditions"][0]["lastHeartbeatTime"] = json!(now + SignedDuration::from_secs(1));
            });
        }
    }

    fn max_pods(&self) -> String {
        let pods = &self.model.get(PROFILE, "standard").unwrap()["spec"]["kubelet"]["maxPods"];
        pods.as_u64().unwrap_or(110).to_string()
    }

    /// Reconciles and acts until nothing changes.
    fn converge(&mut self) -> WindowsNodePoolStatus {
        for _ in 0..100 {
            let before = self.model.clone();
            let status = self.reconcile("web");
            self.act();
            let same = |kind| self.model.all(kind).eq(before.all(kind));
            if [NODE, NODE_CONFIG, CONFIG, POD, POOL].into_iter().all(same) {
                return status;
            }
        }
        panic!("the rollout does not end: {:?}", self.log)
    }

    fn set_attempt(&mut self, attempt: u32) {
        self.model.edit(POOL, "web", |pool| pool["spec"]["delivery"]["rollout"]["attempt"] = json!(attempt));
    }

    fn set_profile(&mut self, spec: Value) {
        self.model.edit(PROFILE, "standard", |profile| profile["spec"] = spec);
    }

    fn take_log(&mut self) -> Vec<String> {
        let names: Vec<_> = self.model.names(CONFIG);
        let digest = |line: &str| names.iter().fold(line.to_owned(), |line, name| line.replace(name, "CONFIG"));
        std::mem::take(&mut self.log).iter().map(|line| digest(line)).collect()
    }

    fn node_config(&self, name: &str) -> &Value {
        self.model.get(NODE_CONFIG, name).unwrap()
    }
}

fn web_node() -> Value {
    node(20348, RUNTIME, &json!({"agentpool": "web"}), &json!([]))
}

fn spec(agentpool: &str, delivery: Value) -> Value {
    json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": {"matchLabels": {"agentpool": agentpool}},
        "profileRef": {"name": "standard"},
        "delivery": delivery,
    })
}

/// Status, reason and message of `ConfigInEffect`.
fn config_in_effect(status: &WindowsNodePoolStatus) -> (String, String, String) {
    let found = status.conditions.iter().find(|found| found.type_ == "ConfigInEffect").unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

fn never_drain() -> Value {
    json!({"drain": "Never"})
}

#[test]
fn agents_get_their_configuration_one_after_another_and_each_is_confirmed() {
    let mut cluster = Cluster::new(2, never_drain());
    cluster.reconcile("web");
    let status = cluster.reconcile("web");
    let expected = format!("0 of 2 nodes run their configuration, in progress: win-1. {LIST}");
    assert_eq!(config_in_effect(&status), ("False".into(), "RollingOut".into(), expected));
    assert_eq!(status.columns.configured, "0/2");
    assert_eq!(status.columns.problem, "-", "a rollout is no problem");
    let status = cluster.converge();
    assert_eq!(
        cluster.take_log(),
        [
            "WindowsNodeConfig win-1: assign CONFIG (ContainerdRestart)",
            "WindowsNodeConfig win-1: confirm CONFIG",
            "WindowsNodeConfig win-2: assign CONFIG (ContainerdRestart)",
            "WindowsNodeConfig win-2: confirm CONFIG",
        ]
    );
    let message =
        "the agents of 2 nodes report the configuration as applied, and the reported resources are those of it";
    assert_eq!(config_in_effect(&status), ("True".into(), "InEffect".into(), message.into()));
    assert_eq!((status.columns.configured.as_str(), status.configs), ("2/2", vec![]));
}

#[test]
fn a_node_config_has_all_that_its_agent_needs() {
    let cluster = Cluster::assigned(1, json!({"drain": "Never", "timeout": "20m", "attempt": 3}));
    let (map, node) = (cluster.model.all(CONFIG).next().unwrap(), cluster.model.get(NODE, "win-1").unwrap());
    let spec = &cluster.node_config("win-1")["spec"];
    let digest = spec["digest"].as_str().unwrap();
    let name = map["metadata"]["name"].as_str().unwrap();
    assert_eq!(name, format!("web-{}", &digest[..10]));
    assert_eq!(
        *spec,
        json!({
            "pool": "web", "nodeUID": node["metadata"]["uid"], "config": name, "digest": digest,
            "disruption": "ContainerdRestart", "attempt": 3, "confirmTimeout": "600s", "assignedAt": "2026-06-01T13:00:00Z",
        })
    );
}

#[test]
fn without_agents_nothing_is_written_for_them_and_what_was_written_is_deleted() {
    for delivery in [Value::Null, json!({}), json!({"method": "None"})] {
        let mut cluster = Cluster::converged(2, never_drain());
        assert_eq!(cluster.model.names(NODE_CONFIG), ["win-1", "win-2"]);
        cluster.model.set_spec("web", "delivery", delivery);
        cluster.converge();
        assert_eq!(cluster.take_log(), ["WindowsNodeConfig win-1: delete", "WindowsNodeConfig win-2: delete"]);
        assert_eq!(cluster.model.names(NODE_CONFIG), Vec::<String>::new());
        let status = cluster.converge();
        assert_eq!(config_in_effect(&status).2, "the reported resources of 2 nodes are those of the configuration");
    }
}

#[test]
fn a_failure_halts_the_rollout_and_the_status_says_what_to_do() {
    let mut cluster = Cluster::converged(3, never_drain());
    cluster.agents = |name| if name == "win-1" { Agent::RollsBack } else { Agent::Applies };
    cluster.set_profile(json!({"kubelet": {"maxPods": 60}}));
    let status = cluster.converge();
    let (found, reason, message) = config_in_effect(&status);
    let config = cluster.node_config("win-1")["spec"]["config"].as_str().unwrap().to_owned();
    assert_eq!((found.as_str(), reason.as_str()), ("False", "RolloutHalted"));
    assert_eq!(
        message,
        format!(
            "the rollout of {config} is halted, because it failed on 1 node: win-1 (rolled back: KubeletNotHealthy). Correct \
             the profile, or set spec.delivery.rollout.attempt: 2 to try it again. 0 of 3 nodes run their configuration. {LIST}"
        )
    );
    assert_eq!(status.columns.problem, "Config/RolloutHalted(1)");
    assert_eq!(
        cluster.take_log(),
        ["WindowsNodeConfig win-1: assign CONFIG (KubeletRestart)"],
        "no further node begins"
    );
}

#[test]
fn an_agent_that_does_not_report_has_failed_after_the_timeout() {
    let mut cluster = Cluster::assigned(2, never_drain());
    cluster.agents = |_| Agent::Silent;
    cluster.model.now += SignedDuration::from_secs(599);
    assert_eq!(config_in_effect(&cluster.reconcile("web")).1, "RollingOut");
    let snapshot = cluster.model.snapshot();
    let report = report(&snapshot, &plan(&snapshot, "web").unwrap(), &Done::default());
    assert_eq!(report.requeue_after.unwrap().as_secs(), 1, "it is reconciled at the deadline");
    cluster.model.now += SignedDuration::from_secs(1);
    let (_, reason, message) = config_in_effect(&cluster.reconcile("web"));
    assert_eq!(reason, "RolloutHalted");
    assert!(message.contains("win-1 (the agent did not report a result in time)"), "{message}");
}

#[test]
fn a_configuration_is_confirmed_only_if_the_node_is_alive_and_reports_its_resources() {
    let verifying = |change: fn(&mut Value)| {
        let mut cluster = Cluster::assigned(1, never_drain());
        cluster.act();
        cluster.model.edit(NODE, "win-1", change);
        cluster.reconcile("web");
        cluster.node_config("win-1")["spec"]["confirmed"].is_string()
    };
    assert!(verifying(|_| {}));
    assert!(!verifying(|node| node["status"]["conditions"][0]["status"] = json!("False")), "not Ready");
    assert!(!verifying(|node| node["status"]["conditions"][0]["lastHeartbeatTime"] = Value::Null), "no heartbeat");
    assert!(
        !verifying(|node| node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-06-01T13:00:02Z")),
        "the last heartbeat was not after the restart"
    );
    assert!(!verifying(|node| node["status"]["allocatable"]["memory"] = json!("16Gi")), "other resources");
}

#[test]
fn a_superseded_configuration_is_confirmed_only_if_the_node_reports_its_resources() {
    let allocatable = |resource: &'static str, amount: &'static str| {
        move |cluster: &mut Cluster| {
            cluster.model.edit(NODE, "win-1", |node| node["status"]["allocatable"][resource] = json!(amount));
        }
    };
    let delete_config = |cluster: &mut Cluster| {
        let config = cluster.node_config("win-1")["spec"]["config"].as_str().unwrap().to_owned();
        cluster.model.delete(CONFIG, &config);
    };
    let table: [(bool, &str, &dyn Fn(&mut Cluster)); 4] = [
        (true, "the resources are those of the assigned configuration", &|_| {}),
        (false, "no memory is reserved", &allocatable("memory", "16Gi")),
        (false, "the pods are those of the desired configuration", &allocatable("pods", "50")),
        (false, "the assigned ConfigMap is gone", &delete_config),
    ];
    for (expected, case, change) in table {
        let mut cluster = Cluster::assigned(1, never_drain());
        cluster.act();
        // Another configuration is desired before the first one is confirmed.
        cluster.set_profile(json!({"kubelet": {"maxPods": 50}}));
        change(&mut cluster);
        cluster.reconcile("web");
        assert_eq!(cluster.node_config("win-1")["spec"]["confirmed"].is_string(), expected, "{case}");
    }
}

#[test]
fn the_report_of_an_agent_on_another_machine_is_ignored() {
    for (agent, kubelet, expected) in [
        ("4C4C4544-0001", "4c4c4544-0001", true),
        ("4C4C4544-0001", "4C4C4544-0002", false),
        // Neither an older agent nor every platform reports one.
        ("", "4C4C4544-0002", true),
        ("4C4C4544-0001", "", true),
    ] {
        let mut cluster = Cluster::new(1, never_drain());
        cluster.model.edit(NODE, "win-1", |node| node["status"]["nodeInfo"]["systemUUID"] = json!(kubelet));
        cluster.reconcile("web");
        cluster.reconcile("web");
        cluster.act();
        cluster.model.edit(NODE_CONFIG, "win-1", |config| config["status"]["systemUUID"] = json!(agent));
        cluster.reconcile("web");
        let confirmed = cluster.node_config("win-1")["spec"]["confirmed"].is_string();
        assert_eq!(confirmed, expected, "agent {agent}, kubelet {kubelet}");
    }
}

#[test]
fn a_renewed_lease_is_a_heartbeat() {
    let mut cluster = Cluster::assigned(1, never_drain());
    assert_eq!(awaiting_confirmation(&cluster.model.snapshot(), "web"), Vec::<String>::new());
    cluster.act();
    assert_eq!(awaiting_confirmation(&cluster.model.snapshot(), "web"), ["win-1"]);
    assert_eq!(awaiting_confirmation(&cluster.model.snapshot(), "other"), Vec::<String>::new());
    cluster.model.edit(NODE, "win-1", |node| node["status"]["conditions"][0]["lastHeartbeatTime"] = Value::Null);
    let operations = |renewal: SignedDuration| {
        let renewals = [("win-1".to_owned(), cluster.model.now + renewal)].into();
        let snapshot = Snapshot { lease_renewals: renewals, ..cluster.model.snapshot() };
        plan(&snapshot, "web").unwrap().steps.into_writes().filter_map(|operation| operation.summary()).count()
    };
    assert_eq!(operations(SignedDuration::ZERO), 0);
    assert_eq!(operations(SignedDuration::from_millis(1)), 1, "it is confirmed");
}

#[test]
fn the_disruption_depends_on_the_files_that_differ() {
    let disruption = |spec: Value, rollout: Value| {
        let mut cluster = Cluster::new(1, never_drain());
        cluster.model.allowances.hosts = vec!["*".parse().unwrap(), "http://*".parse().unwrap()];
        cluster.converge();
        cluster.model.edit(POOL, "web", |pool| pool["spec"]["delivery"]["rollout"] = rollout);
        cluster.set_profile(spec);
        cluster.converge();
        cluster.node_config("win-1")["spec"]["disruption"].as_str().unwrap().to_owned()
    };
    let mirror = |endpoint: &str| json!({"containerd": {"registryMirrors": [{"registry": "docker.io", "endpoints": [endpoint]}]}});
    let max_pods = |pods: u32| json!({"kubelet": {"maxPods": pods}});
    assert_eq!(disruption(json!({"proxy": {"httpProxy": "http://proxy:3128"}}), never_drain()), "ContainerdRestart");
    assert_eq!(disruption(max_pods(60), json!({})), "Drain", "fewer pods than before");
    assert_eq!(disruption(max_pods(60), never_drain()), "KubeletRestart");
    assert_eq!(disruption(max_pods(120), json!({"drain": "Always"})), "Drain");
    // The first mirror changes containerd.toml, the next one only hosts.toml.
    let mut cluster = Cluster::new(1, json!({"drain": "Always"}));
    cluster.model.allowances.hosts = vec!["*".parse().unwrap()];
    cluster.set_profile(mirror("https://a.example"));
    cluster.converge();
    cluster.set_profile(mirror("https://b.example"));
    cluster.converge();
    assert_eq!(cluster.node_config("win-1")["spec"]["disruption"], "None");
}

#[test]
fn a_node_config_goes_with_its_node() {
    let mut cluster = Cluster::converged(2, never_drain());
    cluster.model.delete(NODE, "win-1");
    cluster.converge();
    assert_eq!(cluster.take_log(), ["WindowsNodeConfig win-1: delete"]);

    // A node of the same name has another uid.
    cluster.model.delete(NODE, "win-2");
    cluster.model.put(NODE, "win-2", web_node());
    cluster.converge();
    assert_eq!(
        cluster.take_log(),
        [
            "WindowsNodeConfig win-2: delete",
            "WindowsNodeConfig win-2: assign CONFIG (ContainerdRestart)",
            "WindowsNodeConfig win-2: confirm CONFIG"
        ]
    );
    let uid = &cluster.model.get(NODE, "win-2").unwrap()["metadata"]["uid"];
    assert_eq!(cluster.node_config("win-2")["spec"]["nodeUID"], *uid);
}

#[test]
fn a_node_that_moves_to_another_pool_with_the_same_configuration_changes_only_its_pool() {
    let mut cluster = Cluster::converged(1, never_drain());
    cluster.model.put(POOL, "batch", pool(spec("batch", json!({"method": "Agent", "rollout": {"drain": "Never"}}))));
    cluster.model.edit(NODE, "win-1", |node| node["metadata"]["labels"]["agentpool"] = json!("batch"));
    for _ in 0..4 {
        cluster.reconcile("web");
        cluster.reconcile("batch");
        cluster.act();
    }
    let digest = cluster.node_config("win-1")["spec"]["digest"].as_str().unwrap().to_owned();
    assert_eq!(cluster.take_log(), ["WindowsNodeConfig win-1: take over CONFIG from pool web"]);
    let spec = &cluster.node_config("win-1")["spec"];
    assert_eq!((&spec["pool"], &spec["confirmed"]), (&json!("batch"), &json!(digest)));
    assert_eq!(config_in_effect(&cluster.reconcile("batch")).1, "InEffect");
}

#[test]
fn a_node_that_leaves_for_a_pool_without_agents_loses_its_node_config() {
    let mut cluster = Cluster::converged(1, never_drain());
    cluster.model.put(POOL, "batch", pool(spec("batch", json!({"method": "None"}))));
    cluster.model.edit(NODE, "win-1", |node| node["metadata"]["labels"]["agentpool"] = json!("batch"));
    cluster.reconcile("batch");
    cluster.reconcile("web");
    assert_eq!(cluster.model.names(NODE_CONFIG), Vec::<String>::new());
}

#[test]
fn configurations_that_agents_run_or_would_restore_are_kept() {
    let mut cluster = Cluster::converged(2, never_drain());
    let first = cluster.node_config("win-1")["spec"]["config"].as_str().unwrap().to_owned();
    // The agent of a node keeps the first one, and the others change more often than configurations are kept.
    cluster.model.edit(NODE, "win-2", |node| node["spec"]["unschedulable"] = json!(true));
    cluster.model.edit(POOL, "web", |pool| pool["spec"]["delivery"]["rollout"]["maxUnavailable"] = json!(2));
    for pods in 101..=106 {
        cluster.set_profile(json!({"kubelet": {"maxPods": pods}}));
        cluster.converge();
    }
    assert_eq!(cluster.node_config("win-2")["status"]["applied"]["config"], first);
    assert!(cluster.model.names(CONFIG).contains(&first), "{:?}", cluster.model.names(CONFIG));
    assert_eq!(cluster.model.names(CONFIG).len(), 5, "the one in use, three unused ones, and that of win-2");
}

#[test]
fn a_cleanup_deletes_the_node_configs_and_removes_the_cordon() {
    let mut cluster = Cluster::new(1, json!({"drain": "Always"}));
    cluster.model.put(POD, "bare", pod("win-1", &json!([])));
    cluster.converge();
    assert_eq!(cluster.model.get(NODE, "win-1").unwrap()["spec"]["unschedulable"], true);
    let mut cleaned = cluster.model.clone();
    for _ in 0..3 {
        for plan in clean_up(&cleaned.snapshot(), &["web".to_owned()].into()) {
            for operation in plan.steps.iter().flatten() {
                cleaned.run_after(operation, &winpool_rules::operation::Unwritten::default());
            }
        }
    }
    let node = cleaned.get(NODE, "win-1").unwrap();
    assert!(
        node["spec"].get("unschedulable").is_none() && node["metadata"]["labels"].get("winpool.dev/pool").is_none()
    );
    assert_eq!(cleaned.names(NODE_CONFIG), Vec::<String>::new());
}

#[test]
fn without_the_kind_of_node_configs_nothing_is_delivered_and_the_status_says_why() {
    let mut cluster = Cluster::new(1, never_drain());
    cluster.reconcile("web");
    let snapshot = Snapshot { node_configs: None, ..cluster.model.snapshot() };
    let plan = plan(&snapshot, "web").unwrap();
    assert!(plan.steps.is_empty());
    let status = report(&snapshot, &plan, &Done { complete: true, ..Done::default() }).status;
    let message = "WindowsNodeConfigs cannot be read, so no configuration is delivered. Apply crds and config/default";
    assert_eq!(config_in_effect(&status), ("Unknown".into(), "NotDelivered".into(), message.into()));
}

#[test]
fn a_node_config_that_cannot_be_written_is_reported() {
    let mut cluster = Cluster::new(1, never_drain());
    cluster.reconcile("web");
    cluster.model.refuses = Some(|write| write.action == Action::ApplyNodeConfig);
    let (_, reason, message) = config_in_effect(&cluster.reconcile("web"));
    assert_eq!(reason, "WriteFailed");
    let expected =
        "WindowsNodeConfig win-1 cannot be written: rejected by the model. Apply crds and config/agent, or remove";
    assert!(message.starts_with(expected) && message.ends_with(LIST), "{message}");
}

#[test]
fn a_pool_that_observes_assigns_nothing() {
    let mut cluster = Cluster::new(1, never_drain());
    cluster.model.set_spec("web", "mode", json!("Observe"));
    let status = cluster.converge();
    assert_eq!(cluster.model.names(NODE_CONFIG), Vec::<String>::new());
    assert_eq!(config_in_effect(&status).1, "Differs", "as without agents");
}

#[test]
fn a_replaced_config_map_is_not_assigned_before_it_is_restored() {
    let mut cluster = Cluster::converged(2, never_drain());
    let name = cluster.model.names(CONFIG).remove(0);
    let digest = cluster.node_config("win-1")["spec"]["digest"].clone();
    cluster.model.edit(CONFIG, &name, |map| map["data"]["kubelet.yaml"] = json!("maxPods: 1"));
    let assigned = plan(&cluster.model.snapshot(), "web").unwrap().steps.into_writes();
    let assigned = assigned.filter(|write| write.action == Action::ApplyNodeConfig);
    assert_eq!(assigned.count(), 0, "the foreign digest is not assigned");
    cluster.converge();
    for name in ["win-1", "win-2"] {
        assert_eq!(cluster.node_config(name)["spec"]["digest"], digest, "{name}");
    }
    assert_eq!(cluster.take_log(), [""; 0], "the nodes run the restored configuration");
}

#[test]
fn a_confirmation_is_written_before_the_assignment_that_it_makes_room_for() {
    let mut cluster = Cluster::new(3, never_drain());
    // The first node has finished before another one begins.
    for _ in 0..3 {
        cluster.reconcile("web");
        cluster.reconcile("web");
        cluster.act();
    }
    let steps = plan(&cluster.model.snapshot(), "web").unwrap().steps;
    let written = |step: &[Write]| {
        let node = |write: &Write| {
            let body = write.body();
            let what = if body["spec"]["confirmed"].is_string() { "confirm" } else { "assign" };
            (write.action == Action::ApplyNodeConfig).then(|| format!("{what} {}", write.object.name))
        };
        step.iter().filter_map(node).collect::<Vec<_>>()
    };
    let steps: Vec<_> = steps.iter().map(written).filter(|step| !step.is_empty()).collect();
    assert_eq!(steps, [vec!["confirm win-2"], vec!["assign win-3"]]);
}

#[test]
fn no_change_of_a_node_begins_while_a_confirmation_could_not_be_written() {
    let spec = |confirmed: Option<&str>| WindowsNodeConfigSpec {
        pool: "web".into(),
        node_uid: "uid".into(),
        config: "web-1".into(),
        digest: "1".into(),
        disruption: Disruption::KubeletRestart,
        attempt: 1,
        confirmed: confirmed.map(str::to_owned),
        confirm_timeout: "5m".into(),
        assigned_at: Time(Timestamp::UNIX_EPOCH),
        diagnose: None,
    };
    let (assign, confirm) = (spec(None), spec(Some("1")));
    let failed = |kind, name| Write::delete(Action::DeleteNodeConfig, WriteTarget::new(kind, name));
    let mut unwritten = Unwritten::default();
    let permitted = |unwritten: &Unwritten| {
        [("win-2", &assign), ("win-2", &confirm), ("win-1", &confirm)]
            .map(|(node, spec)| Write::apply_node_config(node, None, spec, String::new()))
            .map(|write| !write.is_blocked(unwritten) && write.waits_for(unwritten).is_none())
    };
    assert_eq!(permitted(&unwritten), [true, true, true]);
    unwritten.add(&failed(Kind::NODE, "win-3"));
    assert_eq!(permitted(&unwritten), [true, true, true]);
    unwritten.add(&failed(Kind::NODE_CONFIG, "win-1"));
    assert_eq!(permitted(&unwritten), [false, true, false]);
}
