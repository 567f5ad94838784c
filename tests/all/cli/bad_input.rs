//! Wrong options and kubeconfigs: one line on stderr, and exit status 2. `e2e/tests/all/bad_input.rs` has what needs a server.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
};

/// A kubeconfig for a server that does not exist.
const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: x}}]
contexts: [{name: a, context: {cluster: a, user: u}}]
";

/// Exit status and stderr of a command that ends by itself.
fn ended(folder: &Path, args: &[&str], environment: &[(&str, &str)]) -> (i32, String) {
    let output = Command::new("timeout")
        .args(["30", env!("CARGO_BIN_EXE_winpool")])
        .args(args)
        .current_dir(folder)
        .env_remove("KUBECONFIG")
        .env("HOME", folder)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_a_usage_error_in_one_line() {
    let with = |old: &str, new: &str| {
        assert!(KUBECONFIG.contains(old), "{old}");
        KUBECONFIG.replace(old, new)
    };
    let user = |user: &str| with("{token: x}", user);
    let server = |more: &str| with("'https://127.0.0.1:1'", more);
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-login}}";
    let folder = tempfile::tempdir().unwrap();
    for (name, text, expected) in [
        ("not YAML", "not: [yaml".to_owned(), "unclosed bracket"),
        ("not a kubeconfig", "hello".to_owned(), "expected mapping start"),
        ("empty", String::new(), "failed to determine current context"),
        ("no context", with("current-context: a\n", ""), "failed to determine current context"),
        ("unknown context", with("current-context: a", "current-context: z"), "failed to load current context: z"),
        ("unknown cluster", with("{cluster: a,", "{cluster: b,"), "failed to load the cluster of context: b"),
        ("bad address", server("'http s:/x'"), "failed to parse cluster url"),
        ("no authority", server("'https://127.0.0.1:1', certificate-authority: none.crt"), "none.crt"),
        ("bad certificate", user("{client-certificate-data: AAAA, client-key-data: AAAA}"), "missing a private key"),
        ("no token", user("{tokenFile: no-token}"), "no-token"),
        ("no program", user(exec), "unable to run auth exec"),
    ] {
        fs::write(folder.path().join("kubeconfig"), text).unwrap();
        for command in ["run", "plan", "adopt"] {
            let (status, stderr) = ended(folder.path(), &[command, "--kubeconfig", "kubeconfig"], &[]);
            assert_eq!(status, 2, "{name}: {command}: {stderr}");
            assert!(stderr.starts_with("winpool: invalid kubeconfig: "), "{name}: {command}: {stderr}");
            assert!(stderr.contains(expected) && stderr.contains(". Correct "), "{name}: {command}: {stderr}");
            assert_eq!(stderr.lines().count(), 1, "{name}: {command}: {stderr}");
        }
    }
}

#[test]
fn without_a_kubeconfig_the_places_where_it_was_searched_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for environment in [&[][..], &[("KUBECONFIG", "no-kubeconfig")]] {
        let (status, stderr) = ended(folder.path(), &["run"], environment);
        assert_eq!((status, stderr.lines().count()), (3, 1), "{stderr}");
        assert!(
            stderr.starts_with("winpool: no cluster: ") && stderr.contains("Use --kubeconfig or --context, or set "),
            "{stderr}"
        );
    }
}

#[test]
fn a_wrong_option_is_a_usage_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kubeconfig"), KUBECONFIG).unwrap();
    let used = TcpListener::bind("127.0.0.1:0").unwrap();
    let used = used.local_addr().unwrap().to_string();
    for (args, expected) in [
        (&["fly"][..], "error: unrecognized subcommand 'fly'"),
        (&["run", "--nope"], "error: unexpected argument '--nope' found"),
        (&["run", "--admin-address", "8080"], "error: invalid value '8080' for '--admin-address <IP:PORT>'"),
        (&["run", "--workloads", "maybe"], "error: invalid value 'maybe' for '--workloads <ON|OFF>'"),
        (&["run", "--log-format", "xml"], "error: invalid value 'xml' for '--log-format"),
        (&["run", "--log", "x=y=z"], "winpool: --log: `x=y=z` is not a log filter"),
        (&["run", "--namespace", "X"], "winpool: --namespace: `X` is not the name of a namespace"),
        (&["run", "--context", "b"], "winpool: --context: the kubeconfig has no context b. Existing contexts: a"),
        (&["run", "--registry-ca", "none.crt"], "winpool: --registry-ca: none.crt: No such file"),
        (&["run", "--registry-ca", "kubeconfig"], "winpool: --registry-ca: kubeconfig: no certificate in this file"),
        (&["run", "--registry-plain-http", "a b"], "error: invalid value 'a b' for '--registry-plain-http <HOST>'"),
        (
            &["run", "--registry-plain-http", "http://a"],
            "error: invalid value 'http://a' for '--registry-plain-http <HOST>'",
        ),
        (&["run", "--admin-address", &used], "winpool: cannot listen on 127.0.0.1:"),
        (&["run", "--admin-address", "192.0.2.1:8080"], "winpool: cannot listen on 192.0.2.1:8080: "),
        (&["plan", "--kubernetes", "1.x"], "winpool: --kubernetes: `1.x` is not a Kubernetes version such as 1.34"),
        (&["adopt", "--nodes", "none.yaml"], "winpool: none.yaml: No such file"),
    ] {
        let args = if args == ["fly"] { args.to_vec() } else { [args, &["--kubeconfig", "kubeconfig"]].concat() };
        let (status, stderr) = ended(folder.path(), &args, &[]);
        assert_eq!(status, 2, "{args:?}: {stderr}");
        assert!(stderr.starts_with(expected), "{args:?}: {stderr}");
    }
}
