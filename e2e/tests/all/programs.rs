//! `e2e/program.sh` with published programs, which a server of this test has. Building them is what every other test relies on.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use axum::{
    Router,
    extract::Request,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};

use crate::registry::server::Server;

const PUBLISHED: [&str; 3] = ["kube-apiserver", "kubectl", "kubelet.exe"];

/// What the server has: release 1.36.2, the newest of its minor, and 1.36.3 with programs that are not those of the digests; and etcd
/// of the pinned version, as an archive.
fn published(path: &str) -> Response {
    let program = |name: &str| format!("the program {name}\n").into_bytes();
    let digest = |content: &[u8]| Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (folder, file) = path.rsplit_once('/').unwrap_or_default();
    let name = file.strip_suffix(".sha256").unwrap_or(file);
    match folder.split('/').nth(1).unwrap_or_default() {
        "release" if file == "stable-1.36.txt" => "v1.36.2".into_response(),
        "v1.36.2" | "v1.36.3" if PUBLISHED.contains(&name) => match (file == name, folder.contains("v1.36.3")) {
            (false, _) => digest(&program(name)).into_response(),
            (true, true) => "another program".into_response(),
            (true, false) => program(name).into_response(),
        },
        "etcd-io" if file == "SHA256SUMS" => {
            let version = folder.rsplit('/').next().unwrap_or_default();
            let name = format!("etcd-{version}-linux-amd64.tar.gz");
            format!("{}  other\n{}  {name}\n", digest(b"other"), digest(&etcd_archive(version))).into_response()
        }
        "etcd-io" if file.ends_with("-linux-amd64.tar.gz") => {
            etcd_archive(folder.rsplit('/').next().unwrap_or_default()).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// An archive as etcd publishes it, the same at each call.
fn etcd_archive(version: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join(format!("etcd-{version}-linux-amd64"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("etcd"), "the program etcd\n").unwrap();
    let tar = Command::new("tar")
        .args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--gzip", "-c", "-C"])
        .arg(directory.path())
        .arg(folder.file_name().unwrap())
        .output();
    tar.unwrap().stdout
}

/// Runs the script with a cache of its own.
fn program(server: &Server, cache: &Path, kubernetes: &str, name: &str) -> Output {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("program.sh"))
        .arg(name)
        .envs([
            ("KUBERNETES", kubernetes),
            ("KUBERNETES_DOWNLOADS", &server.url()),
            ("RELEASE_DOWNLOADS", &server.url()),
        ])
        .env("XDG_CACHE_HOME", cache)
        .output()
        .unwrap()
}

async fn server() -> Server {
    let router = Router::new().fallback(|request: Request| async move { published(request.uri().path()) });
    Server::start(None, router).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn published_programs_are_fetched_once() {
    let (server, cache) = (server().await, tempfile::tempdir().unwrap());
    for (kubernetes, name, folder) in [
        ("1.36", "kube-apiserver", "kubernetes-1.36.2"),
        ("1.36.2", "kubectl", "kubernetes-1.36.2"),
        ("v1.36.2", "kubelet.exe", "kubernetes-1.36.2"),
        ("", "etcd", "etcd-"),
    ] {
        for _ in 0..2 {
            let output = program(&server, cache.path(), kubernetes, name);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("the program {name}\n"));
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o111, 0o111, "{name}");
            let parent = path.parent().unwrap();
            assert_eq!(parent.parent().unwrap(), cache.path().join("winpool/programs"));
            assert!(parent.file_name().unwrap().to_str().unwrap().starts_with(folder), "{}", path.display());
        }
        let fetched = |path: &str| path.ends_with(&format!("/{name}")) || path.contains(&format!("/{name}-v"));
        assert_eq!(server.seen().iter().filter(|request| fetched(&request.path)).count(), 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_with_another_digest_and_an_unknown_version_are_refused() {
    let (server, cache) = (server().await, tempfile::tempdir().unwrap());
    for (kubernetes, name, message) in [
        ("1.36.3", "kube-apiserver", "/v1.36.3/bin/linux/amd64/kube-apiserver does not have the digest"),
        ("1.36.9", "kube-apiserver", "cannot fetch http"),
        ("1.99", "kube-apiserver", "/release/stable-1.99.txt, which names the release"),
        ("newest", "kube-apiserver", "not a version of Kubernetes such as 1.34.0, 1.34 or stable: newest"),
        ("", "kube-dns", "no program of the name kube-dns"),
    ] {
        let output = program(&server, cache.path(), kubernetes, name);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(message), "{kubernetes} {name}: {errors}");
        assert!(output.stdout.is_empty(), "{kubernetes} {name}");
    }
    let left: Vec<_> =
        fs::read_dir(cache.path().join("winpool/programs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!left.iter().any(|path| path.to_string_lossy().contains("building")), "{left:?}");
}
