//! Installing the operator's resources as a user does: `crds/` and the namespace, then `config/default`.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use crate::{
    control_plane::{ControlPlane, OPERATOR_NAMESPACE, User},
    kubectl::kubectl,
    operator::workspace,
};

/// The shipped CustomResourceDefinitions, as `kubectl` names them.
pub const CRDS: [&str; 3] = [
    "crd/windowsnodepools.winpool.dev",
    "crd/windowsruntimeprofiles.winpool.dev",
    "crd/windowsnodeconfigs.winpool.dev",
];
const ALLOWED_TIMEOUT: Duration = Duration::from_secs(60);

/// Applies `crds/`, the namespace and `config/default`, and waits until the operator has its permissions.
///
/// The shipped Deployment is scaled to 0 replicas, because the operator runs as a separate process, with the
/// permissions of the shipped RBAC.
pub fn install(control_plane: &ControlPlane) -> Result<()> {
    install_crds(control_plane)?;
    apply(control_plane, &["-f", &path("config/namespace.yaml")])?;
    apply(control_plane, &["-k", &path("config/default")])?;
    wait_for_operator_permissions(control_plane)
}

/// Waits until the operator has its permissions, and scales its Deployment to 0 replicas.
pub fn wait_for_operator_permissions(control_plane: &ControlPlane) -> Result<()> {
    let scale = ["-n", OPERATOR_NAMESPACE, "scale", "deployment", "--all", "--replicas=0"];
    kubectl(control_plane, User::Admin, &scale)?;
    wait_until_allowed(control_plane, User::Operator, &["list", "windowsnodepools.winpool.dev"])?;
    wait_until_allowed(control_plane, User::Operator, &["create", "configmaps", "-n", OPERATOR_NAMESPACE])
}

/// Gives the operator and the agents the permissions of `config/agent`, without its policies.
pub fn install_agent_permissions(control_plane: &ControlPlane) -> Result<()> {
    for file in ["operator_role.yaml", "agent_role.yaml"] {
        apply(control_plane, &["-f", &path(format!("config/agent/{file}"))])?;
    }
    wait_until_allowed(control_plane, User::Operator, &["create", "windowsnodeconfigs.winpool.dev"])?;
    let agent = |action: &[&str]| wait_until_allowed(control_plane, User::Agent, action);
    agent(&["patch", "windowsnodeconfigs.winpool.dev", "--subresource=status"])?;
    agent(&["get", "configmaps", "-n", OPERATOR_NAMESPACE])?;
    agent(&["get", "leases.coordination.k8s.io", "-n", "kube-node-lease"])
}

/// A role or binding takes effect a moment after the API server has stored it; until then the operator's requests would
/// be forbidden.
pub(crate) fn wait_until_allowed(control_plane: &ControlPlane, user: User, action: &[&str]) -> Result<()> {
    let deadline = Instant::now() + ALLOWED_TIMEOUT;
    while !may(control_plane, user, action) {
        ensure!(Instant::now() < deadline, "the shipped RBAC does not let {} {}", user.name(), action.join(" "));
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Whether the operator currently has a permission, for instance `["list", "pods"]`.
pub fn operator_may(control_plane: &ControlPlane, action: &[&str]) -> bool {
    may(control_plane, User::Operator, action)
}

fn may(control_plane: &ControlPlane, user: User, action: &[&str]) -> bool {
    let name = user.name();
    let question = [&["auth", "can-i"], action, &["--as", &name]].concat();
    kubectl(control_plane, User::Admin, &question).is_ok()
}

/// Applies `crds/` and waits until the API server serves them.
pub fn install_crds(control_plane: &ControlPlane) -> Result<()> {
    apply(control_plane, &["-k", &path("crds")])?;
    let established = [&["wait", "--for=condition=Established", "--timeout=120s"][..], &CRDS].concat();
    kubectl(control_plane, User::Admin, &established).map(drop)
}

/// Runs `kubectl apply` with further arguments.
pub fn apply(control_plane: &ControlPlane, what: &[&str]) -> Result<()> {
    kubectl(control_plane, User::Admin, &[&["apply"], what].concat()).map(drop)
}

/// The absolute path of a file or folder of the repository.
pub fn path(relative: impl AsRef<Path>) -> String {
    workspace().join(relative).display().to_string()
}
