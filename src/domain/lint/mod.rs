//! What is wrong with manifests of workloads and Services on Windows nodes: each finding with a stable code, the field,
//! the reason and the remedy.

mod code;
mod container;
mod image;
mod led;
mod mend;
mod path;
mod placement;
pub mod pod;
mod service;
mod workload;
mod world;

use std::fmt;

use serde_json::Value;

use crate::{
    domain::{
        is_within,
        workload::{System, Template},
    },
    facts::{Minor, runtimes::Runtime},
};

pub use crate::domain::join;
pub use code::{Code, Severity, UnknownCode};
pub use workload::Workload;
pub use world::{Lookups, World};

/// What is wrong in one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The field, such as `spec.template.spec.containers[0].image`.
    pub path: String,
    /// What kind of finding it is.
    pub code: Code,
    /// What is wrong, and why, in sentences.
    pub message: String,
    /// What to write instead.
    pub remedy: String,
}

impl Finding {
    /// A finding with the reason and the remedy of its code.
    pub fn new(code: Code, path: impl Into<String>, what: impl fmt::Display) -> Self {
        let message = format!("{what}. {}", code.why());
        Self { path: path.into(), code, message, remedy: code.remedy().to_owned() }
    }

    /// A finding that says the reason itself.
    pub fn told(code: Code, path: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.into(), code, message: message.into(), remedy: remedy.into() }
    }

    /// The same with a remedy of its own.
    #[must_use]
    pub fn instead(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }

    /// The same in an object that has what was looked at below `path`.
    #[must_use]
    pub fn below(self, path: &str) -> Self {
        Self { path: join(path, &self.path), ..self }
    }
}

/// What the manifests are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The minor of the API server, and of the nodes.
    pub minor: Minor,
    /// The container runtime of the Windows nodes.
    pub runtime: Runtime,
}

/// Everything that is wrong with a workload.
pub fn workload(workload: &Workload<'_>, world: &World<'_>) -> Vec<Finding> {
    let read = workload.read();
    let mut findings = read.findings;
    if let Some(template) = &read.template {
        let refused: Vec<_> = findings.iter().map(|finding| finding.path.clone()).collect();
        let of_rules = rules(workload, template, &read.spec, world);
        findings.extend(of_rules.into_iter().filter(|finding| !follows(finding, &refused)));
    }
    findings.sort();
    findings
}

/// What the rules find in a spec that could be read.
fn rules(workload: &Workload<'_>, template: &Template, spec: &Value, world: &World<'_>) -> Vec<Finding> {
    let bound = world.bound(template);
    let mut findings = placement::check(workload, template, &bound, world);
    findings.extend(image::check(template, spec, &bound, world));
    if bound.is_windows() {
        findings.extend(pod::check(spec, world.target()));
        findings.extend(container::check(template, spec, world.target()));
    } else if template.os == Some(System::Linux) {
        findings.extend(pod::refused_on_linux(spec, world.target().minor));
    }
    if !workload.spec()["os"].is_null() {
        findings.retain(|finding| finding.code != Code::OsNameMissing);
        findings.extend(pod::os_name(spec, world.target().minor));
    }
    let prefix = workload.spec_path();
    let mut findings: Vec<_> = findings.into_iter().map(|finding| finding.below(&prefix)).collect();
    if bound.is_windows() {
        findings.extend(workload.hyperv_annotation());
    }
    findings
}

/// Whether there would be nothing to find if the API server refused nothing: what it refuses is as good as not written.
fn follows(finding: &Finding, refused: &[String]) -> bool {
    let resources = join(&finding.path, "resources");
    let of_resources = |path: &str| finding.code == Code::MemoryLimitMissing && is_within(path, &resources);
    refused.iter().any(|path| is_within(&finding.path, path) || of_resources(path))
}

/// Everything that is wrong with a Service of core/v1.
pub fn service(object: &Value, world: &World<'_>) -> Vec<Finding> {
    let mut findings = service::check(object, world);
    findings.sort();
    findings
}
