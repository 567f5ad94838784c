//! Runs `kubectl` as a user does.

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::control_plane::{ControlPlane, User};

/// Runs `kubectl` as `user` and returns its standard output.
///
/// # Errors
/// When it cannot be run or fails; the message contains its standard error.
pub fn kubectl(control_plane: &ControlPlane, user: User, arguments: &[&str]) -> Result<String> {
    let output = command(control_plane, user, arguments).output().context("running kubectl")?;
    finished(arguments, output)
}

/// Runs `kubectl` as `user` with `input` on its standard input, for `apply -f -`.
///
/// # Errors
/// When it cannot be run or fails; the message contains its standard error.
pub fn kubectl_with_input(control_plane: &ControlPlane, user: User, arguments: &[&str], input: &str) -> Result<String> {
    let mut child = command(control_plane, user, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("running kubectl")?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(input.as_bytes()).context("writing to kubectl")?;
    }
    finished(arguments, child.wait_with_output().context("running kubectl")?)
}

/// A command that runs `kubectl` with the kubeconfig of `user`.
#[must_use]
pub fn command(control_plane: &ControlPlane, user: User, arguments: &[&str]) -> Command {
    let mut command = Command::new(&control_plane.assets().kubectl);
    command
        .env("KUBECONFIG", control_plane.kubeconfig(user))
        // Control planes that use the same port one after the other must not share a discovery cache.
        .arg("--cache-dir")
        .arg(control_plane.directory().join("kubectl-cache"))
        .args(arguments);
    command
}

fn finished(arguments: &[&str], output: Output) -> Result<String> {
    if !output.status.success() {
        bail!(
            "kubectl {} failed ({}):\n{}{}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&output.stdout)
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}
