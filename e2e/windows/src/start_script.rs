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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_the_file_are_before_those_of_the_script() {
        let script = "$file = Get-Content -Path \"/var/lib/kubelet/kubeadm-flags.env\"\r\n\
                      $cmd = \"C:\\k\\kubelet.exe $file --cert-dir=$env:SYSTEMDRIVE\\pki --resolv-conf=`\"`\" \"\r\n";
        let flags = flags(script, "KUBELET_KUBEADM_ARGS=\"--node-labels=a=b --v=2\"\r\n");
        assert_eq!(flags, ["--node-labels=a=b", "--v=2", r"--cert-dir=C:\pki", "--resolv-conf="]);
    }
}
