//! A real control plane for tests and demonstrations, with simulated Windows nodes.
//!
//! `etcd`, `kube-apiserver`, `kube-scheduler` and `kube-controller-manager` are the real programs, started on loopback.
//! Only the nodes are simulated: [`kubelet::Kubelets`] registers them, updates their status and reports the Pods that
//! are scheduled to them as running. Where pods must run, a [`LinuxNode`](linux_node::LinuxNode) runs them.
//!
//! A [`Cluster`](cluster::Cluster) is a control plane with a client; a [`Fixture`](fixture::Fixture) contains the
//! objects of one test in a control plane that many tests share. A [`ControlPlane`](control_plane::ControlPlane) owns no
//! task of an async runtime, so many `#[tokio::test]`s can share one in a `static`. Clients and
//! [`Kubelets`](kubelet::Kubelets) own tasks: create them in the test that uses them. Every started program ends when its
//! owner is dropped or killed.
//!
//! A function fails if a program cannot be started, or a server does not answer as it must; the error of a program that
//! does not become ready has the end of its log. What waits fails after its time, with the last observed state.

pub mod agent;
pub mod allocatable;
pub mod assets;
pub mod audit;
pub mod certificates;
pub mod cluster;
pub mod cluster_api;
pub mod containerd;
pub mod control_plane;
pub mod faults;
pub mod fixture;
pub mod history;
pub mod images;
pub mod install;
pub mod kubectl;
pub mod kubelet;
pub mod linux_node;
pub mod modules;
pub mod network;
pub mod node;
pub mod node_network;
pub mod objects;
pub mod operator;
pub mod permissions;
pub mod process;
pub mod prometheus;
pub mod proxy;
pub mod registry;
pub mod requests;
pub mod rollout;
pub mod shared;
pub mod wait;
pub mod windows_node;
pub mod wine;

mod directory;
mod progress;
mod users;
