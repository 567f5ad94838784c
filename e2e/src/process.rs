//! Programs that a test starts: log, readiness, termination.

use std::{
    fs::{File, OpenOptions},
    future::Future,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::shared::lock;

/// The time that a program has to terminate after SIGTERM when its owner is dropped.
const DROP_GRACE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);
const TAIL_LINES: usize = 25;

/// What a program prints until it ends.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("running {program}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// A running program in its own process group, with standard output and error in a log file.
///
/// Dropping it ends only that process group. If the owning program is killed before it can drop anything, a guard (a
/// shell that waits for its standard input to close) ends the group.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: u32,
    log: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    child: Child,
    guard: Option<Guard>,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts `command`, and appends its output to the file `log`.
    pub fn spawn(name: impl Into<String>, mut command: Command, log: &Path) -> Result<Self> {
        let name = name.into();
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("opening the log {}", log.display()))?;
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {name} ({})", command.get_program().display()))?;
        let pid = child.id();
        let guard = Some(Guard::over(pid)?);
        Ok(Self { name, pid, log: log.to_owned(), state: Mutex::new(State { child, guard, status: None }) })
    }

    /// The id of the process, which is also the id of its process group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its CPU time, in user and kernel mode.
    pub fn cpu_time(&self) -> Result<Duration> {
        cpu_time(self.pid)
    }

    /// The file with its standard output and error.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its exit status, or `None` while it runs.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.state().poll()
    }

    /// Sends SIGTERM, and SIGKILL if it has not ended within `grace`, which is an error.
    pub async fn stop(&self, grace: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM);
        let deadline = Instant::now() + grace;
        while Instant::now() < deadline {
            if let Some(status) = self.exit_status() {
                return Ok(status);
            }
            tokio::time::sleep(POLL).await;
        }
        self.kill()?;
        Err(anyhow!("{} did not end within {grace:?} of SIGTERM and was killed\n{}", self.name, self.log_tail()))
    }

    pub fn kill(&self) -> Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.state().wait()
    }

    /// Sends SIGSTOP: it is frozen until [`Self::thaw`].
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until `probe` succeeds, unless the program ends first.
    pub async fn ready<F, Fut>(&self, timeout: Duration, mut probe: F) -> Result<()>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<()>>,
    {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.exit_status() {
                bail!("{} ended before it was ready: {status}\n{}", self.name, self.log_tail());
            }
            let answer = match tokio::time::timeout(Duration::from_secs(5), probe()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => "no answer within 5 seconds".to_owned(),
            };
            if Instant::now() > deadline {
                bail!("{} is not ready after {timeout:?}: {answer}\n{}", self.name, self.log_tail());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// The last lines of the log, under a heading that names the file.
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }

    fn signal(&self, signal: Signal) {
        let mut state = self.state();
        if state.poll().is_none() {
            signal_group(self.pid, signal);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn poll(&mut self) -> Option<ExitStatus> {
        if self.status.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended(status);
        }
        self.status
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let status = self.child.wait().context("waiting for a process to end")?;
        self.ended(status);
        Ok(status)
    }

    /// Drops the guard too, because the process id can be reused from now on.
    fn ended(&mut self, status: ExitStatus) {
        self.status = Some(status);
        self.guard = None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let deadline = Instant::now() + DROP_GRACE;
        while self.exit_status().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.kill();
    }
}

/// The last lines of a log, under a heading that names the file.
pub(crate) fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    format!("--- the end of {} ---\n{}", log.display(), tail.join("\n"))
}

/// A shell that runs a command when this program ends without dropping the guard.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// A guard that kills the process group `pid`.
    fn over(pid: u32) -> Result<Self> {
        Self::new(r#"kill -s KILL -- "-$1""#, &pid.to_string())
    }

    /// A guard that removes `directory`.
    pub(crate) fn over_directory(directory: &Path) -> Result<Self> {
        Self::new(r#"sleep 1; rm -rf -- "$1""#, &directory.display().to_string())
    }

    /// A guard that ends what runs in a Wine prefix.
    pub(crate) fn over_prefix(prefix: &Path, wineserver: &Path) -> Result<Self> {
        let command = format!(r#"unset TMPDIR; WINEPREFIX="$1" "{}" -k"#, wineserver.display());
        Self::new(&command, &prefix.display().to_string())
    }

    /// A guard that removes the control groups of this name, as soon as no process is in them.
    pub(crate) fn over_control_groups(name: &str) -> Result<Self> {
        let command = r#"for _ in $(seq 100); do
            found=
            for group in /sys/fs/cgroup/"$1" /sys/fs/cgroup/*/"$1"; do
                [ ! -d "$group" ] || { found=yes; find "$group" -depth -type d -exec rmdir {} +; }
            done
            [ "$found" ] || exit
            sleep 0.1
        done"#;
        Self::new(command, name)
    }

    /// Runs the command, and waits for its end.
    pub(crate) fn run(mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }

    fn new(command: &str, argument: &str) -> Result<Self> {
        Command::new("sh")
            .args(["-c", &format!("read -r _\n{command}"), "guard", argument])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
            .context("starting sh, which ends what would be left over")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal_group(pid: u32, signal: Signal) {
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        // An error means that the group has already ended.
        let _ = kill_process_group(group, signal);
    }
}

/// The CPU time of a process, in user and kernel mode.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // The second field is the name in parentheses and may contain anything; utime and stime are the 14th and 15th.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(11);
    let ticks: Vec<u64> = fields.take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    if ticks.len() != 2 {
        bail!("no times in {path}: {text}");
    }
    // proc(5): in units of USER_HZ, which is 100 on every architecture that the tests run on.
    Ok(Duration::from_millis(ticks.iter().sum::<u64>() * 10))
}

/// Creates an empty file, or empties it.
pub(crate) fn touch(path: &Path) -> Result<()> {
    File::create(path).with_context(|| format!("writing {}", path.display()))?;
    Ok(())
}
