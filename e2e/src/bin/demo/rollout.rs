//! A rollout to nodes with agents: a profile is changed, one node fails and is rolled back, and the pool halts and says why.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use e2e::{
    agent::{Agent, Machine},
    control_plane::{ControlPlane, User},
    install::install_agent_permissions,
    kubectl::kubectl,
    kubelet::{Kubelets, SimulatedNode},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use winpool_api::{WindowsNodePool, WindowsRuntimeProfile};

use crate::{
    pools,
    progress::{Progress, blocking, bold, step, step_with_progress},
    report,
};

/// The pool and its profile.
const NAME: &str = "edge-2022";
const NODES: [&str; 4] = ["edge-1", "edge-2", "edge-3", "edge-4"];
/// The node whose kubelet does not start with [`HARMFUL`] pods.
const FRAGILE: &str = "edge-2";
const FIRST: u32 = 60;
const HARMFUL: u32 = 250;
const CORRECTED: u32 = 80;
/// How long a rollout may take.
const TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(300);

/// The nodes and their agents, which end when this is dropped.
pub struct Rollout {
    control_plane: Arc<ControlPlane>,
    client: Client,
    machines: Vec<Machine>,
    _agents: Vec<Agent>,
}

impl Drop for Rollout {
    fn drop(&mut self) {
        self.machines.iter().for_each(Machine::turn_off);
    }
}

impl Rollout {
    /// Shows the rollout, and prints its result.
    ///
    /// # Errors
    /// When it does not end as expected.
    pub async fn show(control_plane: &Arc<ControlPlane>, client: &Client) -> Result<Self> {
        let rollout = Self::start(control_plane, client).await?;
        rollout.deliver(FIRST, "applying a pool with delivery.method: Agent", "True", "InEffect").await?;
        let changing = format!("changing the profile to a value that the kubelet of {FRAGILE} does not survive");
        let message = rollout.deliver(HARMFUL, &changing, "False", "RolloutHalted").await?;
        rollout.print().await?;
        report::paragraph(&format!("ConfigInEffect=False RolloutHalted: {message}"));
        rollout.deliver(CORRECTED, "correcting the profile", "True", "InEffect").await?;
        rollout.print().await?;
        Ok(rollout)
    }

    async fn start(control_plane: &Arc<ControlPlane>, client: &Client) -> Result<Self> {
        let shared = control_plane.clone();
        println!("\n{}", bold("A rollout of a configuration by agents"));
        let (machines, agents) = step("registering nodes with agents", async {
            blocking(move || install_agent_permissions(&shared)).await?;
            let node = |name: &str| {
                SimulatedNode::windows(name, "10.0.20348.2700").label("agentpool", NAME).runtime("containerd://2.1.4")
            };
            let kubelets = Kubelets::start(client.clone(), NODES.map(node).into()).await?;
            let (kubelets, agent_client) = (Arc::new(kubelets), control_plane.client(User::Agent).await?);
            let machine = |name| {
                let machine = Machine::new(name, kubelets.clone(), control_plane)?;
                Ok(if name == FRAGILE { machine.fails_with(&format!("maxPods: {HARMFUL}")) } else { machine })
            };
            let machines: Vec<Machine> = NODES.into_iter().map(machine).collect::<Result<_>>()?;
            let agents = machines.iter().map(|machine| machine.agent(agent_client.clone())).collect();
            Ok(((machines, agents), format!("{} nodes run the agent, with the RBAC of config/agent", NODES.len())))
        })
        .await?;
        Ok(Self { control_plane: control_plane.clone(), client: client.clone(), machines, _agents: agents })
    }

    /// Sets the number of pods in the profile, and waits for a state of `ConfigInEffect` that it did not have before. Returns
    /// its message.
    async fn deliver(&self, max_pods: u32, what: &str, status: &str, reason: &str) -> Result<String> {
        self.apply(ApiResource::erase::<WindowsRuntimeProfile>(&()), json!({"kubelet": {"maxPods": max_pods}})).await?;
        let pool = json!({
            "windowsVersion": "ltsc2022",
            "nodeSelector": {"matchLabels": {"agentpool": NAME}},
            "profileRef": {"name": NAME},
            "delivery": {"method": "Agent", "rollout": {"maxUnavailable": 1, "maxFailures": 1}},
        });
        self.apply(ApiResource::erase::<WindowsNodePool>(&()), pool).await?;
        let progress = Progress::default();
        step_with_progress(what, &progress, async {
            let deadline = Instant::now() + TIMEOUT;
            loop {
                let (configured, condition) = self.state().await?;
                if let Some((_, _, message)) =
                    condition.filter(|(is, why, _)| (is.as_str(), why.as_str()) == (status, reason))
                {
                    let result =
                        format!("ConfigInEffect={status} {reason}, {configured} of {} nodes configured", NODES.len());
                    return Ok((message, result));
                }
                ensure!(
                    Instant::now() < deadline,
                    "ConfigInEffect is not {status} {reason} after {} s",
                    TIMEOUT.as_secs()
                );
                progress.set(format!("{configured} of {} nodes configured", NODES.len()));
                sleep(POLL).await;
            }
        })
        .await
    }

    /// The number of configured nodes, and status, reason and message of `ConfigInEffect`.
    async fn state(&self) -> Result<(u32, Option<(String, String, String)>)> {
        let pools = pools::read(&self.client).await?;
        let pool = pools.into_iter().find(|pool| pool.name_any() == NAME).context("the pool was deleted")?;
        let status = pool.status.unwrap_or_default();
        let condition = status.conditions.into_iter().find(|condition| condition.type_ == "ConfigInEffect");
        let condition = condition.map(|condition| (condition.status, condition.reason, condition.message));
        Ok((status.nodes.configured, condition))
    }

    async fn apply(&self, resource: ApiResource, spec: Value) -> Result<()> {
        let body = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": NAME},
            "spec": spec,
        });
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        api.patch(NAME, &PatchParams::apply("demo").force(), &Patch::Apply(body)).await?;
        Ok(())
    }

    async fn print(&self) -> Result<()> {
        let shared = self.control_plane.clone();
        let arguments = ["get", "wnc"];
        let text = blocking(move || kubectl(&shared, User::Admin, &arguments)).await?;
        println!("\n{}\n{}\n", bold("$ kubectl get wnc"), text.trim_end());
        Ok(())
    }
}
