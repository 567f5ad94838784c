//! The real Windows kubelet as the judge of the configuration that it will be given: `kubelet.exe` v1.20.2 under Wine.
//!
//! Wine cannot run it as a node. It reads flags and configuration as on Windows, sets its priority class, says that it
//! has no API client, and ends on something that Wine does not have: whatever it would refuse on Windows for what is
//! written in its configuration, it has refused by then. Quantities it would read only after that.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests may panic

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use e2e::assets::{self, WindowsKubelet};
use serde_json::{Value, json};
use tempfile::TempDir;
use winpool::{
    api::{Taint, TaintEffect},
    domain::{
        profile,
        render::{KUBELET_ARGS, KUBELET_YAML, Runtime, Variant, render},
    },
    facts::{
        Build, Minor,
        feature_gates::{GATES, Verdict, verdict},
        support::builds_supported_by,
    },
};

const MINOR: Minor = Minor(20);
/// One run takes about two seconds, the first some more.
const LIMIT: Duration = Duration::from_secs(120);
/// What the kubelet says when it is through with flags and configuration, running without a cluster.
const READ_ALL: &str = "standalone mode, no API client";
/// What it says of a field that it does not know, before it goes on without.
const PASSED_OVER: &str = "using lenient decoding";

/// The kubelet, and a Windows of its own.
struct Judge {
    kubelet: WindowsKubelet,
    directory: TempDir,
}

/// What lies on a node for its kubelet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Files {
    yaml: String,
    args: Vec<String>,
}

impl Judge {
    /// `None`, with a line that says so, where there is no kubelet to ask.
    fn new(test: &str) -> Result<Option<Self>> {
        let Some(kubelet) = assets::windows_kubelet()? else {
            assets::say_skipped(test, &"kubelet.exe, or Wine,");
            return Ok(None);
        };
        Ok(Some(Self { kubelet, directory: TempDir::new()? }))
    }

    /// An error in the kubelet's own words, if it refuses the files or passes over a part of them.
    fn accepts(&self, files: &Files) -> Result<()> {
        let said = self.run(files)?;
        let fatal =
            said.lines().find(|line| line.starts_with('F') && line[1..].starts_with(|c: char| c.is_ascii_digit()));
        let fatal = fatal.unwrap_or(&said);
        ensure!(said.contains(READ_ALL), "{fatal}");
        ensure!(!said.contains(PASSED_OVER), "{said}");
        Ok(())
    }

    /// Everything that the kubelet says until it ends.
    fn run(&self, files: &Files) -> Result<String> {
        let (yaml, log) = (self.path("kubelet.yaml"), self.path("log"));
        fs::write(&yaml, &files.yaml)?;
        let output = File::create(&log)?;
        let config = format!("Z:{}", yaml.to_str().context("a path in UTF-8")?.replace('/', "\\"));
        let mut child = Command::new(&self.kubelet.wine)
            .arg(&self.kubelet.kubelet)
            .args(["--config", &config, "--hostname-override=w1"])
            .args(&files.args)
            .env("WINEPREFIX", self.path("wine"))
            .env("WINEDEBUG", "-all")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let begun = Instant::now();
        while child.try_wait()?.is_none() {
            if begun.elapsed() > LIMIT {
                child.kill()?;
                child.wait()?;
                bail!("kubelet.exe did not end: {}", String::from_utf8_lossy(&fs::read(&log)?));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(String::from_utf8_lossy(&fs::read(&log)?).into_owned())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for Judge {
    /// Ends what Wine keeps running for this prefix, before its folder goes.
    fn drop(&mut self) {
        let server = self.kubelet.wine.with_file_name("wineserver");
        let _ = Command::new(server).arg("-k").env("WINEPREFIX", self.path("wine")).status();
    }
}

/// What is rendered from a profile for the minor.
fn rendered(spec: &Value, taints: &[Taint], runtime: Runtime, host: Build) -> Files {
    let profile = profile::check(&serde_json::from_value(spec.clone()).unwrap()).unwrap();
    let files = render(taints, &profile, &Variant { kubelet: MINOR, runtime, host }).unwrap().files;
    Files { yaml: files[KUBELET_YAML].clone(), args: files[KUBELET_ARGS].lines().map(str::to_owned).collect() }
}

fn taints() -> Vec<Taint> {
    let taint = |key: &str, value: &str, effect| Taint { key: key.into(), value: value.into(), effect };
    vec![taint("os", "windows", TaintEffect::NoSchedule), taint("example.com/gpu", "", TaintEffect::NoExecute)]
}

const CONTAINERD: Runtime = Runtime::Containerd { major: 1, minor: 6 };

/// Every gate that the minor is said to know, at its default.
fn all_gates() -> BTreeMap<&'static str, bool> {
    let known = GATES.iter().filter(|gate| gate.known_in(MINOR));
    known.map(|gate| (gate.name, gate.on_in(MINOR))).collect()
}

fn profiles() -> Vec<Value> {
    vec![
        json!({}),
        json!({"kubelet": {
            "priorityClass": "Realtime",
            "systemReserved": {"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "1Gi"},
            "kubeReserved": {"cpu": "0.2", "memory": "512Mi"},
            "evictionHard": {"memory.available": "500Mi", "nodefs.available": "12.5%"},
            "maxPods": 60,
            "imageGC": {"highThresholdPercent": 90, "lowThresholdPercent": 75},
            "containerLogs": {"maxSize": "100Mi", "maxFiles": 3},
            "featureGates": all_gates(),
        }}),
        json!({
            "kubelet": {"priorityClass": "Idle", "systemReserved": {}, "extra": {
                "authentication": {
                    "anonymous": {"enabled": false},
                    "webhook": {"enabled": true, "cacheTTL": "2m"},
                },
                "authorization": {"mode": "Webhook", "webhook": {"cacheAuthorizedTTL": "5m", "cacheUnauthorizedTTL": "30s"}},
                "clusterDNS": ["10.96.0.10"],
                "clusterDomain": "cluster.local",
                "configMapAndSecretChangeDetectionStrategy": "Watch",
                "evictionMinimumReclaim": {"nodefs.available": "500Mi"},
                "evictionPressureTransitionPeriod": "1m",
                "evictionSoft": {"memory.available": "1Gi"},
                "evictionSoftGracePeriod": {"memory.available": "1m30s"},
                "logging": {"format": "text"},
                "nodeStatusMaxImages": -1,
                "podsPerCore": 20,
                "providerID": "example:///über/no",
                "registryPullQPS": 10,
                "rotateCertificates": true,
                "serializeImagePulls": false,
                "staticPodURLHeader": {"a": ["b", "yes"]},
                "streamingConnectionIdleTimeout": "4h",
                "tlsCipherSuites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
                "tlsMinVersion": "VersionTLS12",
            }},
            "containerd": {"cni": {"binDir": "C:\\Program Files\\cni", "confDir": "C:\\k\\cni\\config"}},
        }),
    ]
}

#[test]
fn the_windows_kubelet_accepts_what_is_rendered_for_it() {
    let Some(judge) = Judge::new("the_windows_kubelet_accepts_what_is_rendered_for_it").unwrap() else { return };
    let mut all = BTreeSet::new();
    for spec in profiles() {
        for runtime in [CONTAINERD, Runtime::Dockershim] {
            for host in builds_supported_by(MINOR).unwrap() {
                all.extend([taints(), Vec::new()].map(|taints| rendered(&spec, &taints, runtime, *host)));
            }
        }
    }
    assert!(all.len() >= profiles().len() * 2 * 2);
    for files in all {
        judge.accepts(&files).unwrap_or_else(|refusal| panic!("{refusal}\n{files:#?}"));
    }
}

#[test]
fn the_windows_kubelet_refuses_what_is_broken_on_purpose() {
    let Some(judge) = Judge::new("the_windows_kubelet_refuses_what_is_broken_on_purpose").unwrap() else { return };
    let good =
        rendered(&json!({"kubelet": {"featureGates": {"CSIMigration": true}}}), &taints(), CONTAINERD, Build(17763));
    judge.accepts(&good).unwrap();

    let unknown = GATES.iter().find(|gate| verdict(gate.name, true, MINOR) == Verdict::Unknown).unwrap().name;
    let in_yaml = [
        ("enforceNodeAllocatable: []", "enforceNodeAllocatable: [pods]", "EnforceNodeAllocatable"),
        ("enforceNodeAllocatable: []", "", "EnforceNodeAllocatable"),
        ("cgroupsPerQOS: false", "cgroupsPerQOS: true", "CgroupsPerQOS"),
        ("CSIMigration: true", &format!("{unknown}: true"), "unrecognized feature gate"),
        ("CSIMigration: true", "NodeLease: false", "feature is locked to true"),
        ("CSIMigration: true", "CSIMigration: 1", "FeatureGates"),
        ("maxPods: 110", "maxPods: \"110\"", "MaxPods"),
        ("memory: \"2Gi\"", "memory: 2", "SystemReserved"),
        ("imageGCLowThresholdPercent: 80", "imageGCLowThresholdPercent: 85", "imageGCLowThresholdPercent"),
        ("maxPods: 110", "maxPods: 110\ncontainerRuntimeEndpoint: \"npipe:\"", PASSED_OVER),
        ("kind: KubeletConfiguration", "kind: KubeletConfig", "no kind"),
    ];
    for (right, wrong, word) in in_yaml {
        assert!(good.yaml.contains(right), "{right} is in the file");
        let broken = Files { yaml: good.yaml.replacen(right, wrong, 1), ..good.clone() };
        refused(&judge, &broken, word);
    }
    let in_args = [
        (
            "--windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS",
            "--windows-priorityclass=ABOVE_NORMAL",
            "unknown priority class",
        ),
        ("--windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS", "--config-dir=C:\\k", "unknown flag"),
        (
            "--register-with-taints=os=windows:NoSchedule,example.com/gpu=:NoExecute",
            "--register-with-taints=os=windows:Never",
            "invalid taint",
        ),
    ];
    for (right, wrong, word) in in_args {
        let at = good.args.iter().position(|arg| arg == right).unwrap_or_else(|| panic!("{right} is an argument"));
        let mut broken = good.clone();
        broken.args[at] = wrong.to_owned();
        refused(&judge, &broken, word);
    }
}

fn refused(judge: &Judge, broken: &Files, word: &str) {
    let refusal = judge.accepts(broken).expect_err(&format!("accepted: {broken:#?}")).to_string();
    assert!(refusal.contains(word), "not for {word}: {refusal}");
}
