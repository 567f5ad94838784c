$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
for ($i = 0; $i -lt $directories.Count; $i++) {
  $path = $directories[$i]
  try { 'acl|{0}|{1}' -f $i, (Get-Acl -LiteralPath $path).Sddl } catch { }
  try {
    $volume = Get-Volume -FilePath $path
    'volume|{0}|{1}|{2}|{3}' -f $i, $volume.Path, $volume.Size, $volume.SizeRemaining
  } catch { }
}
try {
  $namespace = 'root/CIMV2/Security/MicrosoftVolumeEncryption'
  $volumes = @(Get-CimInstance -Namespace $namespace -ClassName Win32_EncryptableVolume)
  foreach ($volume in $volumes) { 'encryption|{0}|{1}' -f $volume.DeviceID, $volume.ProtectionStatus }
  'encryption|read'
} catch {
  if ($_.Exception.NativeErrorCode -eq 'InvalidNamespace') { 'encryption|read' }
}
try { 'boot|{0:o}' -f (Get-CimInstance -ClassName Win32_OperatingSystem).LastBootUpTime.ToUniversalTime() } catch { }
try { 'domain|{0}' -f (Get-CimInstance -ClassName Win32_ComputerSystem).PartOfDomain } catch { }
try {
  foreach ($pipe in [IO.Directory]::GetFiles('\\.\pipe\')) {
    if ($pipe -like '*\csi-proxy-*') { 'pipe|{0}' -f $pipe }
  }
  'pipe|read'
} catch { }
try {
  foreach ($process in @(Get-CimInstance -ClassName Win32_Process -Filter 'Name = ''kubelet.exe''')) {
    foreach ($flag in [regex]::Matches($process.CommandLine, '[\s\x22]--?([A-Za-z][A-Za-z0-9_-]*)')) { 'flag|{0}' -f $flag.Groups[1].Value }
    'flag|read'
  }
} catch { }
try {
  foreach ($process in @(Get-CimInstance -ClassName Win32_Process -Filter 'Name = ''kube-proxy.exe''')) {
    # With a configuration file, kube-proxy ignores the gates of its flags.
    if ($process.CommandLine -match '[\s\x22]--?config[=\s]') { continue }
    foreach ($gates in [regex]::Matches($process.CommandLine, '[\s\x22]--?feature[-_]gates[=\s]+([A-Za-z0-9=,]+)')) { 'proxygate|{0}' -f $gates.Groups[1].Value }
    'proxygate|read'
  }
} catch { }
try {
  foreach ($endpoint in @(Get-HnsEndpoint)) {
    $addresses = $endpoint.MacAddress, $endpoint.IPAddress, $endpoint.IPv6Address
    $values = $endpoint.VirtualNetwork, $endpoint.State, [bool]$endpoint.IsRemoteEndpoint, $endpoint.Namespace.ID
    'endpoint|{0}' -f (($values + $addresses) -join '|')
  }
  'endpoint|read'
} catch { }
try {
  foreach ($line in @(hnsdiag.exe list loadbalancers)) { 'loadbalancer|{0}' -f $line }
  if ($LASTEXITCODE -eq 0) { 'loadbalancer|read' }
} catch { }
