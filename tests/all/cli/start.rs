//! The start of `winpool run`.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::json;

use super::{folder, winpool};

/// An API server with this minor, which answers every request with its version. Returns its address, and the first lines of the
/// requests.
fn api_server(minor: &str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let version = json!({
        "major": "1", "minor": minor, "gitVersion": format!("v1.{minor}"), "gitCommit": "", "gitTreeState": "", "buildDate": "",
        "goVersion": "", "compiler": "", "platform": "",
    });
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let seen = requests.clone();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let request = answer(&connection, &version.to_string());
            seen.lock().unwrap().extend(request);
        }
    });
    (address, requests)
}

/// Answers one request, and returns its first line.
fn answer(mut connection: &TcpStream, body: &str) -> Option<String> {
    let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
    let first = lines.next()?;
    lines.find(String::is_empty)?;
    let head = format!("Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close", body.len());
    write!(connection, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").ok()?;
    Some(first)
}

#[test]
fn the_operator_ends_on_an_older_kubernetes_than_1_30_and_writes_nothing() {
    for (minor, name) in [("29", "1.29"), ("29+", "1.29"), ("20", "1.20")] {
        let (address, requests) = api_server(minor);
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "old",
            "clusters": [{"name": "old", "cluster": {"server": format!("http://{address}")}}],
            "contexts": [{"name": "old", "context": {"cluster": "old", "user": "me"}}],
            "users": [{"name": "me", "user": {}}],
        });
        let folder = folder(&[("kubeconfig", &kubeconfig.to_string())]);
        let run = winpool(folder.path(), &["run", "--kubeconfig", "kubeconfig", "--admin-address", "127.0.0.1:0"]);
        assert_eq!(run.status, 5, "{}", run.stderr);
        let expected = format!(
            "winpool: the API server has Kubernetes {name}, which no release of winpool supports. Upgrade the cluster to Kubernetes \
             1.30 or later, or remove winpool from it\n"
        );
        assert!(run.stderr.ends_with(&expected), "{}", run.stderr);
        let requests = requests.lock().unwrap();
        assert!(!requests.is_empty() && requests.iter().all(|request| request.starts_with("GET ")), "{requests:?}");
    }
}
