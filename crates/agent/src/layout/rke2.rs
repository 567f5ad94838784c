//! RKE2: the service `rke2` runs containerd, kubelet and kube-proxy as child processes.
//!
//! Sources:
//! - rancher/rke2 6ce1a80, `pkg/executor/pebinary/pebinary.go`: the programs, `enforce-node-allocatable` and `resolv-conf`
//!   as flags, and no eviction flags; `pkg/cli/cmds/agent_service_windows.go`: `agent --config FILE`.
//! - k3s-io/k3s#2116, k3s-io/k3s#10433 and rancher/rke2#4043: from 1.32 on RKE2 writes `00-rke2-defaults.conf` into
//!   `agent\etc\kubelet.conf.d` and passes this directory as `--config-dir`.
//! - k3s-io/k3s#13680 (February 2026): the generated `config.toml` imports `config-v3.toml.d\*.toml`.
//! - k3s-io/k3s, `pkg/agent/config/config.go`: the kubelet's `--kubeconfig`.
//! - k3s-io/k3s, `pkg/configfilearg/parser.go`: files in `config.yaml.d`, and `+` after a key to append to a list.

use serde_json::Value;

use super::{
    ContainerdLayout, FlagsPlace, KubeletLayout, Layout, LayoutKind, absolute, containerd, file_name, find, flags,
    kubelet_version, split, unknown,
};
use crate::{
    change_plan::Refusal,
    host::{Host, ServiceDefinition},
    merge::{text::Text, yaml},
    refuse::{list, read, unreadable},
};

const PROGRAM: &str = "rke2.exe";
const CONFIG: &str = "/etc/rancher/rke2/config.yaml";
const DATA: &str = "/var/lib/rancher/rke2";
const DEFAULTS: &str = "00-rke2-defaults.conf";

/// The service of RKE2, if the node has one.
pub(super) fn service(services: &[ServiceDefinition]) -> Option<&ServiceDefinition> {
    let runs_rke2 = |service: &&ServiceDefinition| {
        split(&service.command).iter().any(|argument| file_name(&argument.value) == PROGRAM)
    };
    find(services, &["rke2"]).or_else(|| services.iter().find(runs_rke2))
}

pub(super) fn detect(host: &dyn Host, service: &ServiceDefinition) -> Result<Layout, Refusal> {
    let arguments = split(&service.command);
    let config = flags::value(&arguments, "config").or_else(|| flags::value(&arguments, "c"));
    let config = absolute(&config.unwrap_or_else(|| CONFIG.to_owned()));
    let data = match flags::value(&arguments, "data-dir") {
        Some(data) => data,
        None => data_directory(host, &config)?.unwrap_or_else(|| DATA.to_owned()),
    };
    let data = absolute(&data);
    let drop_ins = format!(r"{data}\agent\etc\kubelet.conf.d");
    if !list(host, &drop_ins)?.iter().any(|name| name.eq_ignore_ascii_case(DEFAULTS)) {
        return Err(unknown(format!(
            r"{drop_ins}\{DEFAULTS} does not exist, so this RKE2 is older than 1.32 and does not read the directory"
        )));
    }
    let program = format!(r"{data}\bin\containerd.exe");
    let containerd = ContainerdLayout {
        service: service.name.clone(),
        version: containerd::version(host, &program)?,
        program,
        config: format!(r"{data}\agent\etc\containerd\config.toml"),
        is_writable: false,
    };
    let program = format!(r"{data}\bin\kubelet.exe");
    let kubelet = KubeletLayout {
        service: service.name.clone(),
        minor: kubelet_version(host, &program)?,
        program,
        config: None,
        drop_ins: Some(drop_ins),
        kubeconfig: Some(format!(r"{data}\agent\kubelet.kubeconfig")),
        flags: FlagsPlace::Rke2 { path: format!(r"{config}.d\50-winpool.yaml") },
    };
    Ok(Layout { kind: LayoutKind::Rke2, kubelet, containerd, kube_proxy: None })
}

/// `data-dir` in the configuration file.
fn data_directory(host: &dyn Host, config: &str) -> Result<Option<String>, Refusal> {
    let Some(bytes) = read(host, config)? else { return Ok(None) };
    let text = Text::decode(&bytes).map_err(|error| unreadable(config, error))?;
    let settings = yaml::parse(&text.content).map_err(|error| unreadable(config, error))?;
    Ok(settings.get("data-dir").and_then(Value::as_str).map(str::to_owned))
}
