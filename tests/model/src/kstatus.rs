//! The status that kstatus computes for a custom resource: `e2e/programs/kstatus`, which has kstatus itself.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{LazyLock, Mutex, PoisonError},
};

use serde_json::Value;

/// The status of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KStatus {
    Current,
    InProgress,
    Failed,
    Terminating,
}

/// The running program. It ends with this process, because its input ends.
struct Program {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _child: Child,
}

impl Program {
    fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/program.sh");
        let found = Command::new(script).arg("kstatus").stderr(Stdio::inherit()).output().unwrap();
        let path = String::from_utf8(found.stdout).unwrap();
        let mut child = Command::new(path.trim()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { input, output: BufReader::new(output), _child: child }
    }

    fn compute(&mut self, object: &Value) -> String {
        writeln!(self.input, "{object}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }
}

/// The status of a custom resource.
pub fn compute(object: &Value) -> KStatus {
    static PROGRAM: LazyLock<Mutex<Program>> = LazyLock::new(|| Mutex::new(Program::start()));
    let answer = PROGRAM.lock().unwrap_or_else(PoisonError::into_inner).compute(object);
    match answer.trim() {
        "Current" => KStatus::Current,
        "InProgress" => KStatus::InProgress,
        "Failed" => KStatus::Failed,
        "Terminating" => KStatus::Terminating,
        other => panic!("kstatus computes {other:?} for {object}"),
    }
}
