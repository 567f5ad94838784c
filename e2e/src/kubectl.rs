//! Runs `kubectl` as a user does.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::control_plane::{ControlPlane, User};

/// Runs `kubectl` as `user` and returns its standard output.
pub fn kubectl(control_plane: &ControlPlane, user: User, arguments: &[&str]) -> Result<String> {
    kubectl_with_input(control_plane, user, arguments, "")
}

/// Runs `kubectl` as `user` with `input` on its standard input, for `apply -f -`.
pub fn kubectl_with_input(control_plane: &ControlPlane, user: User, arguments: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new(&control_plane.assets().kubectl)
        .env("KUBECONFIG", control_plane.kubeconfig(user))
        // Control planes that use the same port one after the other must not share a discovery cache.
        .arg("--cache-dir")
        .arg(control_plane.directory().join("kubectl-cache"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting kubectl")?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(input.as_bytes()).context("writing to kubectl")?;
    }
    let output = child.wait_with_output().context("running kubectl")?;
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(output.status.success(), "kubectl {} failed ({}):\n{err}{out}", arguments.join(" "), output.status);
    Ok(out)
}
