//! `e2e/kubernetes.sh`, which fetches the programs of a control plane that Kubernetes has published: here from a server of this test.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
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

const PROGRAMS: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// What the server has: release 1.36.2, the newest of its minor, and 1.36.3 with a program that is not the one of the digest.
fn published(path: &str) -> Response {
    let program = |name: &str| format!("the program {name}\n");
    let (file, release) = match path {
        "/release/stable-1.36.txt" => return "v1.36.2".into_response(),
        path => (path.rsplit('/').next().unwrap_or_default(), path.split('/').nth(1).unwrap_or_default()),
    };
    let name = file.strip_suffix(".sha256").unwrap_or(file);
    if !PROGRAMS.contains(&name) || !["v1.36.2", "v1.36.3"].contains(&release) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let digest = Sha256::digest(program(name)).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match (file == name, release) {
        (false, _) => digest.into_response(),
        (true, "v1.36.3") => "another program".into_response(),
        (true, _) => program(name).into_response(),
    }
}

/// Runs the script for a version. The folder has etcd, which Debian has and not the server.
fn fetch(server: &Server, version: &str, out: &Path) -> Output {
    fs::create_dir_all(out).unwrap();
    fs::write(out.join("etcd"), "").unwrap();
    fs::set_permissions(out.join("etcd"), fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes.sh");
    Command::new(script).arg(version).arg(out).env("KUBERNETES_DOWNLOADS", server.url()).output().unwrap()
}

async fn server() -> Server {
    let router = Router::new().fallback(|request: Request| async move { published(request.uri().path()) });
    Server::start(None, router).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minor_stands_for_its_newest_release_and_is_fetched_once() {
    let (server, folder) = (server().await, tempfile::tempdir().unwrap());
    let out = folder.path().join("programs");
    for _ in 0..2 {
        let output = fetch(&server, "1.36", &out);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), out.to_str().unwrap());
    }
    for name in PROGRAMS {
        assert_eq!(fs::read_to_string(out.join(name)).unwrap(), format!("the program {name}\n"));
        assert_eq!(fs::metadata(out.join(name)).unwrap().permissions().mode() & 0o111, 0o111, "{name}");
        let requests = server.seen().into_iter().filter(|request| request.path.ends_with(&format!("/{name}")));
        assert_eq!(requests.count(), 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_with_another_digest_and_an_unknown_version_are_refused() {
    let (server, folder) = (server().await, tempfile::tempdir().unwrap());
    for (version, message) in [
        ("1.36.3", "/v1.36.3/bin/linux/amd64/kube-apiserver does not have the digest"),
        ("1.36.9", "cannot fetch http"),
        ("1.99", "/release/stable-1.99.txt, which names the release"),
        ("newest", "not a version of Kubernetes such as 1.36.2, 1.36 or stable: newest"),
    ] {
        let out = folder.path().join(version);
        let output = fetch(&server, version, &out);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(message), "{version}: {errors}");
        assert!(!out.join("kube-apiserver").exists(), "{version}");
    }
}
