//! The documents for platforms, and their reports, as golden files in `tests/golden/platforms`: for each target, those of
//! `pools.yaml` there, and for RKE2 also those of a kubelet without a directory of configuration.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use winpool::render::{Documents, platform_files};
use winpool_check::{
    manifests::{Budget, ManifestSet, Manifests},
    render::snapshot,
};
use winpool_core::Objects;
use winpool_facts::{Minor, platforms::Platform};
use winpool_rules::pool::configs::ExpectedNode;

use crate::golden;

/// The folder of the golden files of each target, and the kubelet for which it is rendered.
const TARGETS: [(&str, Platform, Minor); 6] = [
    ("eks-nodegroup", Platform::Eks, Minor(36)),
    ("aks-nodepool", Platform::Aks, Minor(36)),
    ("karpenter-ec2nodeclass", Platform::Karpenter, Minor(36)),
    ("karpenter-user-data", Platform::KarpenterUserData, Minor(36)),
    ("rke2", Platform::Rke2, Minor(36)),
    ("rke2-with-flags", Platform::Rke2, Minor(31)),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/platforms")
}

fn rendered(target: Platform, kubelet: Minor) -> Documents {
    let input = folder().join("pools.yaml");
    let resources = ManifestSet::new(Manifests::read(&[input], &mut Budget::unbounded()).unwrap()).unwrap();
    let expected_node = ExpectedNode { kubelet, containerd: None };
    let snapshot = snapshot(&resources, Objects::default(), "winpool-system");
    platform_files(&snapshot, &[expected_node], &resources, target).unwrap()
}

/// The files by path, without the digest in the name of a configuration.
fn expected() -> BTreeMap<PathBuf, String> {
    let mut golden = BTreeMap::new();
    for (name, target, kubelet) in TARGETS {
        let files = rendered(target, kubelet);
        golden.insert(Path::new(name).join("notes.txt"), files.notes.join("\n") + "\n");
        for (path, text) in files.files() {
            let (directory, file) = path.split_once('/').unwrap();
            let pool = if directory.starts_with("web-2022") { "web-2022" } else { directory };
            assert_eq!(golden.insert(Path::new(name).join(pool).join(file), text), None, "{path} is the only one");
        }
    }
    golden
}

#[test]
fn the_documents_are_those_of_the_golden_files() {
    golden::check(&folder(), &expected(), "golden_platforms");
}

#[test]
fn losses_are_notes_and_not_failures() {
    for (target, ..) in &TARGETS[..5] {
        let mut render = Command::new(env!("CARGO_BIN_EXE_winpool"));
        render.args(["render", "--target", target, "--kubernetes", "1.36", "-f"]).arg(folder().join("pools.yaml"));
        let output = render.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{target}: {stderr}");
        for pool in ["web-2022", "plain-2025"] {
            assert_eq!(stderr.lines().filter(|line| line.contains(&format!("pool {pool}: "))).count(), 1, "{stderr}");
        }
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.starts_with("# Pool "), "{target}: {stdout}");
        assert!(stdout.contains("\n# proxy: "), "{target}: {stdout}");
    }
}
