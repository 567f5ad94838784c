//! Checks manifests of workloads and Services for Windows nodes. Each finding has a stable code, the field, the reason
//! and the remedy.

mod code;
mod container;
mod context;
mod image;
mod lenient_spec;
mod placement;
pub mod pod;
mod selected_os;
mod service;
mod workload;

use std::fmt;

use serde_json::Value;

use crate::{
    domain::{
        is_within,
        workload::{System, Template},
    },
    facts::{ContainerRuntime, Minor},
};

pub use crate::domain::join;
pub use code::{Code, Severity, UnknownCode};
pub use context::{LintContext, LookupFn};
use workload::PodSpec;
pub use workload::Workload;

/// A problem of a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The field, such as `spec.template.spec.containers[0].image`.
    pub path: String,
    /// The kind of the finding.
    pub code: Code,
    /// The problem and the reason, in sentences.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl Finding {
    /// A finding with the reason and the remedy of its code.
    pub fn new(code: Code, path: impl Into<String>, problem: impl fmt::Display) -> Self {
        let message = format!("{problem}. {}", code.why());
        Self { path: path.into(), code, message, remedy: code.remedy().to_owned() }
    }

    /// A finding with its own reason and remedy.
    pub fn with_message(
        code: Code,
        path: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), code, message: message.into(), remedy: remedy.into() }
    }

    /// Replaces the remedy.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }

    /// Prefixes the path.
    #[must_use]
    pub fn below(self, path: &str) -> Self {
        Self { path: join(path, &self.path), ..self }
    }
}

/// The cluster that the manifests are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The minor of the API server, and of the nodes.
    pub minor: Minor,
    /// The container runtime of the Windows nodes.
    pub runtime: ContainerRuntime,
}

/// The findings of a workload.
pub fn workload(workload: &Workload<'_>, context: &LintContext<'_>) -> Vec<Finding> {
    let PodSpec { template, spec, mut findings } = workload.pod_spec();
    if let Some(template) = &template {
        let invalid: Vec<_> = findings.iter().map(|finding| finding.path.clone()).collect();
        let of_rules = check(workload, template, &spec, context);
        findings.extend(of_rules.into_iter().filter(|finding| !is_consequence(finding, &invalid)));
    }
    findings.sort();
    findings
}

/// Applies all rules to a pod spec.
fn check(workload: &Workload<'_>, template: &Template, spec: &Value, context: &LintContext<'_>) -> Vec<Finding> {
    let placement = context.placement(template);
    let mut findings = placement::check(workload, template, &placement, context);
    findings.extend(image::check(template, spec, &placement, context));
    if placement.is_windows() {
        findings.extend(pod::check(spec, context.target()));
        findings.extend(container::check(template, spec, context.target()));
    } else if template.os == Some(System::Linux) {
        findings.extend(pod::windows_options_on_linux(spec, context.target().minor));
    }
    if !workload.spec()["os"].is_null() {
        findings.retain(|finding| finding.code != Code::OsNameMissing);
        findings.extend(pod::os_name(spec, context.target().minor));
    }
    let prefix = workload.spec_path();
    let mut findings: Vec<_> = findings.into_iter().map(|finding| finding.below(&prefix)).collect();
    if placement.is_windows() {
        findings.extend(workload.hyperv_annotation());
    }
    findings
}

/// Whether a finding is only a consequence of an invalid value, which counts as missing.
fn is_consequence(finding: &Finding, invalid: &[String]) -> bool {
    let resources = join(&finding.path, "resources");
    let of_resources = |path: &str| finding.code == Code::MemoryLimitMissing && is_within(path, &resources);
    invalid.iter().any(|path| is_within(&finding.path, path) || of_resources(path))
}

/// The findings of a Service of core/v1.
pub fn service(object: &Value, context: &LintContext<'_>) -> Vec<Finding> {
    let mut findings = service::check(object, context);
    findings.sort();
    findings
}
