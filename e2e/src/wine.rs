//! Windows programs under Wine.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use tempfile::NamedTempFile;

use crate::{assets, directory::Directory, process::Guard};

/// With this variable, Wine 10 ends at its start.
const UNUSABLE: &str = "TMPDIR";
/// One run of a program takes about a second, the first some more.
const LIMIT: Duration = Duration::from_secs(300);

/// A Wine prefix: a Windows system with services, a registry and a drive `C:` of its own. Everything that runs in it ends
/// with this value, and also when this program is killed.
#[derive(Debug)]
pub struct Prefix {
    wineserver: PathBuf,
    /// A program that waits for the end of its input. Without one, Wine would end its system processes between two others.
    session: Child,
    _guard: Guard,
    directory: Directory,
}

impl Prefix {
    /// A new, initialized prefix.
    pub fn new() -> Result<Self> {
        let wine = assets::wine()?;
        let wineserver = wine.join("bin/wineserver");
        let directory = Directory::new()?;
        let guard = Guard::over_prefix(directory.path(), &wineserver)?;
        let mut session = program(directory.path(), Path::new("cmd.exe"))
            .args(["/c", "echo ready& more"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {RUNNER}"))?;
        // Wine's system processes inherit the output of the first program, which therefore does not end before they do.
        let mut line = String::new();
        BufReader::new(session.stdout.take().context("its output")?).read_line(&mut line)?;
        let prefix = Self { wineserver, session, _guard: guard, directory };
        ensure!(line.starts_with("ready"), "no Windows program runs under Wine: {line:?}");
        Ok(prefix)
    }

    /// One prefix for all programs that change nothing in it: its initialization takes seconds.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Prefix, String>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| Self::new().map_err(|error| format!("{error:#}")));
        shared.as_ref().map_err(|text| anyhow!("{text}"))
    }

    /// The directory of the drive `C:`.
    pub fn drive_c(&self) -> PathBuf {
        self.directory.path().join("drive_c")
    }

    /// The file of this system for a path on the drive `C:`.
    pub fn file(&self, windows: &str) -> PathBuf {
        self.drive_c().join(windows.trim_start_matches(r"C:\").replace('\\', "/"))
    }

    /// Writes a file on the drive `C:`, with its directories.
    pub fn write(&self, windows: &str, text: &str) -> Result<()> {
        let file = self.file(windows);
        fs::create_dir_all(file.parent().context("a directory")?)?;
        fs::write(file, text).with_context(|| windows.to_owned())
    }

    /// The output of a Windows program until it ends, or its output is enough: then it is ended.
    pub fn output_until(&self, command: &mut Command, is_enough: impl Fn(&str) -> bool) -> Result<String> {
        let log = NamedTempFile::new()?;
        let output = File::create(log.path())?;
        let mut child = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).spawn()?;
        let begun = Instant::now();
        loop {
            let ended = child.try_wait()?.is_some();
            let output = String::from_utf8_lossy(&fs::read(log.path())?).into_owned();
            if ended {
                return Ok(output);
            }
            let is_late = begun.elapsed() > LIMIT;
            if is_late || is_enough(&output) {
                child.kill()?;
                child.wait()?;
                ensure!(!is_late, "{command:?} did not end: {output}");
                return Ok(output);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// A Windows program. Killing the process ends the program, but not its children.
    pub fn command(&self, path: &Path) -> Command {
        program(self.directory.path(), path)
    }
}

fn program(prefix: &Path, path: &Path) -> Command {
    let mut command = Command::new(RUNNER);
    command.arg(path).env("WINEPREFIX", prefix).env_remove(UNUSABLE);
    command
}

/// The script that runs a Windows program, also as a runner of cargo.
pub const RUNNER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/wine-run.sh");

impl Drop for Prefix {
    fn drop(&mut self) {
        let mut end = Command::new(&self.wineserver);
        let _ = end.arg("-k").env("WINEPREFIX", self.directory.path()).env_remove(UNUSABLE).status();
        let _ = self.session.kill();
        let _ = self.session.wait();
    }
}

/// The path on the drive `Z:` of a path of this system.
pub fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}
