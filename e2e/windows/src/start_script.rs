//! The flags with which a start script of kubeadm's Windows tools starts the kubelet.

/// The flags of the script after those of `kubeadm-flags.env`. PowerShell is not interpreted: a flag has no blanks, and the
/// only variable is that of the system drive.
pub fn flags(script: &str, environment: &str) -> Vec<String> {
    let from_file = environment.trim().trim_start_matches("KUBELET_KUBEADM_ARGS=").trim_matches('"').to_owned();
    let script = script.replace("$env:SYSTEMDRIVE", "C:").replace('`', "").replace('"', " ");
    let is_flag = |word: &&str| word.starts_with("--");
    [&from_file, &script]
        .into_iter()
        .flat_map(|text| text.split_whitespace().filter(is_flag))
        .map(str::to_owned)
        .collect()
}
