//! `environment`: the environment variables of the node's services.

use winpool_api::ProxySettings;

const COMMENT: &str = "\
# Environment variables of the services kubelet and containerd (or docker and cri-dockerd), one per line.
# Set them in the registry value Environment (REG_MULTI_SZ) of HKLM\\SYSTEM\\CurrentControlSet\\Services\\<service>.
# Restart the services to apply them.
";

/// The content of the file. `None` if no variable is set.
pub fn text(proxy: &ProxySettings) -> Option<String> {
    let lines: String = variables(proxy).map(|(name, value)| format!("{name}={value}\n")).collect();
    (!lines.is_empty()).then(|| format!("{COMMENT}{lines}"))
}

pub fn variables(proxy: &ProxySettings) -> impl Iterator<Item = (&'static str, &str)> {
    let ProxySettings { http_proxy, https_proxy, no_proxy } = proxy;
    let variables = [("HTTP_PROXY", &**http_proxy), ("HTTPS_PROXY", https_proxy), ("NO_PROXY", no_proxy)];
    variables.into_iter().filter(|(_, value)| !value.is_empty())
}
