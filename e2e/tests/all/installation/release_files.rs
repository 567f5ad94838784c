//! The files of a release, by `release/build.sh` with a cargo that compiles nothing. `make test-long` compiles them, twice.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use clap::Parser;
use e2e::{assets, operator::workspace};
use release::krew;
use serde_json::{Value, json};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes a program for each package and target, the tool's bills of materials with the folder in them as it has, and the
/// arguments of the program `release`; and prints how it builds.
const CARGO: &str = r#"#!/bin/bash
set -euo pipefail
case $1 in
build)
  while (($#)); do
    case $1 in
    --target) target=$2; mkdir -p "target/$2/release"; shift ;;
    --package=*) name=${1#*=} && [[ $target != *windows* ]] || name+=.exe
      echo "$name for $target" >"target/$target/release/$name"; echo "$name $target $build $RUSTFLAGS" ;;
    *) build+="${build:+ }$1" ;;
    esac
    shift
  done ;;
cyclonedx) for folder in . crates/agent; do echo "{\"bom-ref\": \"file://$PWD\"}" >"$folder/sbom.cdx.json"; done ;;
run) shift 5; printf '%s\n' "$@" >arguments ;;
esac
"#;

/// Runs the script in this folder, and returns what it printed.
fn build(folder: &Path) -> String {
    for path in ["release", "crates/agent"] {
        fs::create_dir_all(folder.join(path)).unwrap();
    }
    fs::copy(workspace().join("release/build.sh"), folder.join("release/build.sh")).unwrap();
    fs::write(folder.join("cargo"), CARGO).unwrap();
    fs::set_permissions(folder.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut script = Command::new("bash");
    script.arg(folder.join("release/build.sh")).arg("registry.example/winpool");
    script.env("CARGO", folder.join("cargo")).env("TARGET", folder.join("target"));
    script.env("CARGO_HOME", "/cargo-home").env("SOURCE_DATE_EPOCH", "1700000000");
    let Output { status, stdout, stderr } = script.output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let arguments = fs::read_to_string(folder.join("arguments")).unwrap();
    let time = ["--time", "1700000000"];
    let arguments = ["release"].into_iter().chain(arguments.lines()).chain(time);
    release::command::ReleaseCommand::try_parse_from(arguments).unwrap().run(workspace()).unwrap();
    String::from_utf8(stdout).unwrap()
}

/// The files of a folder by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let file = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    fs::read_dir(folder).unwrap().map(|entry| file(entry.unwrap())).collect()
}

#[test]
fn a_release_has_the_same_files_wherever_it_is_built() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let built = folders.each_ref().map(|folder| build(folder.path()));
    let [here, there] = folders.each_ref().map(|folder| files(&folder.path().join("dist")));
    let names = [
        "SHA256SUMS".to_owned(),
        "install.yaml".to_owned(),
        format!("kubectl-winpool-{VERSION}-linux-amd64.tar.gz"),
        format!("kubectl-winpool-{VERSION}-linux-arm64.tar.gz"),
        format!("kubectl-winpool-{VERSION}-windows-amd64.tar.gz"),
        format!("winpool-{VERSION}-image.tar"),
        format!("winpool-{VERSION}-linux-amd64"),
        format!("winpool-{VERSION}-linux-arm64"),
        format!("winpool-{VERSION}-windows-amd64.exe"),
        format!("winpool-{VERSION}.cdx.json"),
        format!("winpool-{VERSION}.tgz"),
        format!("winpool-agent-{VERSION}-image.tar"),
        format!("winpool-agent-{VERSION}-windows-amd64.exe"),
        format!("winpool-agent-{VERSION}.cdx.json"),
        "winpool.yaml".to_owned(),
    ];
    assert_eq!(here.keys().collect::<Vec<_>>(), names.each_ref());
    for (name, content) in &here {
        assert!(*content == there[name], "{name} depends on the folder or the run");
    }
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "--quiet", "SHA256SUMS"]).current_dir(folders[0].path().join("dist"));
    assert!(check.status().unwrap().success());

    let text = |name: &str| String::from_utf8(here[name].clone()).unwrap();
    let image = text("install.yaml").lines().find_map(|line| Some(line.split_once(" image: ")?.1.to_owned())).unwrap();
    let (name, digest) = image.split_once('@').unwrap();
    assert_eq!(name, format!("registry.example/winpool:{VERSION}"));
    let show = ["show", "values", &format!("winpool-{VERSION}.tgz")].map(str::to_owned);
    let values = Command::new(assets::program("helm").unwrap())
        .args(show)
        .current_dir(folders[0].path().join("dist"))
        .output()
        .unwrap();
    assert!(String::from_utf8(values.stdout).unwrap().contains(&format!("\n  digest: {digest}\n")), "{digest}");
    let index = Command::new("tar")
        .args(["-xOf", &format!("winpool-{VERSION}-image.tar"), "index.json"])
        .current_dir(folders[0].path().join("dist"))
        .output()
        .unwrap();
    assert!(String::from_utf8(index.stdout).unwrap().contains(digest), "what a registry has under this digest");
    for (name, content) in [
        (format!("winpool-{VERSION}-linux-amd64"), "winpool for x86_64-unknown-linux-musl\n"),
        (format!("winpool-{VERSION}-linux-arm64"), "winpool for aarch64-unknown-linux-musl\n"),
        (format!("winpool-{VERSION}-windows-amd64.exe"), "winpool.exe for x86_64-pc-windows-gnu\n"),
        (format!("winpool-agent-{VERSION}-windows-amd64.exe"), "winpool-agent.exe for x86_64-pc-windows-gnu\n"),
        (format!("winpool-{VERSION}.cdx.json"), "{\"bom-ref\": \"file:///winpool\"}\n"),
    ] {
        assert_eq!(text(&name), content, "{name}");
    }
    for (folder, built) in folders.iter().zip(&built) {
        let folder = folder.path().canonicalize().unwrap().display().to_string();
        let flags = format!(
            "build --locked --release --bins --remap-path-prefix=/cargo-home=/cargo --remap-path-prefix={folder}=/winpool"
        );
        assert_eq!(built.lines().filter(|line| line.contains(&flags)).count(), 4, "{built}");
    }
}

/// What krew checks of a manifest (`internal/index/validation/validate.go`), and that its archives have program and license.
#[test]
fn the_manifest_for_krew_names_an_archive_with_program_and_license_for_each_platform() {
    let programs: [(&str, &str, &[u8]); 2] = [("linux", "arm64", b"elf"), ("windows", "amd64", b"MZ")];
    let plugin = krew::Plugin { version: "1.2.3", time: 1_700_000_000, license: b"Apache", programs: &programs };
    let folder = tempfile::tempdir().unwrap();
    let written = plugin.files().unwrap();
    written.iter().for_each(|(name, content)| fs::write(folder.path().join(name), content).unwrap());
    let manifest: Value = serde_saphyr::from_slice(&written[2].1).unwrap();
    let spec = &manifest["spec"];
    assert_eq!(written[2].0, format!("{}.yaml", manifest["metadata"]["name"].as_str().unwrap()));
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!((&manifest["kind"], &spec["version"]), (&json!("Plugin"), &json!("v1.2.3")));
    for text in ["shortDescription", "description", "homepage"] {
        assert!(spec[text].as_str().is_some_and(|text| !text.is_empty()), "{text}");
    }
    for ((os, arch, _), platform) in programs.iter().zip(spec["platforms"].as_array().unwrap()) {
        assert_eq!(platform["selector"], json!({ "matchLabels": { "os": os, "arch": arch } }));
        let (folder_of_release, name) = platform["uri"].as_str().unwrap().rsplit_once('/').unwrap();
        assert_eq!(folder_of_release, format!("{}/releases/download/v1.2.3", release::address::ADDRESS));
        let content = fs::read(folder.path().join(name)).unwrap();
        assert_eq!(platform["sha256"], release::checksums::sha256(&content));
        let listed = Command::new("tar").arg("-tzf").arg(folder.path().join(name)).output().unwrap();
        assert_eq!(
            String::from_utf8(listed.stdout).unwrap(),
            format!("{}\nLICENSE\n", platform["bin"].as_str().unwrap())
        );
    }
}
