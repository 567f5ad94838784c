//! What MachineDeployments, MachinePools and MachineSets of Cluster API report.

use kube::core::DynamicObject;
use serde::Deserialize;
use winpool_api::conditions::{Harm, Subject};
use winpool_core::kind::Kind;
use winpool_facts::cluster_api::{DEPLOYMENT_NAME, is_problem};

use super::PoolProblem;
use crate::pool::Pool;

/// A MachineDeployment, MachinePool or MachineSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineObject {
    kind: Kind,
    namespace: String,
    name: String,
    /// The MachineDeployment or MachinePool.
    group: String,
    problems: Vec<MachineCondition>,
}

/// A condition of such an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct MachineCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
}

impl MachineObject {
    pub const KINDS: [Kind; 3] = [Kind::MACHINE_DEPLOYMENT, Kind::MACHINE_POOL, Kind::MACHINE_SET];

    /// Reads an object.
    pub fn from_object(kind: Kind, object: &DynamicObject) -> Self {
        let metadata = &object.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        let labels = metadata.labels.as_ref().filter(|_| kind == Kind::MACHINE_SET);
        let group = labels.and_then(|labels| labels.get(DEPLOYMENT_NAME)).unwrap_or(&name).clone();
        let listed = object.data["status"]["conditions"].as_array().into_iter().flatten();
        let problems = listed
            .filter_map(|condition| MachineCondition::deserialize(condition).ok())
            .filter(|condition| is_problem(&condition.kind, &condition.status, &condition.message))
            .collect();
        Self { kind, namespace: metadata.namespace.clone().unwrap_or_default(), name, group, problems }
    }
}

/// The problems of the objects of a pool.
pub fn problems(pool: &Pool, objects: &[MachineObject]) -> impl Iterator<Item = PoolProblem> {
    let status = pool.status.cluster_api.as_ref();
    let is_of_pool = move |object: &&MachineObject| {
        status.is_some_and(|status| {
            status.namespace == object.namespace && status.groups.iter().any(|group| group.name == object.group)
        })
    };
    let of_pool = objects.iter().filter(is_of_pool);
    of_pool.flat_map(|object| {
        object.problems.iter().filter(|found| !is_of_group(objects, object, found)).map(|found| problem(object, found))
    })
}

/// Whether the MachineDeployment of a MachineSet says the same, as it does when the cluster is paused or machines are not ready.
fn is_of_group(objects: &[MachineObject], object: &MachineObject, found: &MachineCondition) -> bool {
    let is_group = |other: &&MachineObject| {
        other.kind != object.kind && (&other.namespace, &other.name) == (&object.namespace, &object.group)
    };
    let mut of_groups = objects.iter().filter(is_group).flat_map(|group| &group.problems);
    of_groups.any(|other| (&other.kind, &other.message) == (&found.kind, &found.message))
}

fn problem(object: &MachineObject, found: &MachineCondition) -> PoolProblem {
    let MachineObject { kind, namespace, name, .. } = object;
    let MachineCondition { kind: condition, reason, message, .. } = found;
    PoolProblem {
        object: Some(format!("{kind} {namespace}/{name}")),
        commands: vec![format!("kubectl -n {namespace} describe {}.{} {name}", kind.plural, kind.group)],
        ..PoolProblem::new((condition, reason, message.clone()), Harm::NotApplied, Subject::Machines)
    }
}
