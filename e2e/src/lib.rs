//! A real control plane for tests and demonstrations, with simulated Windows nodes.
//!
//! Nothing here is a fake of Kubernetes: `etcd`, `kube-apiserver`, `kube-scheduler` and `kube-controller-manager` are the
//! programs themselves, started on loopback. Only the nodes are simulated: [`kubelet::Kubelets`] registers them, keeps
//! their status and reports the Pods that the scheduler gave them as running.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use e2e::{control_plane::{ControlPlane, Options, User}, kubelet::{Kubelets, SimulatedNode}};
//!
//! let control_plane = ControlPlane::start(Options::default()).await?;
//! let client = control_plane.client(User::Admin).await?;
//! let nodes = vec![SimulatedNode::windows("w1", "10.0.20348.2700"), SimulatedNode::linux("l1")];
//! let kubelets = Kubelets::start(client, nodes).await?;
//! e2e::install::install(&control_plane)?;
//! # Ok(()) }
//! ```
//!
//! A [`ControlPlane`](control_plane::ControlPlane) owns no task of an async runtime, so one in a `static` can serve many
//! `#[tokio::test]`s. Clients and [`Kubelets`](kubelet::Kubelets) do: make those in the test that uses them.
//! Whatever is started ends with its owner, and also when the program that owns it is killed.

pub mod allocatable;
pub mod assets;
pub mod audit;
pub mod certificates;
pub mod control_plane;
pub mod images;
pub mod install;
pub mod kubectl;
pub mod kubelet;
pub mod network;
pub mod node;
pub mod operator;
pub mod process;
pub mod registry;
pub mod wait;
pub mod world;

mod directory;
mod keys;
mod progress;
mod users;
