//! Programs with a time limit, and process trees.

use std::{fs, io::ErrorKind, time::Duration};

use tempfile::TempDir;
use winpool_agent::{
    host::{Host, ProgramOutput},
    windows::Windows,
};

use super::{eventually, exists, helper, start_helper, strings};

const MINUTE: Duration = Duration::from_secs(60);

fn run(arguments: &[&str], limit: Duration) -> ProgramOutput {
    Windows.run(&helper(), &strings(arguments), limit).unwrap()
}

fn is_running(pid: u32) -> bool {
    let output = Windows.run(r"C:\Windows\System32\tasklist.exe", &strings(&["/nh", "/fo", "csv"]), MINUTE).unwrap();
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(list.contains(&format!("\"{}\"", std::process::id())), "this process is listed: {list}");
    list.contains(&format!("\"{pid}\""))
}

#[test]
fn output_and_exit_code_are_returned() {
    let expected = |code, stdout: &str, stderr: &str| ProgramOutput {
        code: Some(code),
        stdout: stdout.as_bytes().to_vec(),
        stderr: stderr.as_bytes().to_vec(),
    };
    for (stdout, stderr, code) in [("out", "err", 0), ("a \"b\" \\", "ü", 7), ("", "%PATH%", 1)] {
        let output = run(&["print", stdout, stderr, &code.to_string()], MINUTE);
        assert_eq!(output, expected(code, stdout, stderr));
    }
}

#[test]
fn output_is_limited_to_one_mebibyte_per_stream() {
    let output = run(&["fill", "3000000"], MINUTE);
    assert_eq!(output.code, Some(0));
    assert_eq!((output.stdout.len(), output.stderr.len()), (1 << 20, 1 << 20));
}

#[test]
fn a_program_is_killed_with_its_children_after_the_limit() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("pids");
    // A busy machine may start its child later.
    let pids = [2, 10, 60].into_iter().find_map(|limit| {
        let output = run(&["tree", file.to_str().unwrap()], Duration::from_secs(limit));
        assert_eq!(output.code, None);
        fs::read_to_string(&file).ok().filter(|pids| pids.contains(' '))
    });
    for pid in pids.unwrap().split(' ').map(|pid| pid.parse().unwrap()) {
        eventually("the process has ended", || !is_running(pid));
    }
}

#[test]
fn a_process_is_killed_with_its_children() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("pids");
    let mut parent = start_helper(&["tree", file.to_str().unwrap()]);
    eventually("it has a child", || exists(&file) && fs::read_to_string(&file).unwrap().contains(' '));
    let pids: Vec<u32> = fs::read_to_string(&file).unwrap().split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.iter().all(|pid| is_running(*pid)));
    Windows.kill(parent.id()).unwrap();
    parent.wait().unwrap();
    for pid in &pids {
        eventually("the process has ended", || !is_running(*pid));
    }
    Windows.kill(pids[0]).unwrap();
}

#[test]
fn the_processes_of_a_program_are_found_by_the_name_of_its_file() {
    let mut child = start_helper(&["sleep", "600000"]);
    assert!(Windows.processes("helper.exe").unwrap().contains(&child.id()));
    assert!(!Windows.processes("HELPER.EXE").unwrap().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!Windows.processes("helper.exe").unwrap().contains(&child.id()));
    assert_eq!(Windows.processes("winpool-none.exe").unwrap(), Vec::<u32>::new());
}

#[test]
fn a_child_that_is_left_behind_with_the_output_does_not_block() {
    // The child lives longer than the limit, after which there is no exit code.
    let output = run(&["orphan", "70000"], MINUTE);
    assert_eq!((output.code, &output.stdout[..]), (Some(0), &b"done"[..]));
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    for program in [r"C:\none\kubelet.exe", r"C:\kubelet.exe"] {
        assert_eq!(Windows.run(program, &[], MINUTE).unwrap_err().kind(), ErrorKind::NotFound, "{program}");
    }
}
