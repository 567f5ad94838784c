//! A containerd, as far as an agent observes it: a service, `--version`, `config dump`, and images and sandboxes at its pipe.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a program for developers

use std::{
    env, fs,
    process::exit,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use e2e_windows::{behavior::Behavior, fail, flags::Flags};
use toml::Table;
#[cfg(windows)]
use {e2e_windows::container_runtime, winpool_facts::containerd::PIPE};

const SWITCHES: [&str; 4] = ["version", "v", "run-service", "register-service"];

fn main() {
    let flags = Flags::parse(env::args().skip(1), &SWITCHES);
    if flags.has("version") || flags.has("v") {
        println!("containerd github.com/containerd/containerd v1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da");
        return;
    }
    let path = flags.get("config").unwrap_or(r"C:\Program Files\containerd\config.toml");
    let content = fs::read_to_string(path).unwrap_or_else(|error| fail(&format!("containerd: open {path}: {error}")));
    let config: Table = match content.trim_start_matches('\u{feff}').parse() {
        Ok(config) => config,
        Err(error) => fail(&format!("containerd: failed to load TOML: {path}: {error}")),
    };
    if flags.commands == ["config", "dump"] {
        print!("{config}");
        return;
    }
    let behavior = Behavior::of(path, &content).unwrap_or_else(|error| fail(&error));
    #[cfg(windows)]
    let pipe = config
        .get("grpc")
        .and_then(|grpc| grpc.get("address"))
        .and_then(|address| address.as_str())
        .unwrap_or(PIPE)
        .to_owned();
    let work = {
        let behavior = behavior.clone();
        move |stop: &AtomicBool| {
            #[cfg(windows)]
            let _server = container_runtime::serve(pipe, &behavior);
            let started = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                if behavior.crash().is_some_and(|time| started.elapsed() >= time) {
                    exit(1);
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
    };
    #[cfg(windows)]
    if flags.has("run-service") {
        if let Err(error) = e2e_windows::service::run(behavior, move || Box::new(work)) {
            fail(&format!("containerd: {error}"));
        }
        return;
    }
    work(&AtomicBool::new(false));
}
