# Adds what the machine has now to winpool-first-run.txt: for docs/first-run.md. It changes nothing else. Run it as administrator.
param(
    [Parameter(Mandatory = $true)]
    [ValidateSet('before', 'changed', 'rolledback', 'restored')]
    [string]$Stage,
    [string]$Out = 'winpool-first-run.txt'
)
$ErrorActionPreference = 'Continue'

function Add-Section([string]$Title, [scriptblock]$Body) {
    "== $Stage, $Title"
    try { & $Body 2>&1 | Out-String -Width 300 } catch { "failed: $_" }
}

$files = @(
    'C:\var\lib\kubelet\config.yaml',
    'C:\var\lib\kubelet\kubeadm-flags.env',
    'C:\Program Files\containerd\config.toml',
    'C:\Program Files\containerd\conf.d\50-winpool.toml',
    'C:\Program Files\winpool\journal.json'
)

$sections = @(
    Add-Section 'time' { (Get-Date).ToUniversalTime().ToString('o') }
    Add-Section 'Windows' {
        Get-ItemProperty 'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion' |
            Format-List -Property @('ProductName', 'CurrentBuildNumber', 'UBR', 'InstallationType')
    }
    Add-Section 'services' {
        Get-CimInstance Win32_Service |
            Where-Object { $_.Name -in 'kubelet', 'containerd', 'kube-proxy', 'winpool-restore' } |
            Format-List -Property @('Name', 'State', 'StartMode', 'PathName')
    }
    Add-Section 'containerd' { & 'C:\Program Files\containerd\containerd.exe' --version }
    Add-Section 'files' {
        $files | Where-Object { Test-Path $_ } | ForEach-Object { Get-FileHash $_ } | Format-List -Property @('Path', 'Hash')
    }
)
$sections | Out-File -FilePath $Out -Append -Encoding utf8
"written to $Out"
