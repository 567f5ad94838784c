//! Programs with a time limit, and process trees.

use std::{
    env,
    io::{self, Read},
    os::windows::process::CommandExt,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use super::super::host::ProgramOutput;

/// What is kept of each output stream, in bytes. The rest is read and discarded, so that the program does not block.
const OUTPUT_LIMIT: usize = 1 << 20;
/// How long the output of a program that has ended may take, if a child process has inherited it.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);
/// <https://learn.microsoft.com/windows/win32/procthread/process-creation-flags>
const CREATE_NO_WINDOW: u32 = 0x0800_0000;
/// The exit code of `taskkill` for a process that does not exist.
const NO_SUCH_PROCESS: i32 = 128;

pub(super) fn run(program: &str, arguments: &[String], limit: Duration) -> io::Result<ProgramOutput> {
    let deadline = Instant::now() + limit;
    let mut child = hidden(program).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let status = match wait(&mut child, deadline)? {
        Some(status) => Some(status),
        None => {
            // Its children first: they cannot be found without it.
            kill(child.id()).or_else(|_| child.kill())?;
            child.wait()?;
            None
        }
    };
    let end = Instant::now() + OUTPUT_GRACE;
    let output = |stream: Option<Receiver<Vec<u8>>>| stream.map(|parts| received(&parts, end)).unwrap_or_default();
    Ok(ProgramOutput { code: status.and_then(|status| status.code()), stdout: output(stdout), stderr: output(stderr) })
}

/// The processes of a program, by the name of its file. `tasklist` is part of Windows.
pub(super) fn processes(program: &str) -> io::Result<Vec<u32>> {
    let filter = format!("imagename eq {program}");
    let output = hidden(&system_program("tasklist.exe")).args(["/fo", "csv", "/nh", "/fi", &filter]).output()?;
    match output.status.code() {
        Some(0) => Ok(pids(&String::from_utf8_lossy(&output.stdout))),
        _ => Err(failed("tasklist", &output)),
    }
}

/// The second column. If there is no process, the output is a sentence.
fn pids(csv: &str) -> Vec<u32> {
    csv.lines().filter_map(|line| line.strip_prefix('"')?.split("\",\"").nth(1)?.parse().ok()).collect()
}

fn system_program(name: &str) -> String {
    let root = env::var("SystemRoot").unwrap_or_else(|_| r"C:\Windows".to_owned());
    format!(r"{root}\System32\{name}")
}

/// Ends a process and its child processes. `taskkill` is part of Windows, and finds the children of a process.
pub(super) fn kill(pid: u32) -> io::Result<()> {
    let mut taskkill = hidden(&system_program("taskkill.exe"));
    let output = taskkill.args(["/t", "/f", "/pid", &pid.to_string()]).output()?;
    match output.status.code() {
        Some(0 | NO_SUCH_PROCESS) => Ok(()),
        _ => Err(failed(&format!("taskkill /t /f /pid {pid}"), &output)),
    }
}

fn failed(command: &str, output: &Output) -> io::Error {
    io::Error::other(format!("{command}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

/// A program without console window and without input.
fn hidden(program: &str) -> Command {
    let mut command = Command::new(program);
    command.creation_flags(CREATE_NO_WINDOW).stdin(Stdio::null());
    command
}

/// Waits until a program ends; `None` if it still runs at the deadline.
fn wait(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        match child.try_wait()? {
            None if Instant::now() < deadline => thread::sleep(POLL),
            status => return Ok(status),
        }
    }
}

/// Reads a stream in a thread, which ends with the last process that has the stream open.
fn collect(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut remaining = OUTPUT_LIMIT;
        let mut buffer = [0; 8192];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            let kept = read.min(remaining);
            remaining -= kept;
            if kept > 0 && sender.send(buffer[..kept].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// What was read of a stream until its end, or until the given time.
fn received(parts: &Receiver<Vec<u8>>, end: Instant) -> Vec<u8> {
    let mut all = Vec::new();
    while let Ok(part) = parts.recv_timeout(end.saturating_duration_since(Instant::now())) {
        all.extend(part);
    }
    all
}
