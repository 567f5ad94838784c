//! The check of a plan by the node's own programs, before anything is changed.
//!
//! - `containerd --config NEW config dump` reads the main file and everything that it imports.
//! - `kubelet --config=NEW` without a kubeconfig, with directories of its own and a pipe that does not exist, reads its
//!   configuration, and ends because it has no API client. The exit code is an error in any case, so its messages
//!   decide. With the real endpoint of the runtime it would remove the node's pods.
//! - The container runtime pulls the pause image of the configuration.
//!
//! All files are below [`candidate::DIRECTORY`], which is removed afterwards.

mod candidate;
mod messages;

use std::time::Duration;

use serde_json::Value;

use self::{
    candidate::{Candidate, LIMIT},
    messages::{Outcome, classify, last_lines},
};
use super::{
    change_plan::{ChangePlan, Refusal, RefusalReason, RuntimeCheck},
    host::{Host, ProgramOutput, RuntimeError},
    layout::Layout,
    refuse::{read, refuse},
};

/// How long the pull of the pause image may take. What was transferred until then is kept, and the configuration is checked again.
const PULL_LIMIT: Duration = Duration::from_secs(300);

/// Lets containerd and the kubelet of the node check the files that a plan changes. Programs whose configuration does
/// not change are not run.
/// A refusal quotes the last lines of the program.
pub fn preflight(host: &dyn Host, layout: &Layout, plan: &ChangePlan) -> Result<(), Refusal> {
    let mut candidate = Candidate::new(host, layout, plan);
    let result = check(&mut candidate);
    candidate.remove();
    result
}

fn check(candidate: &mut Candidate) -> Result<(), Refusal> {
    resolver_file(candidate)?;
    for (path, field) in candidate.removed_fields() {
        tracing::warn!(path, field, "the field is removed, because a Windows kubelet does not start with it");
    }
    if let Some(arguments) = candidate.containerd()? {
        containerd(candidate, &arguments)?;
    }
    if let Some(arguments) = candidate.kubelet()? {
        kubelet(candidate, &arguments)?;
    }
    pause_image(candidate.host, candidate.plan)
}

/// containerd pulls the pause image with the first pod that needs it, and without it starts none. It is pulled here unless the
/// change itself may make it available: then the sandbox after the restart shows it.
fn pause_image(host: &dyn Host, plan: &ChangePlan) -> Result<(), Refusal> {
    let Some(RuntimeCheck { pipe, pause_image: Some(image), changes_pulls }) = &plan.runtime else { return Ok(()) };
    match host.ensure_image(pipe, image, PULL_LIMIT) {
        Err(RuntimeError::Failed(why)) if !changes_pulls => Err(refuse(
            RefusalReason::PauseImageNotPulled,
            format!("containerd cannot pull the pause image {image}, and no pod would start: {why}"),
            "Make the image available to the nodes, or set spec.pauseImage of the profile, with source: Node to keep the node's own",
        )),
        Err(error) => {
            tracing::warn!(image, %error, "the pause image is not pulled before the change");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

fn containerd(candidate: &Candidate, arguments: &[String]) -> Result<(), Refusal> {
    let program = &candidate.layout.containerd.program;
    let output = run(candidate, program, arguments)?;
    match output.code {
        Some(0) => Ok(()),
        code => Err(failed(program, code, &last_lines(&output.stderr))),
    }
}

fn kubelet(candidate: &Candidate, arguments: &[String]) -> Result<(), Refusal> {
    let program = &candidate.layout.kubelet.program;
    let output = run(candidate, program, arguments)?;
    let text = [output.stdout, output.stderr].concat();
    match classify(&text) {
        _ if output.code.is_none() => Err(failed(program, None, &last_lines(&text))),
        Outcome::Accepted => Ok(()),
        Outcome::Rejected(lines) | Outcome::Unknown(lines) => Err(failed(program, output.code, &lines)),
    }
}

/// A kubelet starts without the file of `resolvConf`, and then starts no pod.
fn resolver_file(candidate: &Candidate) -> Result<(), Refusal> {
    let path = candidate.plan.kubelet.get("resolvConf").and_then(Value::as_str).unwrap_or_default();
    if path.is_empty() || read(candidate.host, path)?.is_some() {
        return Ok(());
    }
    let wrong = format!("resolvConf: {path} does not exist, and the kubelet would start no pod");
    Err(refuse(RefusalReason::PreflightFailed, wrong, "Create the file, or correct the profile"))
}

fn run(candidate: &Candidate, program: &str, arguments: &[String]) -> Result<ProgramOutput, Refusal> {
    let output = candidate.host.run(program, arguments, LIMIT);
    output.map_err(|error| refuse(RefusalReason::PreflightFailed, format!("{program}: {error}"), "Repair the program"))
}

fn failed(program: &str, code: Option<i32>, lines: &str) -> Refusal {
    let how = match code {
        Some(_) => "does not accept the configuration".to_owned(),
        None => format!("did not end within {} s", LIMIT.as_secs()),
    };
    refuse(
        RefusalReason::PreflightFailed,
        format!("{program} {how}: {lines}"),
        "Correct the profile. Nothing was changed",
    )
}

#[cfg(test)]
mod tests;
