//! `make run`: the operator with its shipped RBAC on a real control plane, with simulated Windows nodes.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a program for developers

mod fleet;
mod progress;
mod report;
mod windows;

use std::{cell::RefCell, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use e2e::{
    assets::Assets,
    cluster::{Cluster, create},
    control_plane::{ControlPlane, Options, User},
    install::{apply, install, path},
    kubelet::Kubelets,
    operator::{Operator, binary},
    wait::until,
    windows_node::WindowsNode,
};
use futures::future::{Either, select};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod},
};
use kube::{ResourceExt, api::ListParams};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};
use winpool_api::{Mode, WindowsNodePool, conditions::READY};

use crate::{
    fleet::{WORKLOADS, Workload},
    progress::{blocking, step},
};

const SAMPLES: &str = "config/samples";
const NAMESPACE: &str = "default";
const CONVERGED_WITHIN: Duration = Duration::from_secs(180);
const CONVERGED_FOR: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(300);
/// The time that a program that blocks a thread has to end after Ctrl-C.
const LAST_WAIT: Duration = Duration::from_secs(20);

/// Shows the operator at work on a real control plane with simulated Windows nodes.
#[derive(Parser)]
#[command(name = "demo")]
struct Arguments {
    /// End when everything has converged, with an exit status other than 0 if it does not
    #[arg(long)]
    once: bool,
    /// Add a node with upstream's kubelet.exe and containerd.exe, under Wine
    #[arg(long)]
    windows_node: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let ended = runtime.block_on(until_interrupted(demonstrate(arguments)));
    runtime.shutdown_timeout(LAST_WAIT);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("\ndemo: {error:#}");
    ExitCode::FAILURE
}

/// Runs `work` to its end. At Ctrl-C it drops `work`, which ends everything that it started.
async fn until_interrupted(work: impl Future<Output = Result<()>>) -> Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let stop = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    match select(Box::pin(stop), Box::pin(work)).await {
        Either::Left(_) => {
            println!("\nending what was started…");
            Ok(())
        }
        Either::Right((ended, _)) => ended,
    }
}

async fn demonstrate(arguments: Arguments) -> Result<()> {
    let cluster = start_control_plane().await?;
    let _kubelets = step("registering nodes", async |_| {
        let nodes = fleet::nodes(cluster.control_plane.version().minor);
        let windows = nodes.iter().filter(|node| node.windows.is_some()).count();
        let result =
            format!("{} nodes registered, {windows} of them with Windows: only the nodes are simulated", nodes.len());
        Ok((Kubelets::start(cluster.client.clone(), nodes).await?, result))
    })
    .await?;
    let shared = cluster.control_plane.clone();
    step("installing winpool", async |_| {
        blocking(move || apply(&shared, &["-k", &path("config/storage")]).and_then(|()| install(&shared))).await?;
        Ok(((), "crds/, config/default and config/storage applied".to_owned()))
    })
    .await?;
    let operator = step("starting the operator", async |_| {
        blocking(binary).await?;
        // No registry is contacted: what the images are for follows from their names.
        let operator = cluster.start_operator(&["--registry=off", "--storage"], &[]).await?;
        Ok((operator, format!("winpool run started as {}", User::Operator.name())))
    })
    .await?;
    step("applying the samples", async |waits_for| {
        let shared = cluster.control_plane.clone();
        blocking(move || apply(&shared, &["-f", &path(SAMPLES)])).await?;
        converge(&cluster, &operator, &[], waits_for).await?;
        Ok(((), format!("{SAMPLES} applied: the nodes of both pools in mode Enforce are tainted and configured")))
    })
    .await?;
    step("creating Deployments", async |waits_for| {
        let deployments = cluster.namespaced::<Deployment>(NAMESPACE);
        for workload in &WORKLOADS {
            create(&deployments, workload.object()).await.with_context(|| workload.name)?;
        }
        converge(&cluster, &operator, &WORKLOADS, waits_for).await?;
        Ok(((), format!("{} Deployments created: all Pods run", WORKLOADS.len())))
    })
    .await?;
    let _windows_node =
        if arguments.windows_node { Some(start_windows_node(&cluster, &operator).await?) } else { None };
    cluster.nothing_was_forbidden()?;
    let (writes, memory) = (cluster.writes()?.len(), operator.resident_bytes()? / (1024 * 1024));
    println!("          the operator made {writes} writes, all allowed by the shipped RBAC, and occupies {memory} MiB");
    report::report(&cluster)?;
    if arguments.windows_node {
        report::windows_node(&cluster)?;
    }
    if arguments.once {
        return Ok(());
    }
    report::next_steps(&cluster, arguments.windows_node)?;
    loop {
        check(&operator)?;
        sleep(POLL).await;
    }
}

async fn start_control_plane() -> Result<Cluster> {
    step("looking for Kubernetes", async |_| {
        let assets = blocking(Assets::locate).await?;
        let folder = assets.kube_apiserver.parent().unwrap_or(&assets.kube_apiserver).display();
        Ok(((), format!("Kubernetes {} found in {folder}", assets.version.text)))
    })
    .await?;
    step("starting the control plane", async |_| {
        let control_plane = Arc::new(ControlPlane::start(Options::default()).await?);
        let programs = "etcd, kube-apiserver, kube-scheduler and kube-controller-manager";
        let result = format!("{programs} listen on loopback, {}", control_plane.url());
        Ok((Cluster::connect(control_plane).await?, result))
    })
    .await
}

/// Starts the node after the Deployments, whose Pods would not run on it.
async fn start_windows_node(cluster: &Cluster, operator: &Operator) -> Result<WindowsNode> {
    let node = step("starting Windows' services under Wine", async |_| {
        let node = windows::start(cluster).await?;
        Ok((node, "containerd.exe and kubelet.exe run as services of Windows, under Wine".to_owned()))
    })
    .await?;
    step("joining the node under Wine", async |waits_for| {
        let registered = async || Ok(cluster.nodes().get_opt(windows::NAME).await?);
        let joined = async {
            until("its kubelet registers it", CONVERGED_WITHIN, registered, Option::is_some).await?;
            converge(cluster, operator, &WORKLOADS, waits_for).await
        };
        joined.await.with_context(|| node.logs())?;
        Ok(((), format!("{} is Ready, tainted and configured", windows::NAME)))
    })
    .await?;
    Ok(node)
}

/// Waits until nothing is missing, and checks that this remains true.
async fn converge(
    cluster: &Cluster,
    operator: &Operator,
    workloads: &[Workload],
    waits_for: &RefCell<String>,
) -> Result<()> {
    let (deadline, mut since) = (Instant::now() + CONVERGED_WITHIN, None);
    loop {
        check(operator)?;
        let missing = missing(cluster, workloads).await?.join("; ");
        if !missing.is_empty() {
            since = None;
            ensure!(Instant::now() < deadline, "not converged after {} s: {missing}", CONVERGED_WITHIN.as_secs());
        } else if since.get_or_insert_with(Instant::now).elapsed() >= CONVERGED_FOR {
            return Ok(());
        }
        waits_for.replace(missing);
        sleep(POLL).await;
    }
}

fn check(operator: &Operator) -> Result<()> {
    match operator.process().exit_status() {
        None => Ok(()),
        Some(status) => bail!("the operator ended: {status}\n{}", operator.process().log_tail()),
    }
}

/// The nodes and pools that are not as specified, and the Pods that do not run where they should.
async fn missing(cluster: &Cluster, workloads: &[Workload]) -> Result<Vec<String>> {
    let nodes = cluster.nodes().list(&ListParams::default()).await?.items;
    let pools = cluster.api::<WindowsNodePool>().list(&ListParams::default()).await?.items;
    let pods = cluster.namespaced::<Pod>(NAMESPACE).list(&ListParams::default()).await?.items;
    let of_nodes = missing_of_nodes(&nodes, &pools);
    let of_pools = pools.iter().filter_map(missing_of_pool);
    Ok(of_nodes
        .into_iter()
        .chain(of_pools)
        .chain(workloads.iter().filter_map(|workload| missing_of_workload(workload, &pods)))
        .collect())
}

fn missing_of_nodes(nodes: &[Node], pools: &[WindowsNodePool]) -> Option<String> {
    let is_ready = |node: &&Node| {
        let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    let ready = nodes.iter().filter(is_ready).count();
    if ready < nodes.len() {
        return Some(format!("{ready} of {} nodes are Ready", nodes.len()));
    }
    let is_windows = |node: &&Node| node.labels().get("kubernetes.io/os").is_some_and(|os| os == "windows");
    let windows = nodes.iter().filter(is_windows).count();
    let matched: u32 = pools.iter().flat_map(|pool| &pool.status).map(|status| status.nodes.matched).sum();
    (matched as usize != windows).then(|| format!("{matched} of {windows} nodes with Windows are in a pool"))
}

fn missing_of_pool(pool: &WindowsNodePool) -> Option<String> {
    let name = pool.name_any();
    let current = pool.status.as_ref().filter(|status| status.observed_generation == pool.metadata.generation);
    let Some(status) = current else { return Some(format!("pool {name} has no status yet")) };
    let ready = status.conditions.iter().find(|condition| condition.type_ == READY.name);
    let nodes = &status.nodes;
    if ready.is_none_or(|ready| ready.status != "True") || nodes.matched == 0 {
        return Some(format!("pool {name} is not Ready yet"));
    }
    let done = nodes.tainted.min(nodes.configured);
    (pool.spec.mode == Mode::Enforce && done < nodes.matched)
        .then(|| format!("pool {name}: {done} of {} nodes are tainted and configured", nodes.matched))
}

fn missing_of_workload(workload: &Workload, pods: &[Pod]) -> Option<String> {
    let runs = |pod: &&Pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        pod.labels().get("app").is_some_and(|app| app == workload.name)
            && phase == Some("Running")
            && node.is_some_and(|node| workload.nodes.contains(&node))
    };
    let running = pods.iter().filter(runs).count();
    (running != workload.replicas)
        .then(|| format!("{running} of {} Pods of {} run on its nodes", workload.replicas, workload.name))
}
