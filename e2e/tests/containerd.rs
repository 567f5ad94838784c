//! containerd itself as the judge of the configuration that Windows nodes are given: `containerd config dump` reads a
//! file as the daemon does, and prints what it understood. Windows paths are only text to it.

use std::{
    fs,
    io::{self, Write},
    process::Command,
};

use anyhow::{Context, Result, anyhow, ensure};
use toml::{Table, Value};
use winpool::{
    api::{Cni, RegistryMirror},
    domain::render::containerd::{Containerd, toml},
    facts::{
        ContainerdVersion,
        containerd::{self as facts, CniBin, DIFFERS, GENERATIONS, HYPERV_HANDLER, Keys, PROCESS_HANDLER},
    },
};

const PAUSE: &str = "mcr.microsoft.com/oss/kubernetes/pause:3.9";

/// The version of the containerd that is installed, if one is.
fn installed() -> Option<ContainerdVersion> {
    let output = Command::new("containerd").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace().find_map(|word| word.trim_start_matches('v').parse().ok())
}

/// What containerd understood of a file.
fn dump(file: &str) -> Result<Table> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("config.toml");
    fs::write(&path, file)?;
    let output = Command::new("containerd").arg("--config").arg(&path).args(["config", "dump"]).output()?;
    ensure!(output.status.success(), "refused: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.parse()?)
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Result<&'a Value> {
    let (first, rest) = path.split_first().context("a path has keys")?;
    let found = rest.iter().try_fold(table.get(*first), |value, key| Some(value?.get(key)));
    found.flatten().with_context(|| format!("no {path:?}"))
}

/// Asks containerd about a file, and compares what it understood with what was meant.
fn judge(file: &str, meant: &Table, keys: &Keys) -> Result<()> {
    let understood = dump(file)?;
    let runtime = |handler, setting| [keys.runtimes, &[handler, setting]].concat();
    let (CniBin::Directory(cni_bin) | CniBin::Directories(cni_bin)) = keys.cni_bin;
    let mut paths = vec![
        vec!["root"],
        vec!["state"],
        [keys.grpc, &["address"]].concat(),
        keys.sandbox_image.to_vec(),
        keys.snapshotter.to_vec(),
        keys.default_runtime_name.to_vec(),
        cni_bin.to_vec(),
        keys.cni_conf_dir.to_vec(),
        DIFFERS.to_vec(),
        runtime(PROCESS_HANDLER, "runtime_type"),
        runtime(HYPERV_HANDLER, "runtime_type"),
        runtime(HYPERV_HANDLER, "options"),
    ];
    paths.extend(keys.registry_config_path.map(<[_]>::to_vec));
    for path in paths {
        let (said, heard) = (at(meant, &path)?, at(&understood, &path)?);
        ensure!(said == heard, "{path:?}: we said {said}, containerd understood {heard}");
    }
    Ok(())
}

fn rendered(version: ContainerdVersion, cni: &Cni) -> Result<String> {
    let mirrors = [RegistryMirror { registry: "docker.io".into(), endpoints: vec!["https://mirror.example".into()] }];
    toml(&Containerd { version, pause_image: PAUSE, cni, mirrors: &mirrors }).map_err(|problem| anyhow!("{problem}"))
}

#[test]
fn containerd_understands_the_file_for_its_own_version() {
    let Some(version) = installed() else {
        // Straight to stderr: the test harness keeps what a passing test prints.
        let name = "containerd_understands_the_file_for_its_own_version";
        writeln!(io::stderr(), "skipped: {name}: containerd is not installed").unwrap();
        return;
    };
    let cni = Cni { bin_dir: r"C:\it's\cni bin".into(), conf_dir: String::new() };
    let generation = facts::generation(version).unwrap();

    let odd = rendered(version, &cni).unwrap();
    judge(&odd, &odd.parse().unwrap(), generation.keys).unwrap();
    let file = rendered(version, &Cni::default()).unwrap();
    let meant = file.parse().unwrap();
    judge(&file, &meant, generation.keys).unwrap();

    // A file that is wrong does not pass.
    let version_line = format!("version = {}", generation.config_version);
    let broken = [
        ("a number for a text", format!("\"{PAUSE}\""), "5"),
        ("a text for a number", version_line, "version = \"two\""),
        ("a setting of another name", "default_runtime_name".into(), "default_runtime"),
        ("a table that is not closed", "[plugins".into(), "plugins"),
    ];
    for (what, right, wrong) in broken {
        assert!(file.contains(&right), "{right} is in the file");
        let file = file.replacen(&right, wrong, 1);
        assert!(judge(&file, &meant, generation.keys).is_err(), "{what} goes unnoticed");
    }
    if let Some(newer) = GENERATIONS.iter().find(|newer| newer.config_version > generation.config_version) {
        let file = rendered(newer.first, &Cni::default()).unwrap();
        assert!(judge(&file, &meant, generation.keys).is_err(), "the file for {} goes unnoticed", newer.first);
    }
}
