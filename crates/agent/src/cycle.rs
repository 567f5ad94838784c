//! The cycle of a change: write, restart, verify, confirm; and roll back if one of these fails.
//!
//! [`Cycle::advance`] performs one action and saves the journal before the next one. Every action can be repeated, so a
//! crash at any time is resumed by calling it again with the journal from the node.

use std::{collections::BTreeMap, fmt, io, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use winpool_api::RollbackReason;

use super::{
    change_plan::{ChangePlan, Restart},
    host::{Host, SandboxKind, ServiceState},
    in_use::unused_values,
    journal::{ChangeStage, ConfigId, CurrentChange, Direction, Journal, RollbackCause},
    kubelet_log,
};

/// The interval between two observations of a service.
const POLL: Duration = Duration::from_millis(250);
/// The interval between two messages about a service that has not reached its expected state.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(5);
/// How long containerd may take to start a sandbox, for which it may have to pull the pause image.
const SANDBOX_LIMIT: Duration = Duration::from_secs(120);

/// What the API server knows of the node.
pub trait Cluster {
    /// When the Lease of the node was renewed.
    fn lease_renewed(&self) -> io::Result<Option<Timestamp>>;

    /// The pods of the node by uid, and whether each of them runs, has completed, or has failed. They are read as the kubelet reads
    /// them, with the content of its kubeconfig: the agent itself may read no pods, because RBAC cannot limit that to a node.
    fn pods(&self, kubeconfig: &[u8]) -> Result<BTreeMap<String, PodPhase>, PodsError>;

    /// The configuration that the kubelet of the node uses; `None` if it does not answer, or not to the agent.
    fn kubelet_config(&self) -> Option<Value>;
}

/// The phase of a pod, as far as it is relevant here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    Running,
    /// It is pending, or has completed.
    Other,
    /// It has failed. A restarted kubelet admits its pods again, and fails those that no longer fit.
    Failed,
}

/// Why the pods of a node are not known.
#[derive(Debug, thiserror::Error)]
pub enum PodsError {
    /// The kubeconfig of the kubelet does not exist, cannot be used, or is not accepted.
    #[error("{0}")]
    Kubeconfig(String),
    #[error("{0}")]
    Unavailable(#[from] io::Error),
}

/// The time limits of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a service may take to stop before its processes are killed, and to start.
    pub service: Duration,
    /// How long all services must be healthy without interruption.
    pub stable: Duration,
    /// How long the services may take to be healthy, from the restart on.
    pub verify: Duration,
    /// How long verification and confirmation may take together, from the restart on.
    pub confirm: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { service: seconds(60), stable: seconds(15), verify: seconds(180), confirm: seconds(300) }
    }
}

/// Why a change is undone without the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreCause {
    Reboot,
    /// Somebody runs `winpool-agent restore`.
    ByHand,
}

impl RestoreCause {
    fn failure(self) -> RollbackCause {
        let (reason, message) = match self {
            Self::Reboot => (RollbackReason::Rebooted, "Windows was restarted before the configuration was confirmed"),
            Self::ByHand => (RollbackReason::RestoredByHand, "winpool-agent restore was run on the node"),
        };
        RollbackCause { reason, message: message.to_owned() }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Call again at once.
    Continue,
    /// Call again after a short time, or when the desired configuration changes.
    Wait,
    Idle,
}

/// A change on a node.
pub struct Cycle<'a> {
    host: &'a dyn Host,
    limits: Limits,
    journal: Journal,
    /// Since when all services have been healthy, with their processes. It is not durable: after a crash it starts again.
    healthy: Option<(Timestamp, Vec<u32>)>,
}

impl<'a> Cycle<'a> {
    /// Resumes with the journal of the node.
    pub fn resume(host: &'a dyn Host, limits: Limits) -> io::Result<Self> {
        Ok(Self { host, limits, journal: Journal::load(host)?, healthy: None })
    }

    /// The state of the agent.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Sets how long verification and confirmation may take together.
    pub fn set_confirm_limit(&mut self, limit: Duration) {
        self.limits.confirm = limit;
    }

    /// Begins to apply a plan. A configuration that changes nothing is applied at once.
    /// After an error nothing was changed.
    pub fn begin(&mut self, cluster: &dyn Cluster, id: ConfigId, plan: ChangePlan) -> io::Result<()> {
        let mut journal = self.journal.clone();
        if plan.files.is_empty() && plan.services.is_empty() {
            journal.commit(CurrentChange::new(id, plan));
            return self.save(journal);
        }
        let mut change = CurrentChange::new(id, plan);
        match pods(self.host, cluster, &change.plan) {
            Ok(pods) => {
                let running = pods.into_iter().filter(|(_, phase)| *phase == PodPhase::Running);
                change.pods = running.map(|(uid, _)| uid).collect();
            }
            Err(PodsError::Kubeconfig(why)) => {
                change.pods_unknown = Some(format!("the pods of the node were not observed, because {why}"));
            }
            Err(PodsError::Unavailable(error)) => return Err(error),
        }
        change.sandbox = change.plan.runtime.as_ref().map(|runtime| startable_sandbox(self.host, &runtime.pipe));
        journal.change = Some(change);
        self.host.set_restore_service(true)?;
        self.save(journal)
    }

    /// Performs the next action of the change in progress. `confirmed` is the digest that the operator confirmed, and
    /// `desired` the requested configuration: another one than that of the change supersedes it.
    /// An action that fails is repeated by the next call.
    pub fn advance(
        &mut self,
        cluster: &dyn Cluster,
        desired: Option<&ConfigId>,
        confirmed: Option<&str>,
    ) -> io::Result<NextStep> {
        let Some(mut change) = self.journal.change.clone() else { return Ok(NextStep::Idle) };
        let superseded = desired.is_some_and(|desired| *desired != change.id);
        if superseded && change.direction == Direction::Apply {
            let message = desired.map(|desired| desired.config.clone()).unwrap_or_default();
            change.roll_back(RollbackCause { reason: RollbackReason::Superseded, message });
            return self.save_change(change);
        }
        match change.stage {
            ChangeStage::Write => self.write_all(change),
            ChangeStage::Restart => self.restart_all(change),
            ChangeStage::Verify(since) | ChangeStage::Confirm(since) if since > self.host.now() => {
                // The clock was set back.
                change.stage = ChangeStage::Verify(self.host.now());
                self.save_change(change)
            }
            ChangeStage::Verify(since) => self.verify(cluster, change, since),
            ChangeStage::Confirm(since) => self.confirm(change, since, confirmed),
        }
    }

    /// Undoes an unconfirmed change without the network. A later [`Self::advance`] verifies it.
    pub fn restore(&mut self, cause: RestoreCause) -> io::Result<()> {
        let Some(mut change) = self.journal.change.clone() else { return self.host.set_restore_service(false) };
        change.roll_back(cause.failure());
        self.save_change(change)?;
        while let Some(change) = self.journal.change.clone() {
            match change.stage {
                ChangeStage::Write => self.write_all(change)?,
                ChangeStage::Restart => self.restart_all(change)?,
                ChangeStage::Verify(_) | ChangeStage::Confirm(_) => break,
            };
        }
        Ok(())
    }

    fn write_all(&mut self, change: CurrentChange) -> io::Result<NextStep> {
        let written = self.write(&change);
        self.proceed(change, written, ChangeStage::Restart)
    }

    fn restart_all(&mut self, change: CurrentChange) -> io::Result<NextStep> {
        let restarted = self.restart(&change);
        let now = self.host.now();
        self.healthy = None;
        self.journal.restarted = Some(now);
        self.proceed(change, restarted, ChangeStage::Verify(now))
    }

    /// The next stage after a successful action; a rollback after a failed one. A failed rollback is repeated.
    fn proceed(
        &mut self,
        mut change: CurrentChange,
        result: Result<(), RollbackCause>,
        next: ChangeStage,
    ) -> io::Result<NextStep> {
        match (result, &change.direction) {
            (Ok(()), _) => change.stage = next,
            (Err(failure), Direction::Apply) => self.roll_back(&mut change, failure),
            (Err(failure), Direction::RollBack(_)) => return Err(io::Error::other(failure.message)),
        }
        self.save_change(change)
    }

    /// Begins to undo a change, because of a failure of a service. A kubelet that has ended says why in its log.
    fn roll_back(&self, change: &mut CurrentChange, mut failure: RollbackCause) {
        let has_ended = |restart: &Restart| {
            let processes = restart.program.as_ref().map(|program| self.host.processes(program));
            matches!(processes, Some(Ok(processes)) if processes.is_empty())
        };
        if change.plan.restarts.iter().any(has_ended)
            && let Some(error) = kubelet_log::last_error(self.host)
        {
            failure.message = format!("{}. Its log ends with: {error}", failure.message);
        }
        change.roll_back(failure);
    }

    fn write(&self, change: &CurrentChange) -> Result<(), RollbackCause> {
        let apply = change.direction == Direction::Apply;
        for file in &change.plan.files {
            let target = if apply { &file.after } else { &file.before };
            self.write_file(&file.path, target.as_deref()).map_err(failed(RollbackReason::WriteFailed, &file.path))?;
        }
        for edit in &change.plan.services {
            let target = if apply { &edit.after } else { &edit.before };
            self.host.define(target).map_err(failed(RollbackReason::WriteFailed, &target.name))?;
        }
        Ok(())
    }

    fn write_file(&self, path: &str, target: Option<&[u8]>) -> io::Result<()> {
        let current = self.host.read(path)?;
        match target {
            Some(bytes) if current.as_deref() != Some(bytes) => self.host.replace(path, bytes),
            None if current.is_some() => self.host.remove(path),
            _ => Ok(()),
        }
    }

    /// Stops dependents first and starts dependencies first, whether or not the service manager does.
    fn restart(&self, change: &CurrentChange) -> Result<(), RollbackCause> {
        let is_rollback = change.direction != Direction::Apply;
        for Restart { service, program, children, .. } in change.plan.restarts.iter().rev() {
            let stopped = self.stop(service).and_then(|()| {
                let mut ended = program.iter().chain(children).map(|program| self.end(program));
                // A rollback goes on if the processes cannot be listed.
                ended.try_for_each(|ended| if is_rollback { Ok(()) } else { ended })
            });
            stopped.map_err(failed(RollbackReason::RestartFailed, service))?;
        }
        for restart in &change.plan.restarts {
            self.start(&restart.service).map_err(failed(RollbackReason::RestartFailed, &restart.service))?;
        }
        Ok(())
    }

    fn stop(&self, service: &str) -> io::Result<()> {
        // A service accepts no stop during its start.
        self.wait_for_state(service, "started", |state| state != Some(ServiceState::Pending))?;
        match self.host.stop(service) {
            Ok(()) if self.wait_until_stopped(service)? => return Ok(()),
            Err(error) if self.host.state(service)? != Some(ServiceState::Pending) => return Err(error),
            _ => {}
        }
        if let Some(pid) = self.host.process(service)? {
            tracing::warn!(service, pid, "the service does not stop, and its processes are ended");
            self.host.kill(pid)?;
        }
        match self.wait_until_stopped(service)? {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::TimedOut, "it does not stop, and cannot be killed")),
        }
    }

    /// Whether a service has stopped within the time limit. One without a process has, whatever it reported last: the kubelet ends after
    /// it has reported that it stops (kubernetes/kubernetes v1.37.2, `pkg/windows/service/service.go`), and Wine does not notice that.
    fn wait_until_stopped(&self, service: &str) -> io::Result<bool> {
        let has_stopped = |state| match state {
            None | Some(ServiceState::Stopped) => true,
            // Processes that cannot be listed show nothing.
            Some(ServiceState::Pending) => matches!(self.host.process(service), Ok(None)),
            Some(ServiceState::Running { .. }) => false,
        };
        Ok(has_stopped(self.wait_for_state(service, "stopped", has_stopped)?))
    }

    /// Waits until no process of a program runs, and kills those that do not end in time. RKE2 reports its service as stopped while its
    /// child processes still end (rancher/rke2 0627888, `pkg/windows/service_windows.go`): a second kubelet could not listen.
    fn end(&self, program: &str) -> io::Result<()> {
        let began = self.host.now();
        loop {
            let processes = self.host.processes(program)?;
            if processes.is_empty() || elapsed(began, self.host.now()) >= self.limits.service {
                return processes.into_iter().try_for_each(|pid| self.host.kill(pid));
            }
            self.host.sleep(POLL);
        }
    }

    fn start(&self, service: &str) -> io::Result<()> {
        self.host.start(service)?;
        match self.wait_for_state(service, "started", |state| state != Some(ServiceState::Pending))? {
            Some(ServiceState::Running { .. }) => Ok(()),
            Some(ServiceState::Stopped) => Err(io::Error::other("it ended during its start")),
            Some(ServiceState::Pending) => Err(io::Error::new(io::ErrorKind::TimedOut, "it does not finish its start")),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "the service does not exist")),
        }
    }

    /// The state of a service once it is as expected, or after the time limit.
    fn wait_for_state(
        &self,
        service: &str,
        expected: &str,
        is_expected: impl Fn(Option<ServiceState>) -> bool,
    ) -> io::Result<Option<ServiceState>> {
        let began = self.host.now();
        let mut next_message = MESSAGE_INTERVAL;
        loop {
            let state = self.host.state(service)?;
            let waited = elapsed(began, self.host.now());
            if is_expected(state) || waited >= self.limits.service {
                return Ok(state);
            }
            if waited >= next_message {
                next_message += MESSAGE_INTERVAL;
                let (seconds, limit) = (waited.as_secs(), self.limits.service.as_secs());
                tracing::info!(
                    service,
                    ?state,
                    "waiting until the service has {expected}, for {seconds} s of {limit} s"
                );
            }
            self.host.sleep(POLL);
        }
    }

    fn verify(&mut self, cluster: &dyn Cluster, mut change: CurrentChange, since: Timestamp) -> io::Result<NextStep> {
        let problem = self.problem(cluster, &change, since);
        let late = elapsed(since, self.host.now()) >= self.limits.verify.min(self.limits.confirm);
        match (problem, &change.direction) {
            (None, Direction::Apply) => change.stage = ChangeStage::Confirm(since),
            (None, Direction::RollBack(failure)) => return self.finish_rollback(change.id.clone(), failure.clone()),
            (Some(failure), Direction::Apply) if late || is_final(&failure) => self.roll_back(&mut change, failure),
            // The former configuration must run: the services are restarted until it does.
            (Some(_), Direction::RollBack(_)) if late => change.stage = ChangeStage::Write,
            (Some(_), _) => return Ok(NextStep::Wait),
        }
        self.save_change(change)
    }

    fn confirm(
        &mut self,
        mut change: CurrentChange,
        since: Timestamp,
        confirmed: Option<&str>,
    ) -> io::Result<NextStep> {
        if self.running(&change).is_err() {
            change.stage = ChangeStage::Verify(since);
            self.healthy = None;
            return self.save_change(change);
        }
        if confirmed == Some(change.id.digest.as_str()) {
            let mut journal = self.journal.clone();
            journal.commit(change);
            self.host.set_restore_service(false)?;
            return self.save(journal).map(|()| NextStep::Idle);
        }
        if elapsed(since, self.host.now()) < self.limits.confirm {
            return Ok(NextStep::Wait);
        }
        let message = "the operator did not confirm the configuration in time".to_owned();
        change.roll_back(RollbackCause { reason: RollbackReason::NotConfirmed, message });
        self.save_change(change)
    }

    fn finish_rollback(&mut self, id: ConfigId, failure: RollbackCause) -> io::Result<NextStep> {
        let mut journal = self.journal.clone();
        journal.reject(id, failure);
        self.host.set_restore_service(false)?;
        self.save(journal).map(|()| NextStep::Continue)
    }

    /// Why the change is not verified yet; `None` once it is.
    fn problem(&mut self, cluster: &dyn Cluster, change: &CurrentChange, since: Timestamp) -> Option<RollbackCause> {
        let pids = match self.running(change) {
            Ok(pids) => pids,
            Err(failure) => {
                self.healthy = None;
                return Some(failure);
            }
        };
        let now = self.host.now();
        let stable = match &self.healthy {
            Some((began, former)) if *former == pids => elapsed(*began, now) >= self.limits.stable,
            _ => {
                self.healthy = Some((now, pids));
                self.limits.stable.is_zero()
            }
        };
        if !stable {
            let services = change.plan.restarted_services();
            let message = format!("{services} did not run for {:?} without interruption", self.limits.stable);
            return Some(not_healthy(message));
        }
        // A rollback succeeds without the network.
        if change.direction != Direction::Apply {
            return None;
        }
        lease_problem(cluster, since)
            .or_else(|| pod_problem(self.host, cluster, change))
            .or_else(|| kubelet_problem(cluster, change))
            .or_else(|| sandbox_problem(self.host, change))
    }

    /// The processes of the restarted services, if all are healthy.
    fn running(&self, change: &CurrentChange) -> Result<Vec<u32>, RollbackCause> {
        let processes = change.plan.restarts.iter().map(|restart| self.healthy_processes(restart));
        Ok(processes.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The process of a service, and those of its program: nssm keeps running while it restarts the kubelet, whose process
    /// changes.
    fn healthy_processes(&self, restart: &Restart) -> Result<Vec<u32>, RollbackCause> {
        let name = &restart.service;
        let pid = match self.host.state(name) {
            Ok(Some(ServiceState::Running { pid })) => pid,
            Ok(_) => return Err(not_healthy(format!("{name} does not run"))),
            Err(error) => return Err(not_healthy(format!("{name}: {error}"))),
        };
        let mut pids = vec![pid];
        if let Some(program) = &restart.program {
            let mut started =
                self.host.processes(program).map_err(|error| not_healthy(format!("{program}: {error}")))?;
            if started.is_empty() {
                return Err(not_healthy(format!("no process of {program} runs")));
            }
            started.sort_unstable();
            pids.extend(started);
        }
        let Some(health) = &restart.health else { return Ok(pids) };
        let endpoint = format!("http://127.0.0.1:{}{}", health.port, health.path);
        match self.host.http_status(health.port, &health.path) {
            Ok(200) => Ok(pids),
            Ok(status) => Err(not_healthy(format!("{name}: {endpoint} answers {status}"))),
            Err(error) => Err(not_healthy(format!("{name}: {endpoint}: {error}"))),
        }
    }

    fn save_change(&mut self, change: CurrentChange) -> io::Result<NextStep> {
        let journal = Journal { change: Some(change), ..self.journal.clone() };
        self.save(journal).map(|()| NextStep::Continue)
    }

    fn save(&mut self, journal: Journal) -> io::Result<()> {
        journal.save(self.host)?;
        self.journal = journal;
        Ok(())
    }
}

/// The Ready condition of a node stays as it was for 40 seconds; only a Lease renewed after the restart proves that the
/// kubelet reaches the API server.
fn lease_problem(cluster: &dyn Cluster, since: Timestamp) -> Option<RollbackCause> {
    let failure = |message: String| Some(RollbackCause { reason: RollbackReason::LeaseNotRenewed, message });
    match cluster.lease_renewed() {
        Ok(Some(renewed)) if renewed > since => None,
        Ok(_) => failure("the Lease of the node was not renewed since the restart".to_owned()),
        Err(error) => failure(format!("the Lease of the node cannot be read: {error}")),
    }
}

/// The pods of the node, read with the kubeconfig of its kubelet.
fn pods(host: &dyn Host, cluster: &dyn Cluster, plan: &ChangePlan) -> Result<BTreeMap<String, PodPhase>, PodsError> {
    let unusable = PodsError::Kubeconfig;
    let path = plan.kubeconfig.as_ref().ok_or_else(|| unusable("its kubelet has no flag --kubeconfig".to_owned()))?;
    let kubeconfig = host.read(path).map_err(|error| unusable(format!("{path}: {error}")))?;
    let kubeconfig = kubeconfig.ok_or_else(|| unusable(format!("{path} does not exist")))?;
    cluster.pods(&kubeconfig).map_err(|error| match error {
        PodsError::Kubeconfig(why) => unusable(format!("{path}: {why}")),
        PodsError::Unavailable(error) => PodsError::Unavailable(error),
    })
}

/// Pods that were deleted since are no problem.
fn pod_problem(host: &dyn Host, cluster: &dyn Cluster, change: &CurrentChange) -> Option<RollbackCause> {
    if change.pods.is_empty() {
        return None;
    }
    let pods = match pods(host, cluster, &change.plan) {
        Ok(pods) => pods,
        Err(error) => return Some(not_healthy(format!("the pods of the node cannot be read: {error}"))),
    };
    let failed = change.pods.iter().filter(|uid| pods.get(*uid) == Some(&PodPhase::Failed)).count();
    let message = format!("{failed} of {} pods that ran before have failed", change.pods.len());
    (failed > 0).then_some(RollbackCause { reason: RollbackReason::PodsFailed, message })
}

/// A kubelet that does not return its configuration is not checked.
fn kubelet_problem(cluster: &dyn Cluster, change: &CurrentChange) -> Option<RollbackCause> {
    let expected = Some(&change.plan.kubelet).filter(|expected| !expected.is_empty())?;
    let unused = unused_values(expected, &cluster.kubelet_config()?);
    let list = unused.join(", ");
    let message =
        format!("the kubelet does not use the configuration: {list}. Remove the flag or the file that overrides it");
    (!unused.is_empty()).then_some(RollbackCause { reason: RollbackReason::ConfigNotUsed, message })
}

/// The kind of sandbox that containerd can start, the one that proves most; or why it starts none.
fn startable_sandbox(host: &dyn Host, pipe: &str) -> Result<SandboxKind, String> {
    let mut failures = Vec::new();
    for kind in SandboxKind::ALL {
        match host.try_sandbox(pipe, kind, SANDBOX_LIMIT) {
            Ok(()) => return Ok(kind),
            Err(error) => failures.push(error.to_string()),
        }
    }
    failures.dedup();
    Err(format!("a new pod was not observed, because none could be started before the change: {}", failures.join("; ")))
}

/// A containerd that could start a sandbox before the change has to start one after it. It can fail for a moment, while the
/// network of the node is set up again.
fn sandbox_problem(host: &dyn Host, change: &CurrentChange) -> Option<RollbackCause> {
    let (Ok(kind), runtime) = (change.sandbox.as_ref()?, change.plan.runtime.as_ref()?) else { return None };
    let error = host.try_sandbox(&runtime.pipe, *kind, SANDBOX_LIMIT).err()?;
    let message = format!("containerd started a new pod before the change, and starts none after it: {error}");
    Some(RollbackCause { reason: RollbackReason::SandboxFailed, message })
}

/// Whether waiting cannot help.
fn is_final(failure: &RollbackCause) -> bool {
    matches!(failure.reason, RollbackReason::PodsFailed | RollbackReason::ConfigNotUsed)
}

fn not_healthy(message: impl Into<String>) -> RollbackCause {
    RollbackCause { reason: RollbackReason::NotHealthy, message: message.into() }
}

fn failed<E: fmt::Display>(reason: RollbackReason, object: &str) -> impl Fn(E) -> RollbackCause {
    move |error| RollbackCause { reason, message: format!("{object}: {error}") }
}

/// The time between two moments; zero if the clock was set back.
fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since).max(SignedDuration::ZERO)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
