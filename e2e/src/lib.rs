//! A real control plane for tests and demonstrations, with simulated Windows nodes.
//!
//! `etcd`, `kube-apiserver`, `kube-scheduler` and `kube-controller-manager` are the real programs, started on loopback.
//! Only the nodes are simulated: [`kubelet::Kubelets`] registers them, updates their status and reports the Pods that
//! are scheduled to them as running.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use e2e::{cluster::{Cluster, OS_WINDOWS}, kubelet::SimulatedNode};
//!
//! let cluster = Cluster::start().await?;
//! let node = SimulatedNode::windows("w1", "10.0.20348.2700").label("agentpool", "web");
//! let kubelets = cluster.start_kubelets(vec![node, SimulatedNode::linux("l1")]).await?;
//! let operator = cluster.start_operator(&[], &[]).await?;
//! cluster.apply_tainting_pool("web", "ltsc2022", OS_WINDOWS).await?;
//! cluster.until_tainted("web", OS_WINDOWS, 1).await?;
//! # Ok(()) }
//! ```
//!
//! A [`Cluster`](cluster::Cluster) is a control plane with a client; a [`Fixture`](fixture::Fixture) contains the
//! objects of one test in a control plane that many tests share.
//!
//! A [`ControlPlane`](control_plane::ControlPlane) owns no task of an async runtime, so many `#[tokio::test]`s can
//! share one in a `static`. Clients and [`Kubelets`](kubelet::Kubelets) own tasks: create them in the test that uses
//! them. Every started program ends when its owner is dropped or killed.

pub mod agent;
pub mod allocatable;
pub mod assets;
pub mod audit;
pub mod certificates;
pub mod cluster;
pub mod cluster_api;
pub mod containerd;
pub mod control_plane;
pub mod fixture;
pub mod history;
pub mod images;
pub mod install;
pub mod kubectl;
pub mod kubelet;
pub mod modules;
pub mod network;
pub mod node;
pub mod node_network;
pub mod objects;
pub mod operator;
pub mod permissions;
pub mod process;
pub mod prometheus;
pub mod registry;
pub mod requests;
pub mod rollout;
pub mod shared;
pub mod wait;
pub mod windows_node;
pub mod wine;

mod directory;
mod keys;
mod progress;
mod users;
