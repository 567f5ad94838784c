//! The containerd of a node.
//!
//! Source: containerd/containerd v2.3.4, `cmd/containerd/command/service_windows.go` (`--register-service` creates the
//! service `containerd` with `--run-service` and the flags that were given) and `main.go` (`--config`, `-c`).

use winpool_facts::{
    ContainerdVersion,
    containerd::{OLDEST, release_line},
};

use super::{ContainerdLayout, absolute, file_name, find, flags, split, version_text};
use crate::{
    change_plan::{Refusal, RefusalReason},
    host::{Host, ServiceDefinition},
    refuse::refuse,
};

const CONTAINERD: &str = "containerd.exe";
/// The default of the flag `--config`.
const CONFIG_FILE: &str = r"C:\Program Files\containerd\config.toml";

/// The service, program, version and configuration of containerd.
pub(super) fn detect(host: &dyn Host, services: &[ServiceDefinition]) -> Result<ContainerdLayout, Refusal> {
    let Some(service) = find(services, &["containerd"]) else {
        return Err(unsupported("the node has no service containerd".to_owned()));
    };
    let arguments = split(&service.command);
    let Some(at) = arguments.iter().position(|argument| file_name(&argument.value) == CONTAINERD) else {
        return Err(unsupported(format!(
            "the service {} does not run containerd.exe: {}",
            service.name, service.command
        )));
    };
    let flags = &arguments[at + 1..];
    let config = flags::value(flags, "config").or_else(|| flags::value(flags, "c"));
    let program = absolute(&arguments[at].value);
    Ok(ContainerdLayout {
        service: service.name.clone(),
        version: version(host, &program)?,
        config: config.map_or_else(|| CONFIG_FILE.to_owned(), |path| absolute(&path)),
        program,
        is_writable: true,
    })
}

/// The version according to `containerd --version`, such as
/// `containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4e490e9fbdc236c0e811ccaba3376`.
pub(super) fn version(host: &dyn Host, program: &str) -> Result<ContainerdVersion, Refusal> {
    let text = version_text(host, program).map_err(unsupported)?;
    let third = text.split_whitespace().nth(2);
    let Some(version) = third.and_then(|part| part.parse::<ContainerdVersion>().ok()) else {
        return Err(unsupported(format!("{program} --version printed `{}`", text.trim())));
    };
    if version < OLDEST {
        return Err(unsupported(format!("containerd {version} is older than {OLDEST}")));
    }
    match release_line(version) {
        Some(_) => Ok(version),
        None => Err(unsupported(format!("containerd {version} is unknown to this version of winpool"))),
    }
}

fn unsupported(wrong: String) -> Refusal {
    refuse(RefusalReason::UnsupportedRuntime, wrong, "Install a supported containerd, such as 2.3")
}
