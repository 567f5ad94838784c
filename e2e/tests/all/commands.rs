//! `winpool plan` and `winpool cleanup` against a real API server: their output, exit status and writes, compared to
//! those of the operator.

mod adopt;
mod cleanup;
mod options;
mod plan;
mod status;

use std::process::Output;

use e2e::{
    audit::Request,
    cluster::{Cluster, NODE_LABEL, pool_spec},
    control_plane::User,
    kubelet::SimulatedNode,
    operator::winpool,
};
use serde_json::Value;

/// Windows Server 2022, which every supported Kubernetes supports.
const SERVER_2022: &str = "10.0.20348.2700";

/// A node that a pool of this name selects.
fn node(name: &str, pool: &str) -> SimulatedNode {
    SimulatedNode::windows(name, SERVER_2022).label(NODE_LABEL, pool)
}

async fn pool(cluster: &Cluster, name: &str, more: Value) {
    cluster.apply_pool(name, pool_spec(name, more)).await.unwrap();
}

/// The output of a command.
struct CommandOutput {
    status: i32,
    stdout: String,
    stderr: String,
}

impl CommandOutput {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }

    fn lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { status: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Runs a command as an administrator whose requests are audited.
fn run(cluster: &Cluster, arguments: &[&str]) -> CommandOutput {
    winpool(&cluster.control_plane, User::OtherA, arguments).unwrap().into()
}

/// The writes of the commands so far.
fn writes(cluster: &Cluster) -> Vec<Request> {
    let requests = cluster.control_plane.requests_of(User::OtherA).unwrap();
    assert!(requests.iter().any(|request| request.resource == "nodes"), "requests are audited");
    requests.into_iter().filter(Request::is_write).collect()
}
