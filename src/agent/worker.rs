//! The work of the agent: reconciles the node with the desired configuration. It blocks, and runs in a thread of its own.

use std::{collections::BTreeMap, io, time::Duration};

use jiff::Timestamp;

use super::{
    cycle::{Cluster, Cycle, Limits, Next},
    host::Host,
    journal::{ConfigId, Journal},
    layout::Layout,
    node_plan::{NodePlan, Refusal, RefusalReason},
    plan, preflight,
    refuse::refuse,
    report::{self, Observed},
};
use crate::{
    api::{WindowsNodeConfigSpec, WindowsNodeConfigStatus},
    domain::{kubernetes::duration, pool},
};

/// How often the node is compared with the applied configuration, and a refused configuration checked again.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// The API server as the worker needs it.
pub trait Source: Cluster {
    /// The data of a ConfigMap in the namespace of the operator; `None` if it does not exist.
    ///
    /// # Errors
    /// When the API server does not answer.
    fn config(&self, name: &str) -> io::Result<Option<BTreeMap<String, String>>>;

    /// Writes the status of the WindowsNodeConfig.
    ///
    /// # Errors
    /// When the API server does not answer, or rejects it.
    fn report(&self, status: &WindowsNodeConfigStatus) -> io::Result<()>;
}

/// The agent of one node.
pub struct Worker<'a> {
    host: &'a dyn Host,
    source: &'a dyn Source,
    cycle: Cycle<'a>,
    check_interval: Duration,
    observed: Observed,
    /// The configuration that [`Observed::refusal`] is about, and when it was refused.
    refused: Option<(ConfigId, Timestamp)>,
    /// The configuration that the node was last compared with, and when.
    compared: Option<(ConfigId, Timestamp)>,
    /// The status that was written last.
    reported: Option<WindowsNodeConfigStatus>,
}

impl<'a> Worker<'a> {
    /// Resumes with the journal of the node.
    ///
    /// # Errors
    /// When the journal cannot be read. Nothing may be changed then.
    pub fn resume(
        host: &'a dyn Host,
        source: &'a dyn Source,
        limits: Limits,
        check_interval: Duration,
    ) -> io::Result<Self> {
        let cycle = Cycle::resume(host, limits)?;
        let observed = Observed::default();
        Ok(Self { host, source, cycle, check_interval, observed, refused: None, compared: None, reported: None })
    }

    /// The state of the agent.
    pub fn journal(&self) -> &Journal {
        self.cycle.journal()
    }

    /// Performs the next action for a spec, or for none if the WindowsNodeConfig does not exist, and reports the result.
    /// A failed action is repeated by the next call.
    pub fn reconcile(&mut self, spec: Option<&WindowsNodeConfigSpec>) -> Next {
        let desired = spec.map(config_id);
        let next = match (&self.cycle.journal().change, &desired) {
            (None, Some(desired)) => self.prepare(desired),
            _ => self.advance(spec, desired.as_ref()),
        };
        let (next, error) = match next {
            Ok(next) => (next, None),
            Err(error) => (Next::Wait, Some(error.to_string())),
        };
        self.observed.error = error;
        match desired.map_or(Ok(()), |desired| self.report(&desired)) {
            Ok(()) => next,
            Err(error) => {
                tracing::warn!(%error, "status not written, it is retried");
                if next == Next::Idle { Next::Wait } else { next }
            }
        }
    }

    fn advance(&mut self, spec: Option<&WindowsNodeConfigSpec>, desired: Option<&ConfigId>) -> io::Result<Next> {
        let timeout =
            spec.and_then(|spec| duration::parse(&spec.confirm_timeout)).and_then(|nanos| u64::try_from(nanos).ok());
        if let Some(nanos) = timeout {
            self.cycle.set_confirm_limit(Duration::from_nanos(nanos));
        }
        let confirmed = spec.filter(|spec| spec.is_confirmed()).map(|spec| spec.digest.as_str());
        self.cycle.advance(self.source, desired, confirmed)
    }

    /// Begins to apply the desired configuration, unless it is applied, was rolled back, or was refused lately.
    fn prepare(&mut self, desired: &ConfigId) -> io::Result<Next> {
        let journal = self.cycle.journal();
        if journal.applied.as_ref().is_some_and(|applied| applied.digest == desired.digest) {
            return self.compare(desired).map(|()| Next::Idle);
        }
        if journal.rejection(desired).is_some() || self.was_refused(desired) {
            return Ok(Next::Idle);
        }
        self.observed = Observed { preflight: true, ..Observed::default() };
        self.refused = None;
        self.report(desired)?;
        let Some(data) = self.source.config(&desired.config)? else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("ConfigMap {} does not exist", desired.config),
            ));
        };
        let checked = self.check(desired, &data);
        self.observed.preflight = false;
        match checked {
            Ok((layout, plan)) => {
                self.observed.layout = layout.kind.name().to_owned();
                self.cycle.begin(self.source, desired.clone(), plan)?;
                Ok(Next::Continue)
            }
            Err(refusal) => {
                self.observed.refusal = Some(refusal);
                self.refused = Some((desired.clone(), self.host.now()));
                Ok(Next::Idle)
            }
        }
    }

    /// A refused configuration is checked again after some time: an administrator may have changed the node.
    fn was_refused(&self, desired: &ConfigId) -> bool {
        self.is_recent(self.refused.as_ref(), desired)
    }

    /// Whether a configuration was checked within the interval.
    fn is_recent(&self, checked: Option<&(ConfigId, Timestamp)>, desired: &ConfigId) -> bool {
        let recent = |at: &Timestamp| (*at..*at + self.check_interval).contains(&self.host.now());
        checked.is_some_and(|(checked, at)| checked == desired && recent(at))
    }

    /// Compares the node with the applied configuration: something else may have changed it.
    fn compare(&mut self, applied: &ConfigId) -> io::Result<()> {
        if self.is_recent(self.compared.as_ref(), applied) {
            return Ok(());
        }
        let data = self.source.config(&applied.config)?.filter(|data| pool::digest(data) == applied.digest);
        self.observed.changed = data.map(|data| plan::differing(self.host, &data)).unwrap_or_default();
        self.compared = Some((applied.clone(), self.host.now()));
        Ok(())
    }

    /// How long to wait before the next call of [`Self::reconcile`], unless the spec changes.
    pub fn delay(&self, next: Next) -> Duration {
        match next {
            Next::Continue => Duration::ZERO,
            Next::Wait => Duration::from_secs(1),
            Next::Idle => self.check_interval,
        }
    }

    /// The plan for a configuration that the programs of the node accept.
    fn check(&self, desired: &ConfigId, data: &BTreeMap<String, String>) -> Result<(Layout, NodePlan), Refusal> {
        let digest = pool::digest(data);
        if digest != desired.digest {
            let wrong = format!("ConfigMap {} has the digest {digest}, not that of the spec", desired.config);
            return Err(refuse(
                RefusalReason::DigestDiffers,
                wrong,
                "Delete the ConfigMap, and the operator creates it again",
            ));
        }
        let (layout, plan) = plan::plan(self.host, data)?;
        preflight::preflight(self.host, &layout, &plan)?;
        Ok((layout, plan))
    }

    fn report(&mut self, desired: &ConfigId) -> io::Result<()> {
        let status = report::status(self.cycle.journal(), desired, &self.observed);
        if self.reported.as_ref() == Some(&status) {
            return Ok(());
        }
        self.source.report(&status)?;
        self.reported = Some(status);
        Ok(())
    }
}

/// The configuration that a spec requests.
fn config_id(spec: &WindowsNodeConfigSpec) -> ConfigId {
    ConfigId { config: spec.config.clone(), digest: spec.digest.clone(), attempt: spec.attempt }
}
