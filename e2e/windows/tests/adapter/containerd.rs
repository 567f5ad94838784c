//! The stand-in for containerd, with what the agent runs and observes.

use std::{fs, time::Duration};

use tempfile::TempDir;
use winpool_agent::{
    host::{Host, RuntimeError, SandboxKind},
    windows::Windows,
};

use super::{Service, eventually, fake_containerd, strings};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn it_prints_its_version_and_the_configuration_that_it_reads() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("config.toml");
    let dump = || {
        let arguments = strings(&["--config", path.to_str().unwrap(), "config", "dump"]);
        let output = Windows.run(&fake_containerd(), &arguments, MINUTE).unwrap();
        (output.code, String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, _, error) = dump();
    assert_eq!(code, Some(1));
    assert!(error.contains("config.toml"), "{error}");

    fs::write(&path, "\u{feff}version = 2\r\n[grpc]\r\naddress = 'x'\r\n").unwrap();
    assert_eq!(dump(), (Some(0), "version = 2\n\n[grpc]\naddress = \"x\"\n".to_owned(), String::new()));

    fs::write(&path, "version = \r\n").unwrap();
    let (code, _, error) = dump();
    assert_eq!(code, Some(1));
    assert!(error.contains("failed to load TOML"), "{error}");

    let version = Windows.run(&fake_containerd(), &strings(&["--version"]), MINUTE).unwrap();
    assert!(version.stdout.starts_with(b"containerd github.com/containerd/containerd v1.7."), "{version:?}");
}

#[test]
fn it_is_a_service_that_fails_as_its_behavior_says() {
    let service = Service::containerd("winpool-containerd", "version = 2\r\n", "");
    Windows.start(&service.name).unwrap();
    service.until_running();
    Windows.stop(&service.name).unwrap();
    service.until_stopped();

    let service = Service::containerd("winpool-containerd-crash", "version = 2\r\n", "crash=300 if version = 2");
    Windows.start(&service.name).unwrap();
    service.until_stopped();

    for (config, behavior) in [("version = 2\r\n", "exit-early"), ("version = \r\n", "")] {
        let service = Service::containerd("winpool-containerd-early", config, behavior);
        assert!(Windows.start(&service.name).is_err(), "{config} {behavior}");
        service.until_stopped();
    }
}

#[test]
fn the_agent_pulls_images_and_starts_sandboxes_through_the_pipe() {
    const PIPE: &str = r"\\.\pipe\winpool-test-containerd";
    let config = format!("version = 2\r\n[grpc]\r\naddress = '{PIPE}'\r\n");
    let pull = || Windows.ensure_image(PIPE, "registry.example/pause:3.10", MINUTE);
    let start = |kind| Windows.try_sandbox(PIPE, kind, MINUTE);
    assert!(matches!(pull(), Err(RuntimeError::Unreachable { .. })), "{:?}", pull());
    for (behavior, pulled, started) in [
        ("", Ok(()), Ok(())),
        ("no-pull", Err("failed to pull and unpack image: 401 Unauthorized"), Ok(())),
        ("no-sandbox", Ok(()), Err("failed to create containerd task: hcs::CreateComputeSystem")),
    ] {
        let service = Service::containerd("winpool-containerd-pipe", &config, behavior);
        Windows.start(&service.name).unwrap();
        service.until_running();
        eventually("the pipe answers", || !matches!(pull(), Err(RuntimeError::Unreachable { .. })));
        let failed = |result: Result<(), &str>| result.map_err(|why| RuntimeError::Failed(why.to_owned()));
        assert_eq!(pull(), failed(pulled), "{behavior}");
        for kind in SandboxKind::ALL {
            assert_eq!(start(kind), failed(started), "{behavior} {kind:?}");
        }
        Windows.stop(&service.name).unwrap();
        service.until_stopped();
    }
}
