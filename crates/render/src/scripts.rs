//! The PowerShell scripts of a machine. Values of users are quoted strings; nothing else of a script depends on them.

use super::powershell::quoted;

/// Sets environment variables of the services and restarts containerd, before kubeadm joins the machine. A kubelet that is a
/// service of Windows gets its first arguments in its command line: it registers its node before `RestartKubelet.ps1` runs, and
/// what these arguments decide is decided then.
pub fn containerd(environment: &[(&str, &str)], arguments: &[String]) -> String {
    let set = set_environment(environment);
    with_windows_line_endings(&format!(
        "# Applies the configuration of containerd, and the first arguments of the kubelet, before the machine joins its cluster.\n\
         {STOP_ON_ERRORS}{set}{RESTART_CONTAINERD}\
         $arguments = {}\n\
         $service = Get-CimInstance -ClassName Win32_Service -Filter \"Name='kubelet'\"\n\
         $isService = $null -ne $service -and $service.PathName -notmatch 'nssm'\n\
         $missing = @($arguments | Where-Object {{ $isService -and -not $service.PathName.Contains($_) }})\n\
         if ($missing.Count -gt 0) {{\n\
         \x20 $path = $service.PathName + ' ' + ($missing -join ' ')\n\
         \x20 $result = Invoke-CimMethod -InputObject $service -MethodName Change -Arguments @{{ PathName = $path }}\n\
         \x20 if ($result.ReturnValue -ne 0) {{\n\
         \x20   throw ('The command line of the service kubelet was not changed: error ' + $result.ReturnValue)\n\
         \x20 }}\n\
         }}\n",
        array(arguments.iter().map(String::as_str)),
    ))
}

/// Starts the kubelet with the flags of kubeadm, after the join. A kubelet that nssm runs reads them at every start; one
/// that is a service of Windows has them in its command line, which a script of image-builder writes. The script creates the
/// service again, without its environment. Source: kubernetes-sigs/image-builder,
/// `images/capi/ansible/windows/roles/kubernetes` (2026-07-22).
pub fn kubelet(environment: &[(&str, &str)]) -> String {
    let set = set_environment(environment);
    with_windows_line_endings(&format!(
        "# Starts the kubelet with the flags of kubeadm, after the machine has joined its cluster.\n\
         {STOP_ON_ERRORS}\
         $service = Get-CimInstance -ClassName Win32_Service -Filter \"Name='kubelet'\"\n\
         if ($null -eq $service) {{\n\
         \x20 throw 'There is no service kubelet on this machine.'\n\
         }}\n\
         if ($service.PathName -match 'nssm') {{\n\
         \x20 Write-Output 'nssm starts the kubelet, which has read its flags.'\n\
         }} elseif (Test-Path 'C:\\k\\RestartKubelet.ps1') {{\n\
         \x20 & 'C:\\k\\RestartKubelet.ps1'\n\
         }} else {{\n\
         \x20 Write-Warning 'C:\\k\\RestartKubelet.ps1 does not exist: the kubelet may run without the flags in \
         C:\\var\\lib\\kubelet\\kubeadm-flags.env.'\n\
         }}\n\
         {set}\
         if ($environment.Count -gt 0) {{\n\
         \x20 Restart-Service -Name kubelet -Force\n\
         }}\n"
    ))
}

pub fn command(path: &str) -> String {
    format!("powershell -NoProfile -NonInteractive -ExecutionPolicy Bypass -File {path}")
}

const STOP_ON_ERRORS: &str = "$ErrorActionPreference = 'Stop'\n";

/// Restarts containerd, and the services that depend on it and run.
const RESTART_CONTAINERD: &str = "\
$dependents = @(Get-Service -Name containerd -DependentServices | Where-Object { $_.Status -eq 'Running' })
Restart-Service -Name containerd -Force
$dependents | Start-Service
";

fn set_environment(variables: &[(&str, &str)]) -> String {
    let variables: Vec<_> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!(
        "$environment = {}\n\
         foreach ($name in @('containerd', 'kubelet')) {{\n\
         \x20 $key = 'HKLM:\\SYSTEM\\CurrentControlSet\\Services\\' + $name\n\
         \x20 if ($environment.Count -gt 0 -and (Test-Path $key)) {{\n\
         \x20   Set-ItemProperty -Path $key -Name Environment -Type MultiString -Value $environment\n\
         \x20 }}\n\
         }}\n",
        array(variables.iter().map(String::as_str)),
    )
}

/// Texts as an array, each in a line.
fn array<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let lines: String = texts.map(|text| format!("  {}\n", quoted(text))).collect();
    if lines.is_empty() { "@()".to_owned() } else { format!("@(\n{lines})") }
}

fn with_windows_line_endings(text: &str) -> String {
    text.lines().map(|line| format!("{line}\r\n")).collect()
}
