//! `winpool-agent.exe run` on a Windows node under Wine, with the real operator and API server, and with
//! upstream's kubelet and containerd. Where these must fail, services of Windows stand in for them; a file beside the configuration
//! of each determines how.

mod failures;
mod interruptions;
mod layouts;
mod rollout;
mod rounds;

use std::time::Duration;

use e2e::{
    cluster::{Cluster, SOON, pool_spec, with_fields},
    control_plane::{Options, User},
    operator::Operator,
    wait::{eventually, until},
    windows_node::{KUBELET_CONFIG, Programs, RESTORE_SERVICE, Setup, WindowsNode},
};
use serde_json::{Value, json};
use winpool_api::{NodeConfigPhase, WindowsNodeConfig, WindowsNodeConfigStatus};

use crate::agent_programs::stripped_programs;

const POOL: &str = "web";
const NODE: &str = "win-1";
/// The timeout of a rollout whose change must fail: the shortest one. The agent waits half of it for the verification.
const SHORT_ROLLOUT: &str = "1m";
/// The timeout of a rollout whose change must not fail because the machine is slow.
const LONG_ROLLOUT: &str = "30m";
/// The time limit for a change with its rollback.
const CHANGE: Duration = Duration::from_secs(600);

/// Behavior of a program, and the result: phase, one of these reasons, and a part of the message.
type Case = (&'static str, NodeConfigPhase, &'static [&'static str], &'static str);

/// A cluster with a Windows node whose agent runs, and a pool for it.
struct Fixture {
    cluster: Cluster,
    operator: Operator,
    // The agent ends before the API server.
    node: WindowsNode,
}

impl Fixture {
    /// Starts everything, with upstream's kubelet and containerd, and applies a first configuration with 40 pods.
    async fn start() -> Self {
        Self::with(Setup::new(stripped_programs(), NODE, POOL)).await
    }

    /// The same with programs that fail as their behavior says.
    async fn scripted() -> Self {
        Self::with(Setup { programs: Programs::Scripted, ..Setup::new(stripped_programs(), NODE, POOL) }).await
    }

    async fn with(setup: Setup<'_>) -> Self {
        let options = Options { agents: true, ..Options::api_server_only() };
        let cluster = Cluster::start_with(options).await.unwrap();
        let mut node = WindowsNode::start(&cluster.control_plane, &setup).unwrap();
        node.start_agent(&[]).unwrap();
        let operator = cluster.start_operator(&[], &[]).await.unwrap();
        let fixture = Self { cluster, operator, node };
        fixture.apply_profile(json!({ "kubelet": { "maxPods": 40 } })).await;
        let delivery = json!({ "method": "Agent", "rollout": { "timeout": LONG_ROLLOUT } });
        let pool = pool_spec(POOL, json!({ "profileRef": { "name": "standard" }, "delivery": delivery }));
        fixture.cluster.apply_pool(POOL, pool).await.unwrap();
        fixture.until_in_effect().await;
        fixture
    }

    /// A profile that keeps the pause image of the node: nothing can be pulled.
    async fn apply_profile(&self, spec: Value) {
        let spec = with_fields(spec, json!({ "pauseImage": { "source": "Node" } }));
        self.cluster.apply_profile("standard", spec).await.unwrap();
    }

    /// Waits until the pool reports that its configuration is in effect, and checks that the agent is done.
    async fn until_in_effect(&self) {
        let condition = self.cluster.until_condition(POOL, "ConfigInEffect", "True", "InEffect").await;
        condition.unwrap();
        self.until_nothing_is_left().await;
    }

    /// The journal has no change, and the restore service is removed. The kubelet answers.
    async fn until_nothing_is_left(&self) {
        let ended = || async { Ok(self.node.journal()?.change.is_none()) };
        until("the journal has no change", SOON, ended, |ended| *ended).await.unwrap();
        assert_eq!(self.node.service_state(RESTORE_SERVICE).unwrap(), "Absent");
        eventually("the kubelet answers", SOON, || self.node.health()).await.unwrap();
        assert_eq!(self.node.health().await.unwrap(), 200);
    }

    async fn status(&self) -> WindowsNodeConfigStatus {
        let config = self.cluster.api::<WindowsNodeConfig>().get(NODE).await.unwrap();
        config.status.unwrap_or_default()
    }

    /// Waits until the change of a digest that is not `former` has ended, and returns the status.
    async fn until_ended(&self, former: &str) -> WindowsNodeConfigStatus {
        let ended = |status: &WindowsNodeConfigStatus| {
            let phases = [NodeConfigPhase::Applied, NodeConfigPhase::RolledBack, NodeConfigPhase::Refused];
            status.observed_digest != former && phases.contains(&status.phase)
        };
        let status = || async { Ok(self.status().await) };
        let result = until("the change has ended", CHANGE, status, ended).await;
        result.unwrap()
    }

    /// Applies a profile, and checks the result. Afterwards the configuration has this number of pods.
    async fn expect(&self, profile: Value, case: Case, pods: &str) {
        let former = self.status().await.observed_digest;
        let timeout = if case.1 == NodeConfigPhase::Applied { LONG_ROLLOUT } else { SHORT_ROLLOUT };
        let patch = json!({ "spec": { "delivery": { "rollout": { "timeout": timeout } } } });
        self.cluster.edit_pool(POOL, patch).await.unwrap();
        self.apply_profile(profile).await;
        self.expect_end(&former, case, pods).await;
    }

    /// Waits until the change of a digest that is not `former` has ended, and checks the result.
    async fn expect_end(&self, former: &str, (behavior, phase, reasons, message): Case, pods: &str) {
        let status = self.until_ended(former).await;
        let reason = status.reason.as_str();
        assert_eq!((status.phase, reasons.contains(&reason)), (phase, true), "{behavior}: {status:?}");
        assert!(status.message.contains(message), "{behavior}: {}", status.message);
        let listed = self.cluster.kubectl(&["get", "wnc", NODE]).unwrap();
        assert!(listed.contains(phase.name()) && listed.contains(reason), "{listed}");
        self.until_nothing_is_left().await;
        assert_eq!(self.max_pods().as_deref(), Some(pods), "{behavior}");
    }

    fn max_pods(&self) -> Option<String> {
        let text = self.node.read(KUBELET_CONFIG).unwrap();
        text.lines().find_map(|line| line.strip_prefix("maxPods: ").map(str::to_owned))
    }

    /// Checks the rights of operator and agent, and stops the operator.
    async fn stop(self) {
        self.cluster.nothing_was_forbidden().unwrap();
        let requests = self.cluster.control_plane.requests_of(User::Agent).unwrap();
        let forbidden: Vec<_> = requests.iter().filter(|request| request.is_forbidden()).collect();
        assert!(forbidden.is_empty(), "config/agent does not allow {forbidden:#?}");
        self.operator.stop().await.unwrap();
    }
}
