//! nssm and the script `C:\k\StartKubelet.ps1` in one, as far as an agent observes them: a service that starts a kubelet with
//! the flags of the script and of `kubeadm-flags.env`, and starts it again whenever it ends.

#[cfg(windows)]
fn main() {
    if let Err(error) = windows::run() {
        e2e_windows::fail(&format!("nssm: {error}"));
    }
}

#[cfg(not(windows))]
fn main() {
    e2e_windows::fail("nssm is for Windows");
}

#[cfg(windows)]
mod windows {
    use std::{
        fs, io,
        process::{Child, Command, Stdio},
        sync::atomic::{AtomicBool, Ordering},
        thread,
        time::Duration,
    };

    use e2e_windows::{behavior::Behavior, service, start_script::flags};

    const KUBELET: &str = r"C:\k\kubelet.exe";
    const SCRIPT: &str = r"C:\k\StartKubelet.ps1";
    const ENVIRONMENT: &str = r"C:\var\lib\kubelet\kubeadm-flags.env";
    /// The time between the end of the kubelet and its next start.
    const PAUSE: Duration = Duration::from_millis(200);

    pub(super) fn run() -> io::Result<()> {
        service::run(Behavior::default(), |stop| {
            while !stop.load(Ordering::Relaxed) {
                match start() {
                    Ok(kubelet) => run_until(kubelet, stop),
                    Err(error) => eprintln!("nssm: {error}"),
                }
                thread::sleep(PAUSE);
            }
        })
    }

    fn start() -> io::Result<Child> {
        let flags = flags(&fs::read_to_string(SCRIPT)?, &fs::read_to_string(ENVIRONMENT)?);
        Command::new(KUBELET).args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    }

    /// Waits until the kubelet ends, or ends it when the service is stopped.
    fn run_until(mut kubelet: Child, stop: &AtomicBool) {
        while matches!(kubelet.try_wait(), Ok(None)) {
            if stop.load(Ordering::Relaxed) {
                let _ = kubelet.kill();
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}
