//! `winpool plan` and `winpool cleanup` against a real API server: what they print, with which status they end, what they
//! write, and that it is what the operator does.

// clippy.toml allows these in tests, but takes a helper of a test for something else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cleanup;
mod handing_over;
mod plan;
mod upgrade;

use std::process::{Command, Output};

use e2e::{
    audit::Request,
    control_plane::{ControlPlane, User},
    kubelet::SimulatedNode,
    operator::{binary, winpool},
    world::World,
};
use serde_json::{Value, json};

const SERVER_2019: &str = "10.0.17763.5329";

/// A node that a pool of this name selects.
fn node(name: &str, pool: &str) -> SimulatedNode {
    SimulatedNode::windows(name, SERVER_2019).label("agentpool", pool)
}

/// The specification of a pool for Windows Server 2019 that selects the nodes labelled with its name, with further fields
/// or others.
fn spec(name: &str, more: Value) -> Value {
    let mut spec = json!({
        "windowsVersion": "ltsc2019",
        "nodeSelector": { "matchLabels": { "agentpool": name } },
    });
    let (Some(fields), Value::Object(more)) = (spec.as_object_mut(), more) else { panic!("a spec is an object") };
    fields.extend(more);
    spec
}

async fn pool(world: &World, name: &str, more: Value) {
    world.apply("WindowsNodePool", name, &spec(name, more)).await.unwrap();
}

/// How a command ended.
struct Ended {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }

    fn lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { status: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Runs a command as somebody who may do everything and whose requests are recorded.
fn run(world: &World, arguments: &[&str]) -> Ended {
    winpool(&world.control_plane, User::RivalA, arguments).unwrap().into()
}

/// Runs a command against an API server that is not there.
fn run_without_server(control_plane: &ControlPlane, arguments: &[&str]) -> Ended {
    let gone = control_plane.directory().join("gone.kubeconfig");
    let config = std::fs::read_to_string(control_plane.kubeconfig(User::RivalA)).unwrap();
    std::fs::write(&gone, config.replace(&control_plane.url(), "https://127.0.0.1:1")).unwrap();
    Command::new(binary().unwrap()).args(arguments).env("KUBECONFIG", gone).output().unwrap().into()
}

/// What the commands have written so far.
fn writes(world: &World) -> Vec<Request> {
    let requests = world.control_plane.requests_of(User::RivalA).unwrap();
    assert!(requests.iter().any(|request| request.resource == "nodes"), "they are recorded");
    requests.into_iter().filter(Request::is_write).collect()
}
