//! RuntimeClasses that nothing in the manifests defines.

use winpool_core::text::{did_you_mean, misspelt};
use winpool_facts::builds;
use winpool_workload::{Template, placement::Unschedulable};

use super::{
    Code, Finding, LintContext,
    context::{DEFAULT_PREFIX, PodPlacement},
};

/// How many letters of a name may differ from that of a class which is meant.
const MAX_TYPOS: usize = 2;

/// A class with the name of one of ours that no manifest defines.
pub fn check(template: &Template, placement: &PodPlacement<'_>, context: &LintContext<'_>) -> Option<Finding> {
    let class = undefined(placement).filter(|_| template.node_name.is_none())?;
    let release = class.strip_prefix(DEFAULT_PREFIX).unwrap_or_default();
    let is_release = builds::names().any(|name| name.eq_ignore_ascii_case(release));
    let is_pattern = release.strip_prefix("ltsc").is_some_and(|year| year.parse::<u32>().is_ok());
    // Names such as windows-2004 differ by as little from others that are used.
    let known: Vec<String> = context.classes().map(str::to_owned).collect();
    let unmistakable = known.iter().map(String::as_str).filter(|known| known.contains("ltsc"));
    if !(is_release || is_pattern || misspelt(class, unmistakable, MAX_TYPOS)) {
        return None;
    }
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
