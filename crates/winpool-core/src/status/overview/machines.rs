//! What MachineDeployments, MachinePools and MachineSets of Cluster API report.

use kube::core::DynamicObject;
use serde::Deserialize;
use serde_json::Value;
use winpool_api::{
    conditions::{Harm, Subject},
    facts::cluster_api::{DEPLOYMENT_NAME, is_problem},
};

use super::PoolProblem;
use crate::{kind::Kind, pool::Pool};

/// The places of conditions: of the version of the object, and, in v1beta1, of v1beta2.
const CONDITIONS: [&str; 2] = ["/status/conditions", "/status/v1beta2/conditions"];
/// The severity of a condition of v1beta1 that is no problem.
const INFO: &str = "Info";

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

/// A condition of either version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MachineCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
    severity: String,
}

impl MachineObject {
    pub const KINDS: [Kind; 3] = [Kind::MACHINE_DEPLOYMENT, Kind::MACHINE_POOL, Kind::MACHINE_SET];

    /// Reads an object of either version.
    pub fn from_object(kind: Kind, object: &DynamicObject) -> Self {
        let metadata = &object.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        let labels = metadata.labels.as_ref().filter(|_| kind == Kind::MACHINE_SET);
        let group = labels.and_then(|labels| labels.get(DEPLOYMENT_NAME)).unwrap_or(&name).clone();
        let listed = CONDITIONS.into_iter().filter_map(|place| object.data.pointer(place)?.as_array()).flatten();
        let mut problems: Vec<MachineCondition> = Vec::new();
        for condition in listed.filter_map(|condition: &Value| MachineCondition::deserialize(condition).ok()) {
            // In v1beta1, the summary Ready repeats the message of another condition.
            let is_repeated = problems.iter().any(|known| known.message == condition.message);
            if is_problem(&condition.kind, &condition.status, &condition.message)
                && condition.severity != INFO
                && !is_repeated
            {
                problems.push(condition);
            }
        }
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
    objects.iter().filter(is_of_pool).flat_map(|object| object.problems.iter().map(|found| problem(object, found)))
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
