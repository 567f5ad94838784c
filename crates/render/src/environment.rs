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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_that_is_set_has_a_line() {
        assert_eq!(text(&ProxySettings::default()), None);
        let proxy = ProxySettings {
            https_proxy: "http://proxy.example:3128".into(),
            no_proxy: ".svc,10.0.0.0/8".into(),
            ..ProxySettings::default()
        };
        let text = text(&proxy).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines, ["HTTPS_PROXY=http://proxy.example:3128", "NO_PROXY=.svc,10.0.0.0/8"]);
        assert!(text.contains(r"HKLM\SYSTEM\CurrentControlSet\Services\<service>"), "{text}");
    }
}
