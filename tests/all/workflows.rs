//! Workflows name the commits of actions and one exact version of Rust, may only read, and sign what docs/signatures.md names.

use std::{fs, path::Path};

use toml::Table;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The workflows, by name.
fn workflows() -> Vec<(String, String)> {
    let files = fs::read_dir(root().join(".github/workflows")).unwrap();
    let workflow =
        |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap());
    files.map(|entry| workflow(entry.unwrap())).collect()
}

/// The lines of all workflows, without indentation.
fn lines() -> Vec<String> {
    let texts = workflows().into_iter();
    texts.flat_map(|(_, text)| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()).collect()
}

#[test]
fn workflows_may_only_read_but_for_the_job_that_publishes() {
    for (name, text) in workflows() {
        assert!(text.contains("\npermissions:\n  contents: read\n"), "{name}");
        let writes: Vec<_> = text.lines().map(str::trim).filter(|line| line.ends_with(": write")).collect();
        let publishes = [
            "contents: write",
            "packages: write",
            "id-token: write",
            "attestations: write",
            "artifact-metadata: write",
        ];
        assert_eq!(writes, if name == "release.yml" { &publishes[..] } else { &[] }, "{name}");
    }
}

#[test]
fn the_page_about_verification_names_what_the_workflow_publishes_and_signs() {
    let (page, workflow) = (read("docs/signatures.md"), read(".github/workflows/release.yml"));
    let identity = concat!(env!("CARGO_PKG_REPOSITORY"), "/.github/workflows/release.yml@refs/tags/v");
    assert!(
        page.contains(&format!("| identity | `{identity}<version>` |")) && workflow.contains("\n    tags: [\"v*\"]\n")
    );
    assert_eq!(page.matches(&format!("--certificate-identity {identity}")).count(), 2);
    // In the workflow, IMAGE is `registry.example/winpool`, and CHART is below the same registry.
    for (name, pushed, signed) in [
        ("registry.example/winpool", "docker://$IMAGE:$version", "$IMAGE@$DIGEST"),
        ("registry.example/winpool-agent", "docker://$IMAGE-agent:$version", "$IMAGE-agent@$AGENT_DIGEST"),
        ("registry.example/charts/winpool", "oci://${IMAGE%/*}/charts", "$CHART"),
    ] {
        assert!(page.contains(&format!("`{name}`")), "{name}");
        assert!(workflow.contains(pushed), "{pushed}");
        let signs = workflow.lines().find(|line| line.contains("cosign sign --yes")).unwrap();
        assert!(signs.contains(&format!("\"{signed}\"")), "{signed}");
    }
    assert!(page.contains("cosign verify-blob SHA256SUMS --bundle SHA256SUMS.sigstore.json"));
    assert!(workflow.contains("--bundle dist/SHA256SUMS.sigstore.json dist/SHA256SUMS"));
    // Provenance of files, two images and the chart, and the bills of materials of the images.
    assert_eq!((workflow.matches("actions/attest@").count(), workflow.matches("sbom-path: ").count()), (6, 2));
}

#[test]
fn every_action_of_a_workflow_is_pinned_to_a_commit_with_its_version_beside_it() {
    let lines = lines();
    let uses = lines.iter().filter_map(|line| Some(line.split_once("uses: ")?.1));
    let uses: Vec<_> = uses.filter(|uses| !uses.starts_with("./")).collect();
    assert!(uses.len() >= 10, "{uses:?}");
    for uses in uses {
        let (commit, version) = uses.split_once('@').and_then(|(_, at)| at.split_once(" # v")).unwrap_or_default();
        let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_commit && !version.is_empty(), "{uses}");
    }
}

#[test]
fn workflows_and_images_are_built_by_one_exact_version_of_rust() {
    let (lines, containerfile) = (lines(), fs::read_to_string(root().join("Containerfile")).unwrap());
    let builder = containerfile.lines().find_map(|line| line.strip_prefix("ARG BUILDER=")).unwrap();
    let images: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("container: ")).collect();
    assert!(images.len() >= 3 && images.iter().all(|image| *image == builder), "{builder} {images:?}");
    let tag = builder.strip_prefix("rust:").and_then(|tag| tag.split('-').next()).unwrap();
    let numbers: Vec<u32> = tag.split('.').map(|number| number.parse().unwrap()).collect();
    assert_eq!(numbers.len(), 3, "{tag} names a patch release");
    let manifest: Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let least = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    let least: Vec<u32> = least.split('.').map(|number| number.parse().unwrap()).collect();
    assert!(numbers[..2] >= least[..], "{tag} is at least the version in Cargo.toml");
}
