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
