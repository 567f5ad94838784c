//! The PowerShell scripts of a machine. Values of users are quoted strings; nothing else of a script depends on them.

use crate::domain::render::powershell::quoted;

/// Sets environment variables of the services and restarts containerd, before kubeadm joins the machine.
pub fn containerd(environment: &[(&str, &str)]) -> String {
    let variables: String =
        environment.iter().map(|(name, value)| format!("  {}\r\n", quoted(&format!("{name}={value}")))).collect();
    let variables = if variables.is_empty() { "@()".to_owned() } else { format!("@(\r\n{variables})") };
    script(&format!(
        "# Applies the configuration of containerd, before the machine joins its cluster.\n\
         $ErrorActionPreference = 'Stop'\n\
         $environment = {variables}\n\
         foreach ($name in @('containerd', 'kubelet')) {{\n\
         \x20 $key = 'HKLM:\\SYSTEM\\CurrentControlSet\\Services\\' + $name\n\
         \x20 if ($environment.Count -gt 0 -and (Test-Path $key)) {{\n\
         \x20   Set-ItemProperty -Path $key -Name Environment -Type MultiString -Value $environment\n\
         \x20 }}\n\
         }}\n\
         $dependents = @(Get-Service -Name containerd -DependentServices | Where-Object {{ $_.Status -eq 'Running' }})\n\
         Restart-Service -Name containerd -Force\n\
         $dependents | Start-Service\n"
    ))
}

/// Starts the kubelet with the flags of kubeadm, after the join. A kubelet that nssm runs reads them at every start; one
/// that is a service of Windows has them in its command line, which a script of image-builder writes. Source:
/// kubernetes-sigs/image-builder, `images/capi/ansible/windows/roles/kubernetes` (2026-07-22).
pub fn kubelet() -> String {
    script(
        "# Starts the kubelet with the flags of kubeadm, after the machine has joined its cluster.\n\
         $ErrorActionPreference = 'Stop'\n\
         $service = Get-CimInstance -ClassName Win32_Service -Filter \"Name='kubelet'\"\n\
         if ($null -eq $service) {\n\
         \x20 throw 'There is no service kubelet on this machine.'\n\
         }\n\
         if ($service.PathName -match 'nssm') {\n\
         \x20 Write-Output 'nssm starts the kubelet, which has read its flags.'\n\
         } elseif (Test-Path 'C:\\k\\RestartKubelet.ps1') {\n\
         \x20 & 'C:\\k\\RestartKubelet.ps1'\n\
         } else {\n\
         \x20 Write-Warning 'C:\\k\\RestartKubelet.ps1 does not exist: the kubelet may run without the flags in C:\\var\\lib\\kubelet\\kubeadm-flags.env.'\n\
         }\n",
    )
}

/// The command that runs a script.
pub fn command(path: &str) -> String {
    format!("powershell -NoProfile -NonInteractive -ExecutionPolicy Bypass -File {path}")
}

/// A text with the line endings of Windows.
fn script(text: &str) -> String {
    text.lines().map(|line| format!("{line}\r\n")).collect()
}
