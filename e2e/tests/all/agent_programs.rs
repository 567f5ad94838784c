//! The programs for Windows and the agent's adapter, under Wine.
//!
//! Not shown by Wine: access control lists, the mounts and the token of a HostProcess container, and the failure actions
//! of services.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{LazyLock, Once},
};

use e2e::{
    assets, operator,
    wine::{Prefix, RUNNER},
};
use tempfile::TempDir;

/// A command of cargo for the Windows target.
fn cargo(arguments: &str) -> Command {
    static PACKAGES: Once = Once::new();
    PACKAGES.call_once(|| {
        let mut make = Command::new("make");
        let status = make.arg("windows-packages").current_dir(operator::workspace()).status().unwrap();
        assert!(status.success(), "make windows-packages: {status}");
    });
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [assets::windows_compiler().unwrap()].into_iter().chain(env::split_paths(&path));
    cargo
        .env("PATH", env::join_paths(folders).unwrap())
        .args(arguments.split_whitespace())
        .args(["--package", "e2e-windows", "--target", "x86_64-pc-windows-gnu", "--target-dir"])
        .arg(target());
    cargo.current_dir(operator::workspace()).env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", RUNNER);
    // What the cargo that runs this test has set: a build with it shares nothing with the one before the tests.
    let of_test = |name: &OsString| {
        let prefixes = ["CARGO_MANIFEST_", "CARGO_PKG_", "CLIPPY_ARGS", "RUSTC_WORKSPACE_WRAPPER"];
        name.to_str().is_some_and(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
    };
    for (name, _) in env::vars_os().filter(|(name, _)| of_test(name)) {
        cargo.env_remove(name);
    }
    cargo
}

/// The target directory that this test is in: `<target>/<profile>/deps/<test>`.
fn target() -> PathBuf {
    env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// The directory of `winpool.exe`, `winpool-agent.exe` and the programs of `e2e-windows`, which cargo builds if they are not up
/// to date.
fn windows_programs() -> PathBuf {
    let build = "build --quiet --package winpool --package winpool-agent --no-default-features --bins";
    let status = cargo(build).status().unwrap();
    assert!(status.success(), "the programs for Windows do not build: {status}");
    target().join("x86_64-pc-windows-gnu/debug")
}

/// `winpool.exe`.
fn windows_binary() -> PathBuf {
    windows_programs().join("winpool.exe")
}

/// [`windows_programs`] without debug information, which is most of their size: the agent copies its own. Sections begin at pages, so
/// that Wine maps them: it would read a program as a whole whenever it starts.
pub(crate) fn stripped_programs() -> &'static Path {
    static STRIPPED: LazyLock<PathBuf> = LazyLock::new(|| {
        let programs = windows_programs();
        let directory = programs.join("stripped");
        fs::create_dir_all(&directory).unwrap();
        for program in fs::read_dir(&programs).unwrap().map(|entry| entry.unwrap().path()) {
            if program.extension().is_some_and(|extension| extension == "exe") {
                strip(&program, &directory.join(program.file_name().unwrap()));
            }
        }
        directory
    });
    &STRIPPED
}

/// Writes a program without debug information, unless it is up to date.
fn strip(program: &Path, stripped: &Path) {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    if modified(stripped) >= modified(program) {
        return;
    }
    let new = stripped.with_extension("new");
    let arguments = ["--strip-all", "--file-alignment=4096"];
    let objcopy = assets::windows_compiler().unwrap().join("x86_64-w64-mingw32-objcopy");
    let status = Command::new(objcopy).args(arguments).args([program, &new]).status().unwrap();
    assert!(status.success(), "x86_64-w64-mingw32-objcopy: {status}");
    fs::rename(new, stripped).unwrap();
}

#[test]
fn the_adapter_for_windows_works_under_wine() {
    assets::wine().unwrap();
    let tests = cargo("test --test adapter").args(["--", "--test-threads=1"]).output().unwrap();
    let output = format!("{}\n{}", String::from_utf8_lossy(&tests.stderr), String::from_utf8_lossy(&tests.stdout));
    assert!(tests.status.success(), "{output}");
    let summary = output.lines().find_map(|line| line.strip_prefix("test result: ok. ")).unwrap();
    assert!(!summary.starts_with("0 passed") && summary.contains("; 0 ignored;"), "{output}");
}

/// Runs a program in the directory of the samples.
fn run(mut command: Command, arguments: &[&str]) -> Output {
    let samples = operator::workspace().join("config/samples");
    command.args(arguments).current_dir(samples).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn lint_and_render_print_the_same_bytes_on_windows_and_on_linux() {
    let prefix = Prefix::shared().unwrap();
    let (windows, linux) = (windows_binary(), operator::binary().unwrap());
    let (profile, pool, old_pool) = ("1-profile-standard.yaml", "2-pool-web-2022.yaml", "2-pool-batch-2019.yaml");
    for (arguments, status) in [
        (&["lint", "-f", profile, "-f", pool, "-f", old_pool][..], 0),
        (&["lint", "-f", pool, "--output", "sarif"], 1),
        (&["lint", "-f", "../../crates/check/tests/lint/daemonset-runtime-class/bad.yaml"], 1),
        (&["lint", "-f", "none.yaml"], 2),
        (&["render", "-f", profile, "-f", pool, "-f", old_pool], 0),
        (&["render", "-f", profile, "-f", pool, "--output", "json", "--kubernetes", "1.30"], 0),
        (&["crds"], 0),
    ] {
        let [expected, actual] = [Command::new(linux), prefix.command(&windows)].map(|program| run(program, arguments));
        assert_eq!(expected.status.code(), Some(status), "{arguments:?}: {expected:?}");
        assert_eq!(actual.status.code(), Some(status), "{arguments:?}: {actual:?}");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        assert_eq!(text(actual.stdout), text(expected.stdout), "{arguments:?}");
    }
}

/// The files below a directory, by their path in it.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for path in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
            } else {
                files.insert(path.strip_prefix(directory).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn render_writes_the_same_files_on_windows_and_on_linux() {
    let prefix = Prefix::shared().unwrap();
    let (windows, linux) = (windows_binary(), operator::binary().unwrap());
    let out = TempDir::new().unwrap();
    let [expected, actual] =
        [("linux", Command::new(linux)), ("windows", prefix.command(&windows))].map(|(name, program)| {
            let directory = out.path().join(name);
            let samples = ["1-profile-standard.yaml", "2-pool-web-2022.yaml", "2-pool-batch-2019.yaml"];
            let mut arguments = vec!["render", "--out", directory.to_str().unwrap()];
            arguments.extend(samples.iter().flat_map(|sample| ["-f", sample]));
            let output = run(program, &arguments);
            assert!(output.status.success(), "{output:?}");
            files(&directory)
        });
    assert!(expected.keys().any(|path| path.ends_with("kubelet.yaml")));
    assert_eq!(actual, expected);
}
