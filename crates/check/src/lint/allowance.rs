//! What pools and profiles may do only if the configuration of the operator allows it.

use serde_json::Value;
use winpool_core::Problem;
use winpool_render::{allowances::Allowances, profile::diversions};
use winpool_rules::pool::check;

use super::{Code, Finding};

/// The labels of a pool that the operator must allow. An invalid pool has no findings.
pub fn pool(object: &Value) -> Vec<Finding> {
    let spec = check::spec("", object["spec"].clone());
    let labels = spec.iter().flat_map(|spec| spec.labels.keys());
    labels.filter_map(|key| Allowances::default().problem_of_label(key)).map(finding).collect()
}

/// The hosts of a profile that the operator must allow. An invalid profile has no findings.
pub fn profile(object: &Value) -> Vec<Finding> {
    let profile = check::profile(object["spec"].clone());
    let problems = profile.iter().flat_map(|profile| Allowances::default().problems(diversions(profile)));
    problems.map(finding).collect()
}

fn finding(Problem { path, wrong, remedy }: Problem) -> Finding {
    Finding::new(Code::NeedsAllowance, path, wrong).with_remedy(remedy)
}
