//! PowerShell scripts that read something on the node, and print a line for each value.

use std::time::Duration;

use winpool_render::powershell::quoted;

use super::host::Host;

/// The program, which every Windows Server has.
pub const POWERSHELL: &str = r"C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe";

/// What a script printed within a limit; empty if PowerShell does not start.
pub fn output(host: &dyn Host, script: &str, limit: Duration) -> String {
    let options = ["-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-Command", script];
    match host.run(POWERSHELL, &options.map(str::to_owned), limit) {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => {
            tracing::debug!(%error, "PowerShell did not start");
            String::new()
        }
    }
}

/// Texts as an array.
pub fn array<T: AsRef<str>>(texts: &[T]) -> String {
    format!("@({})", texts.iter().map(|text| quoted(text.as_ref())).collect::<Vec<_>>().join(", "))
}
