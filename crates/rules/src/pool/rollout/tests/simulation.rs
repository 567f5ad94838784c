//! A pool with simulated nodes and agents, and a clock.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use winpool_api::{
    ConfigReference, Disruption, DrainPolicy, DriftPolicy, NodeConfigPhase, NodeLimit, WindowsNodeConfigSpec,
    WindowsNodeConfigStatus, names::reason,
};
use winpool_core::node::Cordon;

use crate::pool::{
    maintenance::Maintenance,
    rollout::{Assigned, Cordoned, Desired, PodsToEvict, RolloutAction, RolloutNode, RolloutPlan, RolloutRules, plan},
};

pub const TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_780_000_000 + second).unwrap()
}

pub fn rules() -> RolloutRules {
    RolloutRules {
        max_unavailable: NodeLimit::Nodes(1),
        max_failures: 1,
        timeout: TIMEOUT,
        drain: DrainPolicy::Never,
        attempt: 1,
        paused: false,
        drift: DriftPolicy::Report,
    }
}

/// What an agent does with a configuration, and after how many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    Applies(i64),
    RollsBack(i64),
    Refuses(i64),
    /// It never reports, and its node stays Ready.
    Silent,
    /// It never reports, and its node is not Ready any more.
    Breaks(i64),
}

/// A node with its agent.
#[derive(Clone, Debug)]
pub struct Node {
    pub created: Timestamp,
    pub ready: bool,
    pub broken: bool,
    pub cordoned_by_others: bool,
    pub occupied: bool,
    pub cordon: Option<Cordon>,
    pub pods: u32,
    pub desired: &'static str,
    pub drain: bool,
    pub spec: Option<WindowsNodeConfigSpec>,
    pub status: WindowsNodeConfigStatus,
    pub agent: Agent,
}

impl Node {
    pub fn new(agent: Agent) -> Self {
        Self {
            created: at(-1000),
            ready: true,
            broken: false,
            cordoned_by_others: false,
            occupied: false,
            cordon: None,
            pods: 0,
            desired: "new",
            drain: false,
            spec: None,
            status: WindowsNodeConfigStatus::default(),
            agent,
        }
    }

    pub fn assign(&mut self, digest: &str, attempt: u32, now: Timestamp) {
        self.spec = Some(WindowsNodeConfigSpec {
            pool: "web".into(),
            node_uid: "u".into(),
            config: format!("web-{digest}"),
            digest: digest.to_owned(),
            disruption: Disruption::KubeletRestart,
            attempt,
            confirmed: None,
            confirm_timeout: "5m".into(),
            assigned_at: Time(now),
            diagnose: None,
        });
    }

    pub fn report(&mut self, phase: NodeConfigPhase) {
        let spec = self.spec.as_ref().unwrap();
        self.status.phase = phase;
        self.status.reason = "Why".into();
        (self.status.observed_digest, self.status.observed_attempt) = (spec.digest.clone(), spec.attempt);
        if phase == NodeConfigPhase::Applied {
            self.status.applied = Some(ConfigReference { config: spec.config.clone(), digest: spec.digest.clone() });
        }
    }

    /// The node runs a confirmed configuration.
    pub fn running(mut self, digest: &str) -> Self {
        self.assign(digest, 1, at(-500));
        self.confirm();
        self.report(NodeConfigPhase::Applied);
        self
    }

    /// Something else has changed the node, if its agent has nothing to do.
    pub fn change(&mut self) {
        if self.spec.as_ref().is_some_and(|spec| self.runs(&spec.digest) && self.status.is_about(spec)) {
            self.status.reason = reason::CHANGED_ON_NODE.into();
        }
    }

    pub fn is_changed(&self) -> bool {
        self.status.reason == reason::CHANGED_ON_NODE
    }

    pub fn confirm(&mut self) {
        let spec = self.spec.as_mut().unwrap();
        spec.confirmed = Some(spec.digest.clone());
    }

    pub fn is_ready(&self) -> bool {
        self.ready && !self.broken
    }

    pub fn view<'a>(&'a self, name: &'a str) -> RolloutNode<'a> {
        RolloutNode {
            name,
            created: Some(self.created),
            ready: self.is_ready(),
            occupied: self.occupied,
            cordoned: match (&self.cordon, self.cordoned_by_others) {
                (Some(cordon), _) if !cordon.released => Cordoned::ByOperator(cordon),
                (_, true) => Cordoned::ByOthers,
                (_, false) => Cordoned::No,
            },
            released: self.cordon.as_ref().filter(|cordon| cordon.released),
            desired: (!self.desired.is_empty()).then_some(Desired {
                config: self.desired,
                digest: self.desired,
                restart: Disruption::KubeletRestart,
                drain: self.drain,
            }),
            assigned: self.spec.as_ref().map(|spec| Assigned { spec, status: &self.status }),
            verified: !self.is_changed(),
            pods: if self.pods > 0 { PodsToEvict::Some } else { PodsToEvict::None },
            takers: None,
        }
    }

    /// Carries out an action of the operator.
    pub fn apply(&mut self, action: RolloutAction, rules: &RolloutRules, now: Timestamp) {
        match action {
            RolloutAction::Cordon => {
                self.cordon =
                    Some(Cordon { config: self.desired.into(), attempt: rules.attempt, since: now, released: false });
            }
            RolloutAction::Evict => self.pods = self.pods.saturating_sub(1),
            RolloutAction::Assign(_) => self.assign(self.desired, rules.attempt, now),
            RolloutAction::Confirm => self.confirm(),
            RolloutAction::Uncordon => self.cordon = None,
            RolloutAction::Release => self.cordon.as_mut().unwrap().released = true,
            RolloutAction::RecordAttempt => self.spec.as_mut().unwrap().attempt = rules.attempt,
        }
    }

    /// What the agent does until now.
    pub fn act(&mut self, now: Timestamp) {
        let Some(spec) = self.spec.clone() else { return };
        let is_repeated = self.is_changed() && !spec.is_confirmed();
        if self.status.is_about(&spec) && self.status.phase != NodeConfigPhase::Verifying && !is_repeated {
            return;
        }
        let age = now.duration_since(spec.assigned_at()).as_secs();
        match self.agent {
            Agent::Applies(_) if spec.is_confirmed() => {
                self.broken = false;
                self.report(NodeConfigPhase::Applied);
            }
            Agent::Applies(after) if age >= after => self.report(NodeConfigPhase::Verifying),
            Agent::RollsBack(after) if age >= after => self.report(NodeConfigPhase::RolledBack),
            Agent::Refuses(after) if age >= after => self.report(NodeConfigPhase::Refused),
            Agent::Breaks(after) if age >= after => self.broken = true,
            _ => {}
        }
    }

    /// Whether its desired configuration failed in this attempt.
    pub fn has_failed(&self, rules: &RolloutRules, now: Timestamp) -> bool {
        let drained = self.cordon.as_ref().is_none_or(|cordon| {
            !self.drain
                || cordon.config != self.desired
                || cordon.attempt < rules.attempt
                || now < cordon.since + TIMEOUT
        });
        let Some(spec) = &self.spec else { return !drained };
        if spec.digest != self.desired || spec.attempt < rules.attempt {
            return !drained && !self.is_changing(now);
        }
        let failed = [NodeConfigPhase::RolledBack, NodeConfigPhase::Refused].contains(&self.status.phase);
        self.status.is_about(spec) && failed || (!self.runs(&spec.digest) && now >= spec.assigned_at() + TIMEOUT)
    }

    pub fn runs(&self, digest: &str) -> bool {
        let confirmed = self.spec.as_ref().is_some_and(|spec| spec.digest == digest && spec.is_confirmed());
        confirmed && self.status.applied.as_ref().is_some_and(|applied| applied.digest == digest)
    }

    /// Whether its agent is at work.
    pub fn is_changing(&self, now: Timestamp) -> bool {
        let Some(spec) = &self.spec else { return false };
        let ended = [NodeConfigPhase::RolledBack, NodeConfigPhase::Refused].contains(&self.status.phase);
        !(self.runs(&spec.digest) || self.status.is_about(spec) && ended || now >= spec.assigned_at() + TIMEOUT)
    }

    /// Whether it is unavailable, or may become so because its agent works.
    pub fn is_occupied(&self, now: Timestamp) -> bool {
        let confirmed = self.spec.as_ref().is_some_and(WindowsNodeConfigSpec::is_confirmed);
        let changing = self.is_changing(now) && !confirmed;
        let cordoned = self.cordon.as_ref().is_some_and(|cordon| !cordon.released);
        !self.is_ready() || self.occupied || cordoned || self.cordoned_by_others || changing
    }
}

/// A pool with its nodes and a clock.
#[derive(Clone, Debug)]
pub struct Simulation {
    pub now: Timestamp,
    pub rules: RolloutRules,
    pub maintenance: Maintenance,
    pub nodes: BTreeMap<String, Node>,
}

impl Simulation {
    pub fn new(rules: RolloutRules, nodes: impl IntoIterator<Item = Node>) -> Self {
        let nodes = nodes.into_iter().enumerate().map(|(index, node)| (format!("win-{index}"), node)).collect();
        Self { now: at(0), rules, maintenance: Maintenance::Always, nodes }
    }

    pub fn plan(&self) -> RolloutPlan {
        let views: Vec<_> = self.nodes.iter().map(|(name, node)| node.view(name)).collect();
        plan(&self.rules, self.maintenance, &views, self.now)
    }

    pub fn apply(&mut self, (name, action): &(String, RolloutAction)) {
        self.nodes.get_mut(name).unwrap().apply(*action, &self.rules, self.now);
    }

    /// One reconcile, of which at most so many actions are written; then the agents act and time passes.
    pub fn step(&mut self, written: usize, seconds: i64) -> RolloutPlan {
        let plan = self.plan();
        plan.actions.iter().take(written).for_each(|action| self.apply(action));
        self.now += SignedDuration::from_secs(seconds);
        let now = self.now;
        self.nodes.values_mut().for_each(|node| node.act(now));
        plan
    }

    /// Reconciles for an hour at most, until nothing changes.
    pub fn converge(&mut self) -> RolloutPlan {
        for _ in 0..3600 {
            let plan = self.step(usize::MAX, 1);
            if plan.actions.is_empty() && plan.next.is_none() {
                return plan;
            }
        }
        self.plan()
    }

    pub fn occupied(&self) -> usize {
        self.nodes.values().filter(|node| node.is_occupied(self.now)).count()
    }

    pub fn failures(&self) -> usize {
        self.nodes.values().filter(|node| node.has_failed(&self.rules, self.now)).count()
    }
}
