$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
foreach ($log in 'EKS', 'Application') {
  try {
    $query = @{ LogName = $log; ProviderName = $service }
    $events = @(Get-WinEvent -MaxEvents $lines -FilterHashtable $query)
    [array]::Reverse($events)
    'place|event log {0}' -f $log
    foreach ($event in $events) {
      'line|{0:o} {1}' -f $event.TimeCreated.ToUniversalTime(), ($event.Message -replace '\s+', ' ')
    }
    exit
  } catch { }
}
try {
  $existing = Get-Item -LiteralPath $files -ErrorAction SilentlyContinue
  $file = $existing | Sort-Object -Property LastWriteTime | Select-Object -Last 1
  if ($file) {
    'place|{0}' -f $file.FullName
    foreach ($line in @(Get-Content -LiteralPath $file.FullName -Tail $lines -Encoding UTF8)) { 'line|{0}' -f $line }
  }
} catch { }
