//! The built binary as people call it: as a plugin of kubectl, with paths as arguments, through pipes and in shells.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

use super::{POOLS, folder, names, winpool, winpool_reading};

/// The output of the binary under another name.
fn called(name: &str, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_winpool"))
        .arg0(name)
        .args(args)
        .stdin(Stdio::null())
        .env("KUBECONFIG", "no-kubeconfig")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_binary_is_a_plugin_of_kubectl_under_its_name() {
    let (status, help, _) = called("/usr/local/bin/kubectl-winpool", &["render", "--help"]);
    assert_eq!(status, 0);
    for expected in ["Usage: kubectl winpool render ", "  kubectl winpool render pools/\n"] {
        assert!(help.contains(expected), "{help}");
    }
    let (status, _, error) = called("kubectl-winpool", &["render"]);
    assert_eq!(status, 2);
    assert!(error.contains("Usage: kubectl winpool render <PATH|--filename <PATH>>"), "{error}");
    let (_, help, _) = called("winpool", &["render", "--help"]);
    assert!(help.contains("Usage: winpool render ") && !help.contains("kubectl winpool"), "{help}");
}

#[test]
fn paths_are_arguments_or_follow_f_or_both() {
    let (profile, pools) = POOLS.split_once("---\n").unwrap();
    let folder = folder(&[("profile.yaml", profile), ("pools/pools.yaml", pools)]);
    let render = |args: &[&str]| {
        let output = winpool(folder.path(), &[&["render"], args, &["--kubernetes", "1.34"]].concat());
        assert_eq!(output.status, 0, "{args:?}: {}", output.stderr);
        names(&output.stdout)
    };
    let expected = ["RuntimeClass windows-ltsc2022", "ConfigMap web-2022"];
    for args in [
        &["profile.yaml", "pools"][..],
        &["-f", "profile.yaml", "-f", "pools"],
        &["profile.yaml", "-f", "pools"],
        &["--filename=pools", "profile.yaml"],
        &["."],
    ] {
        assert_eq!(render(args), expected, "{args:?}");
    }
    let twice = winpool_reading(folder.path(), &["render", "-", "-f", "-"], POOLS);
    assert_eq!(twice.stderr, "winpool: standard input can be read only once. Write - for one path only\n");
    assert_eq!(winpool(folder.path(), &["render"]).status, 2);
}

#[test]
fn every_shell_gets_completions_with_all_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (status, script, error) = called("winpool", &["completions", shell]);
        assert_eq!((status, error.as_str()), (0, ""), "{shell}");
        for expected in ["winpool", "cleanup", "kubeconfig", "migrate"] {
            assert!(script.contains(expected), "{shell}: no {expected}");
        }
    }
    let (_, script, _) = called("kubectl-winpool", &["completions", "bash"]);
    let registered = script.lines().filter(|line| line.contains("complete -F") && line.ends_with(" kubectl-winpool"));
    assert_eq!(registered.count(), 3, "by version of bash, and with names of pools");
}

#[test]
fn bash_completes_commands() {
    let script = format!(
        "source <({} completions bash)\nCOMP_WORDS=(winpool cl)\nCOMP_CWORD=1\n_winpool winpool cl winpool\n\
         echo \"${{COMPREPLY[@]}}\"",
        env!("CARGO_BIN_EXE_winpool")
    );
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "cleanup\n", "{output:?}");
}

#[test]
fn scripts_complete_names_of_pools_and_list_no_hidden_command() {
    for (shell, expected) in [
        ("bash", "complete -F _winpool_and_pools -o bashdefault -o default winpool\n"),
        ("zsh", ":POOL:_winpool_pools'"),
        ("fish", "-l pool -x -a \"(winpool __complete --pools -- status '' 2>/dev/null)\"\n"),
    ] {
        let (_, script, _) = called("winpool", &["completions", shell]);
        assert!(script.contains(expected), "{shell}: {script}");
        assert!(!script.contains("Print the words that complete"), "{shell}: {script}");
    }
    // Without a cluster there are no names.
    for (words, expected) in [(&["status", ""][..], ""), (&["mig"], "migrate\n"), (&["plan", "-o", "j"], "json\n")] {
        let (status, out, error) = called("winpool", &[&["__complete", "--"], words].concat());
        assert_eq!((status, out.as_str(), error.as_str()), (0, expected, ""), "{words:?}");
    }
}

#[test]
fn kubectl_completes_the_plugin_by_a_script() {
    let (status, script, _) = called("winpool", &["completions", "--kubectl"]);
    assert_eq!(status, 0);
    let folder = folder(&[("kubectl_complete-winpool", &script)]);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_winpool"), folder.path().join("kubectl-winpool")).unwrap();
    let mut command = Command::new("sh");
    command.args(["kubectl_complete-winpool", "pl"]).current_dir(folder.path());
    let output = command.env("PATH", format!("{}:/usr/bin:/bin", folder.path().display())).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "plan\n:0\n", "{output:?}");
    assert_eq!(called("winpool", &["completions"]).0, 2, "a shell or --kubectl is required");
}

#[test]
fn the_manual_has_one_page_for_each_command() {
    let folder = folder(&[]);
    let pages = || {
        let output = winpool(folder.path(), &["man", "--out", "man/man1"]);
        assert_eq!((output.status, output.stderr.as_str()), (0, ""));
        let mut pages: Vec<_> = fs::read_dir(folder.path().join("man/man1"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap()))
            .collect();
        pages.sort();
        pages
    };
    let first = pages();
    assert_eq!(pages(), first, "bytes are stable");
    for (name, expected) in [
        ("winpool.1", ".SH SUBCOMMANDS"),
        ("winpool-plan.1", "winpool plan pools/"),
        ("winpool-cleanup.1", "\\-\\-yes"),
    ] {
        let (_, text) = first.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(text.contains(expected), "{name}: {text}");
    }
}

#[test]
fn explain_lists_all_explains_one_and_corrects_spelling() {
    let (status, list, _) = called("winpool", &["explain"]);
    assert_eq!(status, 0);
    for expected in ["host-network ", "NodesTainted: ", "WouldStrand", "CVE-2023-3676 "] {
        assert!(list.contains(expected), "{list}");
    }
    let (status, text, _) = called("winpool", &["explain", "wouldstrand"]);
    assert_eq!(status, 0);
    assert!(text.starts_with("RuntimeClassReady/WouldStrand: status False\n"), "{text}");
    let (status, text, _) = called("winpool", &["explain", "hcsshim-1574"]);
    let issue = "hcsshim-1574: known issue of hcsshim, severity medium\n  each exec probe leaks memory of its \
                 containerd-shim-runhcs-v1.exe.\n  Affected: 0.8.0 to below 0.8.25, 0.9.0 to below 0.9.6.\n  Depends on: pods \
                 with exec probes.\n  Source: microsoft/hcsshim#1574, 2022-12-13.\n  To do: Upgrade containerd to 1.6.13 or \
                 later, or use httpGet or tcpSocket probes.\n";
    assert_eq!((status, text.as_str()), (0, issue));
    let (status, text, error) = called("winpool", &["explain", "WouldStand"]);
    let expected = "winpool: WouldStand is no code, condition, reason, symptom or known issue, and no text of one. Did you mean WouldStrand?\n";
    assert_eq!((status, text.as_str(), error.as_str()), (2, "", expected));
}

/// The output of the binary on a terminal of its own, which `script` of Debian makes.
fn on_terminal(command: &str, environment: &[(&str, &str)]) -> String {
    on_terminal_of(100, command, environment)
}

fn on_terminal_of(columns: u16, command: &str, environment: &[(&str, &str)]) -> String {
    let line = format!("stty columns {columns} rows 40; {} {command}", env!("CARGO_BIN_EXE_winpool"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--command", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
    let output = script.envs(environment.iter().copied()).stdin(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn nothing_that_does_not_read_its_output_makes_it_panic() {
    let folder = folder(&[("pools.yaml", POOLS), ("bad.yaml", "kind: [")]);
    let commands = [
        "--help",
        "version",
        "explain",
        "explain nothing",
        "render pools.yaml",
        "lint pools.yaml",
        "lint bad.yaml",
        "status",
        "check",
        "plan",
        "doctor pod/a",
        "adopt",
        "migrate a --to b",
        "cleanup --yes",
        "cleanup --dry-run",
        "crds",
        "policies",
        "run",
        "fly",
        "completions bash",
        "completions --kubectl",
        "__complete -- sta",
    ];
    let sinks = ["2>&1 | true", ">/dev/full 2>&1", ">&- 2>&-"];
    for command in commands {
        for sink in sinks {
            let line = format!("set -o pipefail; {} {command} {sink}", env!("CARGO_BIN_EXE_winpool"));
            let mut shell = Command::new("timeout");
            shell.args(["20", "bash", "-c", &line]).current_dir(folder.path()).env("KUBECONFIG", "no-kubeconfig");
            let status =
                shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().code();
            assert!(status.is_some_and(|status| status <= 3 || status == 141), "{command} {sink}: {status:?}");
        }
    }
}

#[test]
fn a_cluster_that_does_not_answer_is_named_with_its_context_and_server() {
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: staging\n\
                      clusters:\n- {name: a, cluster: {server: 'https://127.0.0.1:1'}}\n\
                      contexts:\n- {name: staging, context: {cluster: a, user: me}}\n- {name: spare, context: {cluster: a, user: me}}\n\
                      users:\n- {name: me, user: {}}\n";
    let folder = folder(&[("kubeconfig", kubeconfig)]);
    let file = folder.path().join("kubeconfig").display().to_string();
    for (command, context) in [
        ("status", "staging"),
        ("check", "staging"),
        ("plan --context spare", "spare"),
        ("doctor pod/a --context=spare", "spare"),
        ("migrate a --to b", "staging"),
        ("adopt", "staging"),
        ("cleanup --dry-run", "staging"),
    ] {
        let arguments: Vec<_> = command.split(' ').chain(["--kubeconfig", &file]).collect();
        let (status, out, error) = called("winpool", &arguments);
        assert_eq!((status, out.as_str()), (3, ""), "{command}: {error}");
        let place = format!(" (context {context}, server https://127.0.0.1:1)\n");
        assert!(error.contains("Connection refused") && error.ends_with(&place), "{command}: {error}");
    }
    let (status, _, error) = called("winpool", &["status"]);
    let remedy = "Use --kubeconfig or --context, or set KUBECONFIG to a kubeconfig with a current context\n";
    assert!(status == 3 && error.contains("no-kubeconfig") && error.ends_with(remedy) && error.len() < 250, "{error}");
}

#[test]
fn a_plugin_of_kubectl_prints_its_own_commands() {
    let (_, _, error) = called("kubectl-winpool", &["explain", "qqq"]);
    assert!(error.ends_with("Without CODE, kubectl winpool explain lists all\n"), "{error}");
    let (_, text, _) = called("kubectl-winpool", &["explain", "ConfigInEffect/RenderingChanged"]);
    assert!(text.contains("kubectl winpool plan"), "{text}");
}

#[test]
fn reports_have_the_width_of_the_terminal() {
    let shown = on_terminal_of(60, "explain host-network", &[("NO_COLOR", "1")]);
    assert!(shown.lines().count() > 3 && shown.lines().all(|line| line.trim_end().chars().count() <= 60), "{shown}");
}

#[test]
fn colours_are_only_for_terminals_unless_an_option_says_otherwise() {
    let escape = '\u{1b}';
    for (command, expected) in [
        (&["explain", "host-network", "--color", "always"][..], true),
        (&["--color=always", "--help"], true),
        (&["--color", "always", "plna"], true),
        (&["explain", "host-network", "--color", "auto"], false),
    ] {
        let (_, out, error) = called("winpool", command);
        assert_eq!(out.contains(escape) || error.contains(escape), expected, "{command:?}");
    }
    assert!(!on_terminal("explain host-network --color never", &[]).contains(escape));
    for args in [&["explain", "host-network"][..], &["--help"], &["plna"]] {
        let (_, out, error) = called("winpool", args);
        assert!(!out.contains(escape) && !error.contains(escape), "{args:?}");
        assert!(on_terminal(&args.join(" "), &[]).contains(escape), "{args:?}");
        assert!(!on_terminal(&args.join(" "), &[("NO_COLOR", "1")]).contains(escape), "{args:?}");
    }
}

#[test]
fn cleanup_refuses_where_it_cannot_ask() {
    let (status, out, error) = called("winpool", &["cleanup"]);
    let expected = "winpool: cleanup asks before it removes anything, and standard input is not a terminal. Use --dry-run to \
                    see what it would remove, and --yes to remove it\n";
    assert_eq!((status, out.as_str(), error.as_str()), (2, "", expected));
}
