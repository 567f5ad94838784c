//! Evaluates admission policies with the code of kube-apiserver: `e2e/policies`, which `e2e/upstream.sh` builds. It says which
//! policies reject a request, what they change, and what the type checker of their expressions finds.
//!
//! Built-in kinds are converted to their types as an API server does, which drops empty fields. Defaults of built-in kinds are
//! not set, and no other admission plugin runs.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{LazyLock, Mutex, PoisonError},
};

use serde_json::{Value, json};

/// A request to the API server.
#[derive(Clone, Debug)]
pub struct Request {
    pub user: String,
    /// Further information about the user, as in `userInfo.extra`.
    pub extra: Value,
    pub operation: &'static str,
    pub group: &'static str,
    /// The resource, with the subresource.
    pub resource: &'static str,
    pub name: String,
    /// The labels of the namespace of the object.
    pub namespace: Option<Value>,
    pub old: Value,
    pub new: Value,
}

/// The version and the kind of the resources that policies are for.
const KINDS: [(&str, &str, &str); 6] = [
    ("nodes", "v1", "Node"),
    ("pods", "v1", "Pod"),
    ("configmaps", "v1", "ConfigMap"),
    ("runtimeclasses", "v1", "RuntimeClass"),
    ("windowsnodepools", "v1alpha1", "WindowsNodePool"),
    ("windowsnodeconfigs", "v1alpha1", "WindowsNodeConfig"),
];

/// The outcome of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The policies that reject it, each with its message.
    pub rejections: Vec<(String, String)>,
    /// The errors of expressions, which the policy may ignore.
    pub errors: Vec<String>,
    /// The object after all mutations.
    pub object: Value,
}

impl Outcome {
    /// The names of the policies that reject the request.
    pub fn rejected_by(&self) -> String {
        let mut names: Vec<_> = self.rejections.iter().map(|(name, _)| name.as_str()).collect();
        names.dedup();
        names.join(",")
    }
}

impl Request {
    fn to_json(&self) -> Value {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((self.resource, ""));
        let (_, version, kind) = KINDS.into_iter().find(|(name, ..)| *name == resource).unwrap();
        let labels = self.namespace.clone().unwrap_or_default();
        let namespace = match &self.namespace {
            Some(labels) => labels["kubernetes.io/metadata.name"].as_str().unwrap_or("default"),
            None => "",
        };
        json!({
            "user": self.user, "groups": ["system:authenticated"], "extra": self.extra,
            "operation": self.operation, "group": self.group, "version": version, "kind": kind,
            "resource": resource, "subresource": subresource, "name": self.name,
            "namespace": namespace, "namespaceLabels": labels, "old": self.old, "new": self.new,
        })
    }
}

/// Evaluates policies with their bindings. `params` are the objects of the kind of the parameters.
pub fn evaluate(objects: &[Value], params: &[Value], request: &Request) -> Outcome {
    let params: Vec<Value> = params.iter().map(|param| identified(param, "WindowsNodePool")).collect();
    let output = run(&json!({"policies": objects, "params": params, "request": request.to_json()}));
    let findings = |field: &str| -> Vec<(String, String)> {
        let all = output[field].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        all.map(|finding| (text(&finding["policy"]), text(&finding["message"]))).collect()
    };
    Outcome {
        rejections: findings("rejections"),
        errors: findings("errors").into_iter().map(|(policy, message)| format!("{policy}: {message}")).collect(),
        object: output["object"].clone(),
    }
}

/// What the type checker finds in the expressions of validating policies, given the definitions of the custom resources.
pub fn type_warnings(objects: &[Value], definitions: &[Value]) -> Vec<String> {
    let output = run(&json!({"policies": objects, "definitions": definitions}));
    let warnings = output["warnings"].as_array().unwrap().iter();
    warnings.map(|finding| format!("{}: {}", finding["policy"].as_str().unwrap(), finding["message"])).collect()
}

fn identified(object: &Value, kind: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!("winpool.dev/v1alpha1");
    object["kind"] = json!(kind);
    object
}

/// The running program. It ends with this process, because its input ends.
struct Program {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _child: Child,
}

fn run(input: &Value) -> Value {
    static PROGRAM: LazyLock<Mutex<Program>> = LazyLock::new(|| Mutex::new(start()));
    let mut program = PROGRAM.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(program.input, "{input}").unwrap();
    let mut line = String::new();
    program.output.read_line(&mut line).unwrap();
    let output: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    assert!(output["error"].is_null(), "{}", output["error"]);
    output
}

fn start() -> Program {
    let path = cache().join("winpool/upstream/policies");
    assert!(path.is_file(), "{} is missing: run e2e/upstream.sh, which builds it", path.display());
    let mut child = Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    Program { input, output: BufReader::new(output), _child: child }
}

/// The folder of caches, as the scripts of `e2e` find it.
fn cache() -> PathBuf {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    set("XDG_CACHE_HOME").map_or_else(|| Path::new(&set("HOME").unwrap()).join(".cache"), PathBuf::from)
}
