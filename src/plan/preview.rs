//! The data of a plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use winpool_api::{
    Taint,
    conditions::{KNOWN_ISSUES, Next, Role, condition_type},
    names::reason,
};
use winpool_check::{
    add_ons::AddOnFit,
    migrate::MigrationPlanner,
    upgrade::{self, AffectedNodes},
};
use winpool_core::{node::WindowsNode, text::counted};
use winpool_facts::{Minor, add_ons::Fit};
use winpool_rules::{
    operation::{Done, Outcome, Write},
    pool::{
        Consents, Pool, Snapshot,
        delivery::{self, PlannedRestart},
        plan::{ActivePool, Plan, Planner},
        stranding::Remedy,
    },
    status::{
        overview::workloads,
        pool::{rendering, report},
    },
};
use winpool_workload::WorkloadName;

use super::kube_proxy::{KubeProxyPreview, PresentKubeProxy};
use crate::migrate::do_not_fit;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    pub pools: Vec<PoolPreview>,
    pub nodes_in_no_pool: Vec<String>,
    /// The issues of the upgrade, if one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradePreview>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolPreview {
    pub name: String,
    /// Whether the operator writes for the pool.
    pub writes: WriteMode,
    pub changes: Vec<PlannedChange>,
    /// What would be written with `mode: Enforce`.
    pub withheld: Vec<PlannedChange>,
    /// What the agents of the nodes would restart, node after node within the limits of the rollout.
    pub restarts: Vec<PlannedRestart>,
    /// Whether the add-ons fit its nodes, worst first; with the requested upgrade, after it. Those that fit are left out.
    pub add_ons: Vec<AddOnFit>,
    /// What is not applied of `spec.kubeProxy`.
    pub kube_proxy: KubeProxyPreview,
    /// The settings that this version of winpool renders differently, and that existing nodes and machines keep.
    pub kept: Vec<String>,
    /// The annotations with consents that are spent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spent_consents: Vec<&'static str>,
    /// What to write in workloads before new taints can be added.
    pub workloads: Vec<WorkloadChange>,
    /// The required conditions that would be False.
    pub held: Vec<ConditionPreview>,
    /// The conditions that report problems of the nodes.
    pub flags: Vec<ConditionPreview>,
}

/// Whether the operator writes for a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum WriteMode {
    Enforce,
    Observe,
    Deleting,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedChange {
    pub kind: String,
    pub name: String,
    pub change: String,
}

/// What to write in a workload so that it tolerates a new taint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkloadChange {
    /// The kind, namespace and name of the workload.
    pub workload: String,
    pub taint: String,
    pub change: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConditionPreview {
    pub condition: String,
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradePreview {
    pub kubernetes: String,
    pub from: Option<String>,
    /// The issues: first what breaks, then what only changes.
    pub findings: Vec<UpgradeFinding>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpgradeFinding {
    pub pool: Option<String>,
    #[serde(flatten)]
    pub issue: AffectedNodes,
}

impl Preview {
    /// Plans these pools of a snapshot, or all and nodes without a pool, and an upgrade to `target`.
    pub fn new(
        snapshot: &Snapshot,
        names: &BTreeSet<String>,
        target: Option<Minor>,
        kube_proxy: &PresentKubeProxy,
    ) -> Self {
        let planner = Planner::new(snapshot);
        let in_no_pool: Vec<&WindowsNode> = planner.unassigned().filter(|_| names.is_empty()).collect();
        let is_requested = |name: &str| names.is_empty() || names.contains(name);
        let plans = snapshot.pools.names().filter(|name| is_requested(name)).filter_map(|name| planner.plan(name));
        let workloads = MigrationPlanner::of(snapshot);
        let minor = target.or(snapshot.api_server);
        let add_ons = |pool: &str| workloads.as_ref().map(|all| all.add_ons(pool, minor)).unwrap_or_default();
        let preview = |plan: Plan| PoolPreview::new(snapshot, &plan, kube_proxy, add_ons(&plan.pool.name));
        Self {
            pools: plans.map(preview).collect(),
            nodes_in_no_pool: in_no_pool.iter().map(|node| node.name.clone()).collect(),
            upgrade: target.map(|target| UpgradePreview {
                kubernetes: target.to_string(),
                from: snapshot.api_server.map(|minor| minor.to_string()),
                findings: upgrade_findings(snapshot, &planner, &is_requested, &in_no_pool, target),
            }),
        }
    }

    /// Keeps the pools that are given and those whose plan differs from another one, and of their problems those that it does not have.
    pub fn retain_changed(&mut self, before: &Self, is_given: impl Fn(&str) -> bool) {
        self.pools.retain_mut(|pool| {
            let same = before.pools.iter().find(|same| same.name == pool.name);
            let differs = same != Some(&*pool);
            if let Some(same) = same {
                pool.flags.retain(|flag| !same.flags.contains(flag));
                pool.add_ons.retain(|one| !same.add_ons.contains(one));
            }
            differs || is_given(&pool.name)
        });
        if self.nodes_in_no_pool == before.nodes_in_no_pool {
            self.nodes_in_no_pool.clear();
        }
    }

    /// What would change or break, in one line; `None` if nothing.
    pub fn summary(&self) -> Option<String> {
        let changed = self.pools.iter().filter(|pool| !pool.changes.is_empty()).count();
        let held = self.pools.iter().filter(|pool| !pool.held.is_empty()).count();
        let findings = self.upgrade.iter().flat_map(|upgrade| &upgrade.findings);
        let breaking = findings.filter(|finding| finding.issue.breaks).count();
        let add_ons: Vec<_> = self.pools.iter().flat_map(|pool| &pool.add_ons).cloned().collect();
        let parts = [
            (changed > 0).then(|| format!("{} would change", counted(changed, "pool"))),
            (held > 0).then(|| format!("{} would not be as specified", counted(held, "pool"))),
            (breaking > 0).then(|| format!("the upgrade has {}", counted(breaking, "breaking issue"))),
            do_not_fit(&add_ons).filter(|_| self.upgrade.is_some()),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl PoolPreview {
    fn new(snapshot: &Snapshot, plan: &Plan, kube_proxy: &PresentKubeProxy, mut add_ons: Vec<AddOnFit>) -> Self {
        add_ons.retain(|one| one.fit != Fit::Fits);
        let results = plan.steps.iter().flatten().map(|operation| (operation.clone(), Outcome::Done)).collect();
        let done = Done { results, complete: true };
        let conditions = report(snapshot, &plan.clone().with_outcomes(&done), &done).status.conditions;
        let problems = |roles: &[Role]| -> Vec<ConditionPreview> {
            let of_roles = |one: &&Condition| role_of_problem(one).is_some_and(|role| roles.contains(&role));
            conditions.iter().filter(of_roles).map(Into::into).collect()
        };
        Self {
            name: plan.pool.name.clone(),
            writes: WriteMode::of(&plan.pool),
            held: problems(&[Role::Required]),
            flags: problems(&[Role::Delivery, Role::Flag]),
            changes: plan.steps.iter().flatten().filter_map(PlannedChange::of).collect(),
            kept: plan.active().map(|active| rendering::pending(snapshot, active)).unwrap_or_default(),
            spent_consents: spent_consents(plan),
            workloads: plan.active().map(workload_changes).unwrap_or_default(),
            withheld: plan.withheld.iter().filter_map(PlannedChange::of).collect(),
            restarts: delivery::restarts(snapshot, plan),
            add_ons,
            kube_proxy: KubeProxyPreview::new(snapshot, plan, kube_proxy),
        }
    }
}

fn spent_consents(plan: &Plan) -> Vec<&'static str> {
    let enforced = plan.active().zip(plan.pool.spec.as_ref().ok()).filter(|_| plan.pool.enforces());
    enforced.map(|(active, spec)| Consents::spent(&plan.pool, spec, active)).unwrap_or_default()
}

/// The role of a condition that the plan shows; `None` if it reports no problem. What is withheld is listed separately, and no plan
/// changes the versions on which known issues depend.
fn role_of_problem(condition: &Condition) -> Option<Role> {
    let of = condition_type(&condition.type_).filter(|of| of.name != KNOWN_ISSUES.name)?;
    let next = of.reason(&condition.reason).map(|row| row.next);
    let is_shown = of.is_problem(&condition.status, &condition.reason)
        || next == Some(Next::Proceeds)
        || condition.reason == reason::TABLES_END_AT;
    // A required condition that holds only warns.
    let warns = of.role == Role::Required && condition.status == "True";
    is_shown.then_some(if warns { Role::Flag } else { of.role })
}

impl From<&Condition> for ConditionPreview {
    fn from(Condition { type_, reason, message, .. }: &Condition) -> Self {
        Self { condition: type_.clone(), reason: reason.clone(), message: message.clone() }
    }
}

fn workload_changes(active: &ActivePool) -> Vec<WorkloadChange> {
    let of_taint = |(taint, workloads): (&Taint, &BTreeMap<Arc<WorkloadName>, Remedy>)| {
        let change = |(name, remedy): (&Arc<WorkloadName>, &Remedy)| WorkloadChange {
            workload: name.to_string(),
            taint: taint.to_string(),
            change: remedy.instruction(taint),
        };
        workloads.iter().map(change).collect::<Vec<_>>()
    };
    active.taints.workloads.iter().flat_map(of_taint).collect()
}

impl WriteMode {
    fn of(pool: &Pool) -> Self {
        match &pool.spec {
            _ if pool.deleting => Self::Deleting,
            Ok(_) if !pool.enforces() => Self::Observe,
            _ => Self::Enforce,
        }
    }
}

impl PlannedChange {
    /// The change of a write; `None` for finalizers and status.
    fn of(write: &Write) -> Option<Self> {
        let (kind, name) = (write.object.kind.to_string(), write.object.key().into_owned());
        Some(Self { kind, name, change: write.description()? })
    }
}

/// The issues of all nodes: what breaks first, then what only changes.
fn upgrade_findings(
    snapshot: &Snapshot,
    planner: &Planner,
    is_requested: &dyn Fn(&str) -> bool,
    in_no_pool: &[&WindowsNode],
    target: Minor,
) -> Vec<UpgradeFinding> {
    // Which known issues begin may depend on the pods of a pool.
    let indexed = snapshot.pods.is_some().then(|| Snapshot { workloads: workloads(snapshot), ..snapshot.clone() });
    let snapshot = indexed.as_ref().unwrap_or(snapshot);
    let findings_of = |pool: Option<&Pool>, nodes: &[&WindowsNode]| {
        let finding = |issue| UpgradeFinding { pool: pool.map(|pool| pool.name.clone()), issue };
        upgrade::issues(snapshot, pool, nodes, target).into_iter().map(finding).collect::<Vec<_>>()
    };
    let pools = snapshot.pools.values().filter(|pool| !pool.deleting && is_requested(&pool.name));
    let mut findings: Vec<_> =
        pools.flat_map(|pool| findings_of(Some(pool), &planner.members(&pool.name).collect::<Vec<_>>())).collect();
    findings.extend(findings_of(None, in_no_pool));
    findings.sort_by_key(|finding| !finding.issue.breaks);
    findings
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use winpool_api::conditions::{
        CONFIG_IN_EFFECT, CONFIG_RENDERED, MACHINES_TEMPLATED, NODES_TAINTED, OS_MISMATCH, WORKLOADS_PLACED,
    };

    use super::*;

    #[test]
    fn a_plan_shows_the_problems_of_every_condition_by_its_role_and_not_what_is_withheld() {
        let table = [
            (&NODES_TAINTED, reason::TAINT_CONFLICT, Some(Role::Required)),
            (&NODES_TAINTED, reason::APPLIED, None),
            (&NODES_TAINTED, reason::OBSERVING, None),
            (&NODES_TAINTED, reason::OPEN_TO_LINUX_PODS, Some(Role::Flag)),
            (&CONFIG_RENDERED, reason::TABLES_END_AT, Some(Role::Flag)),
            (&OS_MISMATCH, reason::NODE_BUILD_DIFFERS, Some(Role::Flag)),
            (&OS_MISMATCH, reason::UNKNOWN_VERSION, None),
            (&CONFIG_IN_EFFECT, reason::ROLLING_OUT, Some(Role::Delivery)),
            (&MACHINES_TEMPLATED, reason::TOPOLOGY_MANAGED, Some(Role::Delivery)),
            (&WORKLOADS_PLACED, reason::LINUX_POD_MAY_LAND, Some(Role::Flag)),
            (&KNOWN_ISSUES, reason::SEVERE_ISSUES, None),
        ];
        for (of, reason, expected) in table {
            let computed = of.because(reason, "");
            let condition = Condition {
                type_: of.name.to_owned(),
                status: computed.status.name().to_owned(),
                reason: reason.to_owned(),
                message: String::new(),
                observed_generation: None,
                last_transition_time: Time(Timestamp::UNIX_EPOCH),
            };
            assert_eq!(role_of_problem(&condition), expected, "{}/{reason}", of.name);
        }
    }
}
