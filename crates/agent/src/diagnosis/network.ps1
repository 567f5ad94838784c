$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
try {
  foreach ($network in @(Get-HnsNetwork)) { 'network|{0}|{1}' -f $network.Name, $network.Type }
  'network|read'
} catch { }
try {
  foreach ($endpoint in @(Get-HnsEndpoint)) {
    'endpoint|{0}|{1}' -f $endpoint.IPAddress, [bool]$endpoint.IsRemoteEndpoint
    foreach ($policy in @($endpoint.Policies)) {
      foreach ($exception in @($policy.ExceptionList)) { if ($exception) { 'exception|{0}' -f $exception } }
    }
  }
  'endpoint|read'
} catch { }
try {
  foreach ($line in @(hnsdiag.exe list loadbalancers)) { 'loadbalancer|{0}' -f $line }
  if ($LASTEXITCODE -eq 0) { 'loadbalancer|read' }
} catch { }
try {
  foreach ($route in @(Get-NetRoute -AddressFamily IPv4)) {
    'route|{0}|{1}|{2}' -f $route.DestinationPrefix, $route.NextHop, $route.InterfaceAlias
  }
  'route|read'
} catch { }
try {
  foreach ($connection in @(Get-NetTCPConnection -State Listen)) { 'port|{0}' -f $connection.LocalPort }
  'port|read'
} catch { }
try {
  foreach ($adapter in @(Get-NetIPInterface -AddressFamily IPv4 -ConnectionState Connected)) {
    'adapter|{0}|{1}' -f $adapter.InterfaceAlias, $adapter.NlMtu
  }
  'adapter|read'
} catch { }
try {
  $files = Get-ChildItem -LiteralPath 'C:\var\log\pods' -Recurse -File
  $largest = $files | Sort-Object -Property Length | Select-Object -Last 1
  if ($largest) { 'containerlog|{0}|{1}' -f $largest.Length, $largest.FullName }
} catch { }
