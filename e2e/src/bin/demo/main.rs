//! `make run`: runs the operator with its shipped RBAC on a real control plane with simulated Windows nodes.

mod adopted;
mod cluster_api;
mod fleet;
mod pools;
mod progress;
mod report;
mod rollout;
mod workloads;

use std::{collections::BTreeSet, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use e2e::{
    assets::Assets,
    control_plane::{ControlPlane, Options, User},
    install::{apply, install, path},
    kubelet::{Kubelets, Refusal},
    operator::{Operator, binary},
};
use futures::future::{Either, select};
use kube::Client;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use crate::{
    fleet::{Fleet, Mistakes, fleet},
    progress::{Progress, blocking, step, step_with_own_progress, step_with_progress},
    rollout::Rollout,
};

/// The pools that are applied.
const SAMPLES: &str = "config/samples";
/// How long the cluster may take to converge.
const CONVERGED_WITHIN: Duration = Duration::from_secs(120);
/// How long it must remain converged.
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
    let control_plane = start_control_plane().await?;
    let client = control_plane.client(User::Admin).await?;
    let Fleet { nodes, workloads, mistakes } = fleet(control_plane.version().minor);
    let delivered = nodes.iter().map(|node| u32::from(node.takes_configuration)).sum();

    let kubelets = step("registering nodes", async {
        let result = format!("{} nodes registered by simulated kubelets, 8 of them with Windows", nodes.len());
        let kubelets = Kubelets::start(client.clone(), nodes).await?;
        kubelets.refuse(Mistakes::IMAGE, Refusal::Image(Mistakes::REFUSAL.to_owned()));
        Ok((kubelets, result))
    })
    .await?;
    let shared = control_plane.clone();
    step("installing winpool", async {
        blocking(move || install(&shared)).await?;
        Ok(((), "crds/ and config/default applied".to_owned()))
    })
    .await?;
    let operator = step("starting the operator", async {
        blocking(binary).await?;
        // No registry is contacted: the platforms of images follow from their names and from the simulated container
        // runtimes.
        let operator = Operator::start(&control_plane, &["--registry=off"], &[]).await?;
        Ok((operator, format!("winpool run, as {} with the shipped RBAC only", User::Operator.name())))
    })
    .await?;
    let shared = control_plane.clone();
    step("applying the samples", async {
        blocking(move || apply(&shared, &["-f", &path(SAMPLES)])).await?;
        Ok(((), format!("{SAMPLES} applied")))
    })
    .await?;
    let demonstration = Demonstration { operator, control_plane, client, delivered, workloads, mistakes };
    demonstration.converge().await?;
    let _rollout = Rollout::show(&demonstration.control_plane, &demonstration.client).await?;
    cluster_api::show(&demonstration.control_plane, &demonstration.client).await?;
    adopted::show(&demonstration.control_plane, &demonstration.client, &kubelets).await?;
    demonstration.check_requests()?;
    if arguments.once {
        return Ok(());
    }
    report::next_steps(&demonstration.control_plane);
    demonstration.until_operator_ends().await
}

async fn start_control_plane() -> Result<Arc<ControlPlane>> {
    step_with_own_progress("looking for a control plane", async {
        let assets = blocking(Assets::locate).await?;
        let folder = assets.kube_apiserver.parent().unwrap_or(&assets.kube_apiserver).display();
        Ok(((), format!("Kubernetes {} found in {folder}", assets.version.text)))
    })
    .await?;
    step("starting the control plane", async {
        let control_plane = ControlPlane::start(Options::default()).await?;
        let result = format!(
            "etcd, kube-apiserver, kube-scheduler, kube-controller-manager listen on loopback, {}",
            control_plane.url()
        );
        Ok((Arc::new(control_plane), result))
    })
    .await
}

/// Everything that runs. The operator is the first field, so that it ends before its API server.
struct Demonstration {
    operator: Operator,
    control_plane: Arc<ControlPlane>,
    client: Client,
    /// The number of nodes to which the rendered configuration is delivered.
    delivered: u32,
    workloads: Vec<fleet::Workload>,
    mistakes: Mistakes,
}

impl Demonstration {
    /// Waits for the pools, then for the Pods, and prints the result.
    async fn converge(&self) -> Result<()> {
        self.converged(&format!("waiting for the pools of {SAMPLES}"), false).await?;
        workloads::create(&self.client, &self.workloads).await?;
        workloads::create_mistakes(&self.client, self.mistakes).await?;
        self.converged("waiting for the Pods", true).await?;
        self.check_requests()?;
        report::tables(&self.control_plane).await?;
        report::findings(&pools::read(&self.client).await?);
        Ok(())
    }

    /// Waits until nothing is missing, and checks that this remains true.
    async fn converged(&self, what: &str, with_pods: bool) -> Result<()> {
        let progress = Progress::default();
        let result = match with_pods {
            true => format!(
                "every Pod runs on a node of its build, except those of {} and {}, which are intentionally wrong",
                Mistakes::DEPLOYMENT,
                Mistakes::DAEMON_SET
            ),
            false => format!("every pool is as specified, and {} nodes run their configuration", self.delivered),
        };
        step_with_progress(what, &progress, async {
            let deadline = Instant::now() + CONVERGED_WITHIN;
            let mut since = None;
            loop {
                let missing = self.missing(with_pods).await?;
                if missing.is_empty() {
                    if since.get_or_insert_with(Instant::now).elapsed() >= CONVERGED_FOR {
                        return Ok(((), result));
                    }
                } else {
                    since = None;
                    let list = missing.join("; ");
                    ensure!(Instant::now() < deadline, "not converged after {} s: {list}", CONVERGED_WITHIN.as_secs());
                    progress.set(list);
                }
                sleep(POLL).await;
            }
        })
        .await
    }

    async fn missing(&self, with_pods: bool) -> Result<Vec<String>> {
        self.check_operator()?;
        let pools = pools::read(&self.client).await?;
        let mut missing = pools::missing(&pools, self.delivered);
        if with_pods {
            missing.extend(pools::unreported(&pools, self.mistakes));
            missing.extend(workloads::missing(&self.client, &self.workloads).await?);
        }
        Ok(missing)
    }

    fn check_operator(&self) -> Result<()> {
        let process = self.operator.process();
        match process.exit_status() {
            None => Ok(()),
            Some(status) => bail!("the operator ended: {status}\n{}", process.log_tail()),
        }
    }

    /// Checks that the shipped RBAC allowed every request of the operator.
    fn check_requests(&self) -> Result<()> {
        let requests = self.control_plane.requests_of(User::Operator)?;
        let refused: BTreeSet<String> = requests
            .iter()
            .filter(|request| request.is_forbidden())
            .map(|request| format!("{} {}.{}", request.verb, request.resource, request.group))
            .collect();
        ensure!(refused.is_empty(), "the shipped RBAC refused the operator to {}", Vec::from_iter(refused).join(", "));
        let (events, writes): (Vec<_>, Vec<_>) =
            requests.iter().filter(|request| request.is_write()).partition(|request| request.resource == "events");
        let memory = self.operator.resident_bytes().context("the operator's memory")? / (1024 * 1024);
        let (writes, events) = (writes.len(), events.len());
        println!(
            "          so far the operator made {writes} writes and emitted {events} events, none refused; it occupies {memory} MiB"
        );
        Ok(())
    }

    /// Waits until the operator ends.
    async fn until_operator_ends(&self) -> Result<()> {
        loop {
            self.check_operator()?;
            sleep(POLL).await;
        }
    }
}
