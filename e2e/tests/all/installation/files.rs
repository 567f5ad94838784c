//! `install.yaml` and the chart in Git: they can be installed as they are, without a program that builds them.

use std::{fs, path::Path, process::Command};

use e2e::operator::workspace;
use release::{address, generated, manifest::OperatorImage};

use super::repository;

#[test]
fn install_yaml_and_the_chart_are_those_of_config_and_crds() {
    let files = generated::files(workspace()).unwrap();
    for (path, expected) in &files {
        let found = fs::read_to_string(workspace().join(path)).unwrap_or_default();
        assert!(found == *expected, "{} is not current: run `make manifests` and commit", path.display());
    }
    let obsolete = generated::obsolete(workspace(), &files).unwrap();
    assert!(obsolete.is_empty(), "{obsolete:?}: run `make manifests` and commit");
}

#[test]
fn one_line_of_install_yaml_is_the_image() {
    let text = fs::read_to_string(workspace().join("install.yaml")).unwrap();
    let images: Vec<_> = text.lines().filter(|line| line.trim_start().starts_with("image:")).collect();
    let expected = format!("        image: {}:{}", repository(), env!("CARGO_PKG_VERSION"));
    assert_eq!(images, [expected]);
}

/// That the operator logs them and continues when the part is there: `bad_input` and `cluster_wide`.
#[test]
fn the_page_about_installation_has_the_messages_of_an_incomplete_one() {
    let page = fs::read_to_string(workspace().join("docs/install.md")).unwrap();
    for part in ["cannot list resource", "kubectl apply -k crds", "the server doesn't have a resource type \"wnp\""] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn the_owner_is_replaced_wherever_the_address_is_shown() {
    for (text, expected) in [
        ("home: https://github.com/OWNER/winpool", "home: https://github.com/example/winpool"),
        ("https://github.com/former/winpool/blob/main/a.md#b", "https://github.com/example/winpool/blob/main/a.md#b"),
        ("- uses: OWNER/winpool@REF\n", "- uses: example/winpool@REF\n"),
        ("`gh attestation verify F --repo OWNER/winpool` | a", "`gh attestation verify F --repo example/winpool` | a"),
        ("- uses: actions/checkout@v4", "- uses: actions/checkout@v4"),
        ("https://github.com/kubernetes/a and a/winpool", "https://github.com/kubernetes/a and a/winpool"),
    ] {
        assert_eq!(address::with_owner(text, "example"), expected);
    }
}

/// A copy of the files of the repository from which others follow.
fn copy(to: &Path) {
    let paths = [".github", "RELEASING.md", "SECURITY-INSIGHTS.yml", "charts", "config", "crds", "docs", "e2e"];
    assert!(
        Command::new("cp").arg("-r").args(paths.map(|path| workspace().join(path))).arg(to).status().unwrap().success()
    );
}

#[test]
fn the_repository_of_the_image_is_set_in_one_place() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    copy(root);
    let kustomization = root.join("config/default/kustomization.yaml");
    let text = fs::read_to_string(&kustomization).unwrap();
    fs::write(&kustomization, text.replace(&repository(), "ghcr.io/another/winpool")).unwrap();
    let obsolete = root.join("charts/winpool/files/config/default/former.yaml");
    fs::write(&obsolete, "").unwrap();

    generated::write(root).unwrap();
    assert_eq!(OperatorImage::read(root).unwrap().repository, "ghcr.io/another/winpool");
    for (file, line) in [
        ("install.yaml", format!("        image: ghcr.io/another/winpool:{}\n", env!("CARGO_PKG_VERSION"))),
        ("config/agent/kustomization.yaml", "  newName: ghcr.io/another/winpool-agent\n".to_owned()),
        ("charts/winpool/values.yaml", "  repository: ghcr.io/another/winpool\n".to_owned()),
        ("charts/winpool/values.yaml", "    repository: ghcr.io/another/winpool-agent\n".to_owned()),
        (
            "charts/winpool/Chart.yaml",
            format!("      image: ghcr.io/another/winpool-agent:{}\n", env!("CARGO_PKG_VERSION")),
        ),
    ] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        assert!(text.contains(&line), "{file}: {text}");
    }
    assert!(!obsolete.exists());
    // Nothing else changes.
    let difference = Command::new("diff").arg("-r").arg(workspace().join("charts")).arg(root.join("charts")).output();
    let difference = String::from_utf8(difference.unwrap().stdout).unwrap();
    assert_eq!(difference.lines().filter(|line| line.starts_with(['<', '>'])).count(), 8, "{difference}");
}
