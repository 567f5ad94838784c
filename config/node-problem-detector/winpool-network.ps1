# A custom plugin of node-problem-detector for Windows nodes. It ends with 0 for False, 1 for True and 2 for Unknown, and prints the message.
param([Parameter(Mandatory)][ValidateSet('DuplicateEndpoints', 'LostEndpoints', 'LoadBalancers', 'Network')][string]$Check)
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

# The addresses that more than one endpoint of a network has, and the MAC addresses of endpoints on this node.
function Get-Duplicate {
  $keys = @(foreach ($endpoint in @(Get-HnsEndpoint)) {
    $texts = @($endpoint.IPAddress, $endpoint.IPv6Address)
    if (-not $endpoint.IsRemoteEndpoint) { $texts += $endpoint.MacAddress }
    foreach ($text in $texts) { if ($text) { '{0}|{1}' -f $endpoint.VirtualNetwork, $text } }
  })
  $keys | Group-Object | Where-Object { $_.Count -gt 1 } | ForEach-Object { $_.Name.Split('|')[1] }
}

# The addresses of endpoints on this node that were detached (4, 5), or are in a namespace and attached to nothing (1).
function Get-Lost {
  foreach ($endpoint in @(Get-HnsEndpoint)) {
    $isDetached = @(4, 5) -contains $endpoint.State
    $isUnattached = ($endpoint.State -eq 1) -and $endpoint.Namespace.ID
    if (($isDetached -or $isUnattached) -and -not $endpoint.IsRemoteEndpoint) { $endpoint.IPAddress }
  }
}

# What is missing if kube-proxy has run for five minutes, and there is no load balancer: that of the Service kubernetes at least.
function Get-MissingLoadBalancer {
  $before = (Get-Date).AddMinutes(-5)
  $running = @(Get-Process -Name kube-proxy -ErrorAction SilentlyContinue | Where-Object { $_.StartTime -lt $before })
  $lines = @(hnsdiag.exe list loadbalancers)
  if ($LASTEXITCODE -ne 0) { throw 'hnsdiag.exe failed' }
  if ($running -and -not ($lines -match '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}')) { 'every load balancer' }
}

# What two readings show: a pod that begins or ends looks like a problem for a moment.
function Get-Lasting([scriptblock]$Read) {
  $first = @(& $Read)
  if (-not $first) { return }
  Start-Sleep -Seconds 20
  @(& $Read) | Where-Object { $_ -in $first }
}

try {
  if ($Check -eq 'Network') {
    $networks = @(Get-HnsNetwork | Where-Object { $_.Type -ne 'nat' })
    'networks of a CNI: {0}' -f ($networks.Name -join ', ')
    if ($networks) { exit 1 }
    exit 0
  }
  $found = @(switch ($Check) {
    'DuplicateEndpoints' { Get-Lasting { Get-Duplicate } }
    'LostEndpoints' { Get-Lasting { Get-Lost } }
    'LoadBalancers' { Get-Lasting { Get-MissingLoadBalancer } }
  })
  if (-not $found) { exit 0 }
  'HNS, {0}: {1}' -f $Check, ($found -join ', ')
  exit 1
} catch {
  'HNS does not answer: {0}' -f $_.Exception.Message
  exit 2
}
