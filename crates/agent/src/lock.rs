//! The lock of the process that changes the node, as a person who waits for it sees it.

use std::io;

use super::host::Host;

const PROGRAM: &str = "winpool-agent.exe";

/// The error for a command that cannot have the lock at a path, with the processes that could hold it. `own` is the process of the
/// command.
pub fn held(host: &dyn Host, path: &str, own: u32) -> io::Error {
    let processes = host.processes(PROGRAM).unwrap_or_default();
    let others = processes.into_iter().filter(|process| *process != own).map(|process| process.to_string());
    let holder = match others.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "another process".to_owned(),
        others => format!("{PROGRAM}, process {others},"),
    };
    let wrong = format!("{holder} changes this node, and holds {path}");
    let remedy = "Correct the profile, or stop the kubelet and then this process, and run the command again";
    io::Error::new(io::ErrorKind::ResourceBusy, format!("{wrong}. {remedy}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fake::{FakeHost, service};

    #[test]
    fn the_error_names_the_other_processes_of_the_agent() {
        let node = FakeHost::with(vec![service("winpool-agent", "winpool-agent.exe run", &[])], &[]);
        let table = [
            (7, "winpool-agent.exe, process 1, changes this node, and holds C:\\lock."),
            (1, "another process changes this node, and holds C:\\lock."),
        ];
        for (own, text) in table {
            let error = held(&node, r"C:\lock", own);
            assert!(error.to_string().starts_with(text), "{error}");
        }
    }
}
