//! PowerShell scripts that read something on the node, and print a line for each value.

use std::{collections::BTreeMap, time::Duration};

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

/// The end of a list that was read.
const READ: &str = "read";

/// The lines `NAME|VALUE` that a script printed, by their name. What it did not print is not known.
pub struct Lines(BTreeMap<String, Vec<String>>);

impl Lines {
    pub fn parse(output: &str) -> Self {
        let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in output.lines().filter_map(|line| line.split_once('|')) {
            lines.entry(name.to_owned()).or_default().push(value.trim().to_owned());
        }
        Self(lines)
    }

    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).into_iter().flatten().map(String::as_str).filter(|value| *value != READ)
    }

    /// Whether a list was read until its end.
    pub fn is_read(&self, list: &str) -> bool {
        self.0.get(list).is_some_and(|lines| lines.last().is_some_and(|last| last == READ))
    }
}
