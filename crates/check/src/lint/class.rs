//! RuntimeClasses that nothing in the manifests defines.

use winpool_core::text::did_you_mean;
use winpool_facts::builds;
use winpool_workload::{Template, placement::Unschedulable};

use super::{Code, Finding, LintContext, context::PodPlacement};

/// How the classes begin that winpool creates for a pool that names none.
const PREFIX: &str = "windows-";

/// A class with the name of one of ours that no manifest defines.
pub fn check(template: &Template, placement: &PodPlacement<'_>, context: &LintContext<'_>) -> Option<Finding> {
    let class = undefined(placement)?;
    let release = class.strip_prefix(PREFIX)?;
    let is_release = builds::names().any(|name| name.eq_ignore_ascii_case(release));
    let is_pattern = release.strip_prefix("ltsc").is_some_and(|year| year.parse::<u32>().is_ok());
    if !(is_release || is_pattern) || (is_release && !context.has_classes()) || template.node_name.is_some() {
        return None;
    }
    let expected = builds::names().map(|name| format!("{PREFIX}{}", name.to_lowercase()));
    let known: Vec<String> =
        context.classes().map(str::to_owned).chain(expected.filter(|_| !context.has_classes())).collect();
    let finding =
        Finding::new(Code::ClassUndefined, "runtimeClassName", format!("no manifest defines RuntimeClass {class}"));
    let similar = did_you_mean(class, known.iter().map(String::as_str));
    Some(finding.with_remedy(format!("{similar}{}", Code::ClassUndefined.row().entry.remedy)))
}

/// The class that no manifest defines.
pub fn undefined<'p>(placement: &'p PodPlacement<'_>) -> Option<&'p str> {
    match &placement.effective {
        Err(Unschedulable::RuntimeClassNotFound { class, .. }) => Some(class),
        _ => None,
    }
}
