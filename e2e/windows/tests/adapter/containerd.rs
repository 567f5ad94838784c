//! The container runtime at its named pipe.

use std::time::Duration;

use winpool_agent::{
    host::{Host, RuntimeError, SandboxKind},
    windows::Windows,
};

use super::{Service, eventually};

const MINUTE: Duration = Duration::from_secs(60);

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
