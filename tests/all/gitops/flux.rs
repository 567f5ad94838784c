//! The health check expressions for Flux in docs/gitops.md.
//!
//! Source: fluxcd/kustomize-controller, `docs/spec/v1/kustomizations.md` (Health check expressions): `inProgress`, `failed`
//! and `current` are evaluated in this order, and the first that is true decides.

use std::{fs, path::Path};

use kube::core::cel::cel::{Context, Program, Value as CelValue, to_value};
use serde_json::Value;

use winpool_model::kstatus::KStatus;

/// The expressions of a kind.
pub struct Expressions([(KStatus, Program); 3]);

impl Expressions {
    /// Those of WindowsNodePools.
    pub fn of_pools() -> Self {
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/gitops.md")).unwrap();
        let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let objects = blocks.flat_map(|block| serde_saphyr::from_multiple::<Value>(block).unwrap());
        let all: Vec<Value> =
            objects.filter_map(|object| object["spec"]["healthCheckExprs"].as_array().cloned()).flatten().collect();
        let of_pools = all.iter().find(|one| one["kind"] == "WindowsNodePool").unwrap();
        assert_eq!(of_pools["apiVersion"], "winpool.dev/v1alpha1");
        let program = |name: &str| Program::compile(of_pools[name].as_str().unwrap()).unwrap();
        Self([
            (KStatus::InProgress, program("inProgress")),
            (KStatus::Failed, program("failed")),
            (KStatus::Current, program("current")),
        ])
    }

    /// The status of an object; in progress if no expression is true.
    pub fn evaluate(&self, object: &Value) -> KStatus {
        let mut context = Context::default();
        for field in ["metadata", "spec", "status"] {
            context.add_variable_from_value(field, to_value(&object[field]).unwrap());
        }
        let holds = |(_, program): &&(KStatus, Program)| program.execute(&context).unwrap() == CelValue::Bool(true);
        self.0.iter().find(holds).map_or(KStatus::InProgress, |(status, _)| *status)
    }
}
