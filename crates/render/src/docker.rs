//! The flags of cri-dockerd, which is a separate service.
//!
//! Source: Mirantis/cri-dockerd, `config/options.go` (2026-04-27). Its default deadline for pulls is one minute.

use winpool_api::ContainerdSettings;

use super::Scope;

/// The flags, one per line.
pub fn args(settings: &ContainerdSettings, pause_image: Option<&str>, scope: Scope) -> String {
    let network = (scope == Scope::Whole).then_some(("network-plugin", "cni"));
    let flags = [
        ("pod-infra-container-image", pause_image.unwrap_or_default()),
        ("image-pull-progress-deadline", &settings.image_pull_progress_timeout),
        ("cni-bin-dir", &settings.cni.bin_dir),
        ("cni-conf-dir", &settings.cni.conf_dir),
    ];
    let set = network.into_iter().chain(flags).filter(|(_, value)| !value.is_empty());
    set.map(|(flag, value)| format!("--{flag}={value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use winpool_api::Cni;

    use super::*;

    #[test]
    fn the_flags_are_the_pause_image_the_deadline_and_the_configured_directories() {
        let mut settings = ContainerdSettings::default();
        let expected = "--pod-infra-container-image=registry.example/pause:3.9\n--image-pull-progress-deadline=30m\n";
        assert_eq!(args(&settings, Some("registry.example/pause:3.9"), Scope::Layer), expected);
        settings.cni = Cni { bin_dir: r"C:\cni".into(), conf_dir: String::new() };
        let whole = args(&settings, Some("registry.example/pause:3.9"), Scope::Whole);
        assert_eq!(whole, format!("--network-plugin=cni\n{expected}--cni-bin-dir=C:\\cni\n"));
    }
}
