//! How a program fails: the file beside its configuration with `.behavior` added to its name.
//!
//! Each line is a failure, for all configurations or for those that contain a text:
//! ```text
//! slow=500
//! crash=300 if maxPods: 61
//! ```

use std::{fs, path::Path, time::Duration};

/// A way to fail. Times are in milliseconds since the start of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `exit-early`: it ends before it is a running service.
    ExitEarly,
    /// `start-pending`: the service never reports that it runs.
    StartPending,
    /// `crash=TIME`: it ends without being stopped.
    Crash(Duration),
    /// `slow=TIME`: health and readiness come late.
    Slow(Duration),
    /// `hang`: health checks are not answered.
    Hang,
    /// `not-ready`: the node is not ready.
    NotReady,
    /// `no-pull`: no image can be pulled.
    NoPull,
    /// `no-sandbox`: no sandbox of a pod can be started.
    NoSandbox,
    /// `ignore-stop`: the service accepts a stop, and continues to run.
    IgnoreStop,
}

impl Failure {
    fn parse(text: &str) -> Option<Self> {
        let time = |text: &str| text.parse().ok().map(Duration::from_millis);
        Some(match text.split_once('=') {
            Some(("crash", text)) => Self::Crash(time(text)?),
            Some(("slow", text)) => Self::Slow(time(text)?),
            Some(_) => return None,
            None => match text {
                "exit-early" => Self::ExitEarly,
                "start-pending" => Self::StartPending,
                "hang" => Self::Hang,
                "not-ready" => Self::NotReady,
                "no-pull" => Self::NoPull,
                "no-sandbox" => Self::NoSandbox,
                "ignore-stop" => Self::IgnoreStop,
                _ => return None,
            },
        })
    }
}

/// The failures of a program with its present configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behavior(Vec<Failure>);

impl Behavior {
    /// The behavior for the content of the configuration file at a path.
    pub fn of(path: &str, content: &str) -> Result<Self, String> {
        let text = fs::read_to_string(Path::new(&format!("{path}.behavior"))).unwrap_or_default();
        Self::parse(&text, content)
    }

    fn parse(text: &str, content: &str) -> Result<Self, String> {
        let mut failures = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (failure, condition) = line.split_once(" if ").unwrap_or((line, ""));
            let failure = Failure::parse(failure).ok_or_else(|| format!("unknown behavior: {line}"))?;
            if content.contains(condition) {
                failures.push(failure);
            }
        }
        Ok(Self(failures))
    }

    /// Whether the program fails in this way.
    pub fn is(&self, failure: Failure) -> bool {
        self.0.contains(&failure)
    }

    /// When the program ends without being stopped.
    pub fn crash(&self) -> Option<Duration> {
        self.0.iter().find_map(|failure| if let Failure::Crash(time) = failure { Some(*time) } else { None })
    }

    /// When the program is healthy.
    pub fn slow(&self) -> Duration {
        let slow = self.0.iter().find_map(|failure| if let Failure::Slow(time) = failure { Some(*time) } else { None });
        slow.unwrap_or_default()
    }
}
