//! The work of the agent: reconciles the node with the desired configuration. It blocks, and runs in a thread of its own.

use std::{collections::BTreeMap, io, mem, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use winpool_api::{NodeDiagnosis, WindowsNodeConfigSpec, WindowsNodeConfigStatus};
use winpool_core::kubernetes::duration;
use winpool_render::{allowances::Allowances, settings};

use super::{
    change_plan::{ChangePlan, Refusal, RefusalReason},
    cycle::{Cluster, Cycle, Limits, NextStep},
    diagnosis,
    facts::{self, FactReading, FactReference},
    host::Host,
    journal::{ConfigId, Journal},
    layout::{Layout, LayoutKind, managed},
    merge::{allowed, diversions},
    plan, preflight,
    refuse::refuse,
    report::{self, ObservedNode},
};

/// How often the node is compared with the applied configuration, and a refused configuration checked again.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// The API server as the worker needs it.
pub trait Source: Cluster {
    /// The data of a ConfigMap in the namespace of the operator; `None` if it does not exist.
    fn config(&self, name: &str) -> io::Result<Option<BTreeMap<String, String>>>;

    /// The labels of the Node; empty if it does not exist.
    fn node_labels(&self) -> io::Result<BTreeMap<String, String>>;

    /// Writes the status of the WindowsNodeConfig.
    fn report(&self, status: &WindowsNodeConfigStatus) -> io::Result<()>;

    /// The time of the API server, in whole seconds; `None` if it does not answer.
    fn time(&self) -> Option<Timestamp>;
}

/// The agent of one node.
pub struct Worker<'a> {
    host: &'a dyn Host,
    source: &'a dyn Source,
    cycle: Cycle<'a>,
    check_interval: Duration,
    allowances: Allowances,
    system_uuid: String,
    observed: ObservedNode,
    /// The configuration that [`ObservedNode::refusal`] is about, and when it was refused.
    refused: Option<(ConfigId, Timestamp)>,
    /// The configuration that the node was last compared with, and when.
    compared: Option<(ConfigId, Timestamp)>,
    is_compared: bool,
    /// The facts that were read last, and when.
    facts: Option<(FactReading, Timestamp)>,
    diagnosis: Option<NodeDiagnosis>,
    reported: Option<WindowsNodeConfigStatus>,
}

impl<'a> Worker<'a> {
    /// Resumes with the journal of the node.
    pub fn resume(
        host: &'a dyn Host,
        source: &'a dyn Source,
        limits: Limits,
        check_interval: Duration,
    ) -> io::Result<Self> {
        let cycle = Cycle::resume(host, limits)?;
        Ok(Self {
            host,
            source,
            cycle,
            check_interval,
            allowances: Allowances::default(),
            system_uuid: report::system_uuid(host),
            observed: ObservedNode::default(),
            refused: None,
            compared: None,
            is_compared: false,
            facts: None,
            diagnosis: None,
            reported: None,
        })
    }

    /// The agent with what its own configuration allows.
    #[must_use]
    pub fn allowing(self, allowances: Allowances) -> Self {
        Self { allowances, ..self }
    }

    /// The state of the agent.
    pub fn journal(&self) -> &Journal {
        self.cycle.journal()
    }

    /// Performs the next action for a spec, or for none if the WindowsNodeConfig does not exist, and reports the result.
    /// A failed action is repeated by the next call.
    pub fn reconcile(&mut self, spec: Option<&WindowsNodeConfigSpec>) -> NextStep {
        let desired = spec.map(config_id);
        let next = match (&self.cycle.journal().change, &desired) {
            (None, Some(desired)) => self.prepare(desired, spec.is_some_and(WindowsNodeConfigSpec::is_confirmed)),
            _ => self.advance(spec, desired.as_ref()),
        };
        let (next, error) = match next {
            Ok(next) => (next, None),
            Err(error) => (NextStep::Wait, Some(error.to_string())),
        };
        self.observed.error = error;
        self.diagnose(spec.and_then(|spec| spec.diagnose.as_ref()), next);
        match desired.map_or(Ok(()), |desired| self.report_with_facts(&desired, next)) {
            Ok(()) => next,
            Err(error) => {
                tracing::warn!(%error, "status not written, it is retried");
                if next == NextStep::Idle { NextStep::Wait } else { next }
            }
        }
    }

    /// Reads the node if a diagnosis is requested, unless it is being changed; and removes one whose request has ended.
    fn diagnose(&mut self, request: Option<&Time>, next: NextStep) {
        if self.diagnosis.as_ref().is_some_and(|diagnosis| Some(&diagnosis.requested_at) != request) {
            self.diagnosis = None;
        }
        let is_changing = next == NextStep::Continue || self.cycle.journal().change.is_some();
        if let Some(request) = request.filter(|_| self.diagnosis.is_none() && !is_changing) {
            let kubelet = self.source.kubelet_config();
            self.diagnosis = Some(diagnosis::read(self.host, request.clone(), kubelet.as_ref()));
        }
    }

    fn advance(&mut self, spec: Option<&WindowsNodeConfigSpec>, desired: Option<&ConfigId>) -> io::Result<NextStep> {
        let timeout =
            spec.and_then(|spec| duration::parse(&spec.confirm_timeout)).and_then(|nanos| u64::try_from(nanos).ok());
        if let Some(nanos) = timeout {
            self.cycle.set_confirm_limit(Duration::from_nanos(nanos));
        }
        let confirmed = spec.filter(|spec| spec.is_confirmed()).map(|spec| spec.digest.as_str());
        self.cycle.advance(self.source, desired, confirmed)
    }

    /// Begins to apply the desired configuration, unless it is applied, was rolled back, or was refused lately. A refusal stays
    /// in the status while it is checked again: the operator would take another phase for a change in progress. An applied one that
    /// something else has changed is applied again once the operator has assigned it again, which removes its confirmation.
    fn prepare(&mut self, desired: &ConfigId, is_confirmed: bool) -> io::Result<NextStep> {
        if self.cycle.journal().has_applied(desired) {
            let is_compared = self.compare(desired);
            // Only a node that was compared with success is unchanged.
            if is_confirmed || (is_compared && self.observed.changed.is_empty()) {
                (self.observed.refusal, self.observed.preflight) = (None, false);
                return Ok(NextStep::Idle);
            }
        }
        let journal = self.cycle.journal();
        if journal.rejection(desired).is_some() || self.was_refused(desired) {
            return Ok(NextStep::Idle);
        }
        if !self.refused.as_ref().is_some_and(|(refused, _)| refused == desired) {
            let changed = mem::take(&mut self.observed.changed);
            self.observed = ObservedNode { preflight: true, changed, ..ObservedNode::default() };
            self.refused = None;
            self.report(desired)?;
        }
        let Some(data) = self.source.config(&desired.config)? else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("ConfigMap {} does not exist", desired.config),
            ));
        };
        match self.check(desired, &data) {
            Ok((layout, plan)) => {
                let kind = match layout.kind {
                    LayoutKind::Eks => managed::of_eks(&self.source.node_labels()?),
                    kind => kind,
                };
                self.cycle.begin(self.source, desired.clone(), plan)?;
                self.observed = ObservedNode { layout: kind.name().to_owned(), ..ObservedNode::default() };
                (self.refused, self.compared) = (None, None);
                Ok(NextStep::Continue)
            }
            Err(refusal) => {
                let next = if self.recheck_after(refusal.reason).is_zero() { NextStep::Wait } else { NextStep::Idle };
                let changed = mem::take(&mut self.observed.changed);
                self.observed = ObservedNode { refusal: Some(refusal), changed, ..ObservedNode::default() };
                self.refused = Some((desired.clone(), self.host.now()));
                Ok(next)
            }
        }
    }

    /// Whether the configuration was refused, and is not to be checked again yet.
    fn was_refused(&self, desired: &ConfigId) -> bool {
        let refusal = self.observed.refusal.as_ref();
        refusal
            .is_some_and(|refusal| self.is_recent(self.refused.as_ref(), desired, self.recheck_after(refusal.reason)))
    }

    /// After how long a refused configuration is checked again: an administrator may have changed the node. The operator
    /// restores a ConfigMap at once.
    fn recheck_after(&self, reason: RefusalReason) -> Duration {
        match reason {
            RefusalReason::DigestDiffers => Duration::ZERO,
            _ => self.check_interval,
        }
    }

    /// Whether a configuration was checked within an interval.
    fn is_recent(&self, checked: Option<&(ConfigId, Timestamp)>, desired: &ConfigId, interval: Duration) -> bool {
        let recent = |at: &Timestamp| (*at..*at + interval).contains(&self.host.now());
        checked.is_some_and(|(checked, at)| checked == desired && recent(at))
    }

    /// Reports what is known at once. An idle node then has the time to be read.
    fn report_with_facts(&mut self, desired: &ConfigId, next: NextStep) -> io::Result<()> {
        self.report(desired)?;
        let now = self.host.now();
        let is_recent = |at: Timestamp| (at..at + facts::INTERVAL).contains(&now);
        if next != NextStep::Idle || self.facts.as_ref().is_some_and(|(_, at)| is_recent(*at)) {
            return Ok(());
        }
        let reference = FactReference { time: self.source.time(), kubelet: self.source.kubelet_config() };
        let before = self.facts.take().map(|(read, _)| read).unwrap_or_default();
        self.facts = Some((facts::read(self.host, &reference, before), now));
        self.report(desired)
    }

    /// Compares the node with the applied configuration: something else may have changed it. Returns whether the last comparison
    /// succeeded.
    fn compare(&mut self, applied: &ConfigId) -> bool {
        if !self.is_recent(self.compared.as_ref(), applied, self.check_interval) {
            self.compared = Some((applied.clone(), self.host.now()));
            self.is_compared = self.differing(applied).map(|changed| self.observed.changed = changed).is_some();
        }
        self.is_compared
    }

    /// The files and services that differ from a configuration; `None` if that is not known.
    fn differing(&self, applied: &ConfigId) -> Option<Vec<String>> {
        let data = match self.source.config(&applied.config) {
            Ok(data) => data.filter(|data| settings::digest_of(data) == applied.digest)?,
            Err(error) => {
                tracing::warn!(%error, "ConfigMap not read, the node is compared later");
                return None;
            }
        };
        plan::differing(self.host, &data)
            .inspect_err(|refusal| tracing::warn!(reason = refusal.message, "the node is compared later"))
            .ok()
    }

    /// How long to wait before the next call of [`Self::reconcile`], unless the spec changes.
    pub fn delay(&self, next: NextStep) -> Duration {
        match next {
            NextStep::Continue => Duration::ZERO,
            NextStep::Wait => Duration::from_secs(1),
            NextStep::Idle => self.check_interval,
        }
    }

    /// The plan for a configuration that the programs of the node accept.
    fn check(&self, desired: &ConfigId, data: &BTreeMap<String, String>) -> Result<(Layout, ChangePlan), Refusal> {
        let digest = settings::digest_of(data);
        if digest != desired.digest {
            let wrong = format!("ConfigMap {} has the digest {digest}, not that of the spec", desired.config);
            return Err(refuse(
                RefusalReason::DigestDiffers,
                wrong,
                "Delete the ConfigMap, and the operator creates it again",
            ));
        }
        diversions::check(&allowed::check(data)?, &self.allowances)?;
        let (layout, plan) = plan::plan(self.host, data)?;
        preflight::preflight(self.host, &layout, &plan)?;
        Ok((layout, plan))
    }

    fn report(&mut self, desired: &ConfigId) -> io::Result<()> {
        let system_uuid = self.system_uuid.clone();
        let status = report::status(self.cycle.journal(), desired, &self.observed);
        let facts = self.facts.as_ref().map(|(read, _)| read.facts.clone());
        let diagnosis = self.diagnosis.clone();
        let status = WindowsNodeConfigStatus { system_uuid, facts, diagnosis, ..status };
        if self.reported.as_ref() == Some(&status) {
            return Ok(());
        }
        self.source.report(&status)?;
        let WindowsNodeConfigStatus { phase, reason, message, .. } = &status;
        tracing::info!(config = desired.config, phase = phase.name(), reason, message, "reported");
        self.reported = Some(status);
        Ok(())
    }
}

fn config_id(spec: &WindowsNodeConfigSpec) -> ConfigId {
    ConfigId { config: spec.config.clone(), digest: spec.digest.clone(), attempt: spec.attempt }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use winpool_api::{Disruption, NodeConfigPhase};

    use super::*;
    use crate::{
        cycle::{PodPhase, PodsError},
        host::RegistryKey,
        tests::{
            fake::{FakeHost, data, output},
            layouts,
        },
    };

    /// What a kubelet prints that accepts its configuration and has no API server.
    const ACCEPTED: &str = "failed to run Kubelet: no client provided, cannot use webhook authentication\n";

    /// An API server with one ConfigMap, and the statuses that were written.
    #[derive(Default)]
    struct FakeSource {
        data: RefCell<BTreeMap<String, String>>,
        labels: BTreeMap<String, String>,
        reported: RefCell<Vec<WindowsNodeConfigStatus>>,
    }

    impl FakeSource {
        fn with(data: BTreeMap<String, String>) -> Self {
            Self { data: data.into(), ..Self::default() }
        }

        fn last(&self) -> WindowsNodeConfigStatus {
            self.reported.borrow().last().cloned().unwrap()
        }

        /// The phases that were written one after the other, with their reasons.
        fn phases(&self) -> Vec<(NodeConfigPhase, String)> {
            let mut phases: Vec<_> =
                self.reported.borrow().iter().map(|status| (status.phase, status.reason.clone())).collect();
            phases.dedup();
            phases
        }
    }

    impl Cluster for FakeSource {
        fn lease_renewed(&self) -> io::Result<Option<Timestamp>> {
            Ok(None)
        }

        fn pods(&self, _: &[u8]) -> Result<BTreeMap<String, PodPhase>, PodsError> {
            Ok(BTreeMap::new())
        }

        fn kubelet_config(&self) -> Option<serde_json::Value> {
            None
        }
    }

    impl Source for FakeSource {
        fn config(&self, _: &str) -> io::Result<Option<BTreeMap<String, String>>> {
            Ok(Some(self.data.borrow().clone()))
        }

        fn node_labels(&self) -> io::Result<BTreeMap<String, String>> {
            Ok(self.labels.clone())
        }

        fn report(&self, status: &WindowsNodeConfigStatus) -> io::Result<()> {
            self.reported.borrow_mut().push(status.clone());
            Ok(())
        }

        fn time(&self) -> Option<Timestamp> {
            None
        }
    }

    fn files(max_pods: u32) -> BTreeMap<String, String> {
        data(&[("kubelet.yaml", &format!("maxPods: {max_pods}\n"))])
    }

    fn worker<'a>(host: &'a FakeHost, source: &'a FakeSource) -> Worker<'a> {
        Worker::resume(host, source, Limits::default(), CHECK_INTERVAL).unwrap()
    }

    fn spec() -> WindowsNodeConfigSpec {
        WindowsNodeConfigSpec {
            pool: "web".into(),
            node_uid: "u".into(),
            config: "web-1".into(),
            digest: settings::digest_of(&files(42)),
            disruption: Disruption::KubeletRestart,
            attempt: 1,
            confirmed: None,
            confirm_timeout: "5m".into(),
            assigned_at: Time(Timestamp::UNIX_EPOCH),
            diagnose: None,
        }
    }

    #[test]
    fn a_managed_node_group_of_eks_is_told_by_the_label_of_the_node_or_by_the_flags_of_the_kubelet() {
        let label = "eks.amazonaws.com/nodegroup";
        let self_managed = "alpha.eksctl.io/nodegroup-name";
        let in_flags = "--node-labels=eks.amazonaws.com/nodegroup=web";
        let table = [
            ("", "", NodeConfigPhase::Applying, "eks"),
            (self_managed, "", NodeConfigPhase::Applying, "eks"),
            (self_managed, "--node-labels=alpha.eksctl.io/nodegroup-name=web", NodeConfigPhase::Applying, "eks"),
            // The AMI is the user's: the arguments of the kubelet are those of the launch template, without the label.
            (label, "", NodeConfigPhase::Applying, "eks-managed"),
            (label, "--node-labels=team=web", NodeConfigPhase::Applying, "eks-managed"),
            // The AMI is that of EKS, whose bootstrap passes the label.
            (label, in_flags, NodeConfigPhase::Refused, ""),
            // Before EKS has set the label, or on a Node from which it was removed.
            ("", in_flags, NodeConfigPhase::Refused, ""),
        ];
        for (label, flags, phase, layout) in table {
            let mut host = layouts::eks(flags);
            host.0.get_mut().programs.push(("kubelet.exe", "--config", output(1, "", ACCEPTED)));
            let labels = BTreeMap::from([(label.to_owned(), "web".to_owned())]);
            let source = FakeSource { labels, ..FakeSource::with(files(42)) };
            let mut worker = worker(&host, &source);
            worker.reconcile(Some(&spec()));
            let reported = source.last();
            assert_eq!((reported.phase, reported.layout.as_str()), (phase, layout), "{label} {flags}");
        }
    }

    #[test]
    fn a_refusal_stays_in_the_status_until_the_configuration_has_the_digest_of_the_spec() {
        let (host, source) = (FakeHost::new("", []), FakeSource::with(files(99)));
        let mut worker = worker(&host, &source);
        let spec = spec();
        for _ in 0..3 {
            assert_eq!(worker.reconcile(Some(&spec)), NextStep::Wait, "it is checked again soon");
        }
        let refused = |reason: &str| (NodeConfigPhase::Refused, reason.to_owned());
        let checked = (NodeConfigPhase::Preflight, String::new());
        assert_eq!(source.phases(), [checked.clone(), refused("DigestDiffers")]);

        // The simulated host has no kubelet that the agent can configure.
        source.data.replace(files(42));
        for _ in 0..3 {
            assert_eq!(worker.reconcile(Some(&spec)), NextStep::Idle, "it is checked again after some time");
        }
        assert_eq!(source.phases(), [checked, refused("DigestDiffers"), refused("UnknownLayout")]);
        assert_eq!(worker.journal(), &Journal::default());
    }

    #[test]
    fn a_configuration_with_a_mirror_is_refused_unless_the_agent_itself_allows_the_host() {
        let data = data(&[("hosts.mcr.microsoft.com.toml", "[host.'https://mirror.example']\n")]);
        let spec = WindowsNodeConfigSpec { digest: settings::digest_of(&data), ..spec() };
        for (entry, reason) in [("other.example", "NotAllowed"), ("mirror.example", "UnknownLayout")] {
            // The simulated host has no kubelet that the agent can configure.
            let (host, source) = (FakeHost::new("", []), FakeSource::with(data.clone()));
            let hosts = vec![entry.parse().unwrap()];
            worker(&host, &source).allowing(Allowances { hosts, ..Allowances::default() }).reconcile(Some(&spec));
            assert_eq!(source.phases().last(), Some(&(NodeConfigPhase::Refused, reason.to_owned())), "{entry}");
        }
    }

    #[test]
    fn an_applied_configuration_that_is_assigned_again_is_applied_only_on_a_node_that_was_compared() {
        // The simulated host has no kubelet that the agent can configure, so that it cannot be compared either.
        let (host, source) = (FakeHost::new("", []), FakeSource::with(files(42)));
        let unconfirmed = spec();
        let applied = Journal { applied: Some(config_id(&unconfirmed)), ..Journal::default() };
        applied.save(&host).unwrap();
        let mut worker = worker(&host, &source);
        for _ in 0..3 {
            assert_eq!(worker.reconcile(Some(&unconfirmed)), NextStep::Idle);
        }
        let refused = (NodeConfigPhase::Refused, "UnknownLayout".to_owned());
        assert_eq!(source.phases(), [(NodeConfigPhase::Preflight, String::new()), refused]);

        let confirmed = WindowsNodeConfigSpec { confirmed: Some(unconfirmed.digest.clone()), ..unconfirmed };
        worker.reconcile(Some(&confirmed));
        assert_eq!(source.phases().last(), Some(&(NodeConfigPhase::Applied, String::new())));
        assert_eq!(worker.journal(), &applied);
    }

    #[test]
    fn facts_are_read_while_the_node_is_idle_and_written_when_they_change() {
        let (host, source) = (FakeHost::new("", []), FakeSource::with(files(42)));
        let confirmed = WindowsNodeConfigSpec { confirmed: Some(spec().digest), ..spec() };
        Journal { applied: Some(config_id(&confirmed)), ..Journal::default() }.save(&host).unwrap();
        let mut worker = worker(&host, &source);
        let mut after = |minutes: u64, key: &'static str| {
            host.sleep(Duration::from_secs(60 * minutes));
            if !key.is_empty() {
                host.0.borrow_mut().registry.insert(key.to_owned(), RegistryKey::default());
            }
            assert_eq!(worker.reconcile(Some(&confirmed)), NextStep::Idle);
            source.reported.borrow().iter().map(|status| status.facts.as_ref()?.reboot_pending).collect::<Vec<_>>()
        };
        let pending = r"SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired";
        // The status comes first, because reading takes time.
        assert_eq!(after(0, ""), [None, Some(false)]);
        assert_eq!(after(5, pending), [None, Some(false)], "facts are read every 10 minutes");
        assert_eq!(after(6, ""), [None, Some(false), Some(true)]);
        for _ in 0..6 {
            assert_eq!(after(11, "").len(), 3, "nothing is written while nothing changes");
        }
    }

    fn requested(minute: Option<i64>) -> WindowsNodeConfigSpec {
        let at = minute.map(|minute| Time(Timestamp::from_second(60 * minute).unwrap()));
        WindowsNodeConfigSpec { diagnose: at, ..spec() }
    }

    #[test]
    fn a_request_is_answered_once_and_the_answer_ends_with_it() {
        let (host, source) = (FakeHost::new("", []), FakeSource::with(files(42)));
        let mut worker = worker(&host, &source);
        for (minute, answered, readings) in
            [(None, None, 0), (Some(1), Some(60), 1), (Some(1), Some(60), 1), (Some(2), Some(120), 2), (None, None, 2)]
        {
            worker.reconcile(Some(&requested(minute)));
            let last = source.last().diagnosis.map(|diagnosis| diagnosis.requested_at.0.as_second());
            let scripts = host.0.borrow().runs.iter().filter(|run| run.contains("Get-HnsNetwork")).count();
            assert_eq!((last, scripts), (answered, readings), "{minute:?}");
        }
    }

    #[test]
    fn a_node_is_not_read_for_a_diagnosis_while_it_is_changed() {
        let mut host = layouts::eks("");
        host.0.get_mut().programs.push(("kubelet.exe", "--config", output(1, "", ACCEPTED)));
        let source = FakeSource::with(files(42));
        let mut worker = worker(&host, &source);
        worker.reconcile(Some(&requested(Some(1))));
        let last = source.last();
        assert_eq!((last.phase, last.diagnosis), (NodeConfigPhase::Applying, None));
    }
}
