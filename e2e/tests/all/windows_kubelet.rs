//! Checks rendered kubelet configurations with the real Windows kubelet: `kubelet.exe` under Wine.
//!
//! It reads flags and configuration as on Windows, sets its priority class, and logs that it has no API client (`run` in
//! `cmd/kubelet/app/server.go`), where it is ended. By then it has rejected every configuration that it would reject on Windows,
//! except for wrong quantities, which it parses later.

mod fields;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::OnceLock,
};

use anyhow::{Result, ensure};
use e2e::{
    assets,
    wine::{Prefix, windows_path},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use winpool_api::{Taint, TaintEffect};
use winpool_facts::{
    Build, ContainerRuntime, ContainerdLine, Minor,
    feature_gates::{GATES, GateState, gate_state},
    kubelet_flags::ENDED,
    support::builds_supported_by,
};
use winpool_render::{
    Bootstrap, Configuration, KUBELET_ARGS, KUBELET_YAML, Variant,
    kubelet::kubeadm_patch,
    profile::{self, Profile},
    render, standalone,
};

/// The log message of the kubelet after it has read flags and configuration, without a cluster.
const CONFIGURATION_READ: &str = "Standalone mode, no API client";
/// The log message of the kubelet when it ignores an unknown field.
const FIELD_IGNORED: &str = "sing lenient decoding";
/// The log message of the kubelet with the error that ends it.
const FAILED: &str = "\"command failed\" err=";

/// The kubelet, and the files of one test.
struct Program {
    kubelet: PathBuf,
    prefix: &'static Prefix,
    directory: TempDir,
}

/// The files of a kubelet, and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Files {
    yaml: String,
    args: Vec<String>,
}

impl Files {
    /// These files with other fields.
    fn with(&self, fields: &Value) -> Self {
        let mut yaml = yaml_of(self);
        json_patch::merge(&mut yaml, fields);
        Self { yaml: yaml.to_string(), args: self.args.clone() }
    }
}

impl Program {
    fn new() -> Result<Self> {
        Ok(Self { kubelet: assets::program("kubelet.exe")?, prefix: Prefix::shared()?, directory: TempDir::new()? })
    }

    /// The minor of the kubelet.
    fn minor(&self) -> Minor {
        static MINOR: OnceLock<Minor> = OnceLock::new();
        *MINOR.get_or_init(|| {
            let output = self.prefix.command(&self.kubelet).arg("--version").output().unwrap();
            let version = String::from_utf8(output.stdout).unwrap();
            let minor = version.split('.').nth(1).and_then(|minor| minor.parse().ok());
            Minor(minor.unwrap_or_else(|| panic!("{version}")))
        })
    }

    /// A Windows that the kubelet supports.
    fn host(&self) -> Build {
        builds_supported_by(self.minor()).unwrap()[0]
    }

    /// A feature gate of the kubelet that can be set.
    fn gate(&self) -> &'static str {
        let is_accepted = |value| move |gate: &&str| gate_state(gate, value, self.minor()) == GateState::Accepted;
        let mut gates = all_gates(self.minor()).into_keys().filter(is_accepted(true)).filter(is_accepted(false));
        gates.next().unwrap()
    }

    /// The layer that is rendered from a profile for a Windows.
    fn layer_for(&self, spec: &Value, taints: &[Taint], host: Build) -> Files {
        let variant = Variant { kubelet: self.minor(), runtime: CONTAINERD, host };
        of_kubelet(&render(taints, &checked(spec), &variant).unwrap())
    }

    /// The layer that is rendered from a profile.
    fn layer(&self, spec: &Value, taints: &[Taint]) -> Files {
        self.layer_for(spec, taints, self.host())
    }

    /// The configuration of a kubelet that accepts the files, as it prints it: with names in lower case, because those of 1.30 to 1.36 are not
    /// the names of the fields.
    fn effective(&self, files: &Files) -> Result<Value> {
        let mut verbose = files.clone();
        verbose.args.push("--v=5".to_owned());
        let output = self.accepts(&verbose)?.replace("\"ResolverConfig\"", "\"resolvConf\"");
        let lines = output.lines().skip_while(|line| !line.contains("KubeletConfiguration\" config")).skip(1);
        let printed: Vec<_> = lines.map_while(|line| line.strip_prefix('\t')).collect();
        ensure!(!printed.is_empty(), "no configuration in {output}");
        Ok(in_lower_case(serde_saphyr::from_str(&printed.join("\n"))?))
    }

    /// The file with the name servers of pods, as the kubelet prints it.
    fn resolvers(&self, files: &Files) -> String {
        self.effective(files).unwrap()["resolvconf"].as_str().unwrap().to_owned()
    }

    /// The output of the kubelet. Fails with its error message if it rejects the files or ignores a field.
    fn accepts(&self, files: &Files) -> Result<String> {
        let output = self.run(files)?;
        let failed = output.lines().find(|line| line.contains(FAILED) || line.starts_with("Error: "));
        ensure!(output.contains(CONFIGURATION_READ), "{}", failed.unwrap_or(&output));
        ensure!(!output.contains(FIELD_IGNORED), "{output}");
        Ok(output)
    }

    /// The output of the kubelet until it ends, or has read its configuration.
    fn run(&self, files: &Files) -> Result<String> {
        let yaml = self.path("kubelet.yaml");
        fs::write(&yaml, &files.yaml)?;
        let mut command = self.prefix.command(&self.kubelet);
        command.args(["--config", &windows_path(&yaml), "--hostname-override=w1"]).args(&files.args);
        self.prefix.output_until(&mut command, |output| output.contains(CONFIGURATION_READ))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn checked(spec: &Value) -> Profile {
    profile::check(&serde_json::from_value(spec.clone()).unwrap()).unwrap()
}

fn of_kubelet(Configuration { files }: &Configuration) -> Files {
    Files { yaml: files[KUBELET_YAML].clone(), args: files[KUBELET_ARGS].lines().map(str::to_owned).collect() }
}

/// The cluster settings of a kubelet, with a certificate authority that it can read.
fn bootstrap(program: &Program) -> Bootstrap {
    let authority = program.path("ca.crt");
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
    fs::write(&authority, certificate.pem()).unwrap();
    Bootstrap {
        cluster_dns: vec!["10.96.0.10".into()],
        cluster_domain: Some("cluster.local".into()),
        client_ca_file: Some(windows_path(&authority)),
        kube_proxy_kubeconfig: None,
    }
}

/// A configuration as kubeadm writes it on a Windows node: fields of the cluster, and some that a profile sets too.
fn from_kubeadm(bootstrap: &Bootstrap, gate: &str) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"cacheTTL": "0s", "enabled": true},
            "x509": {"clientCAFile": bootstrap.client_ca_file},
        },
        "authorization": {"mode": "Webhook", "webhook": {"cacheAuthorizedTTL": "0s", "cacheUnauthorizedTTL": "0s"}},
        "cgroupsPerQOS": true,
        "clusterDNS": bootstrap.cluster_dns,
        "clusterDomain": bootstrap.cluster_domain,
        "evictionHard": {"nodefs.available": "1%"},
        "featureGates": {gate: true},
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": 10248,
        "maxPods": 250,
        "nodeStatusReportFrequency": "0s",
        "rotateCertificates": true,
        "staticPodPath": "Z:\\manifests",
        "systemReserved": {"cpu": "100m", "memory": "100Mi"},
    })
}

fn in_lower_case(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name.to_lowercase(), in_lower_case(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(in_lower_case).collect(),
        value => value,
    }
}

fn yaml_of(files: &Files) -> Value {
    serde_saphyr::from_str(&files.yaml).unwrap()
}

fn taints() -> Vec<Taint> {
    let taint = |key: &str, value: &str, effect| Taint { key: key.into(), value: value.into(), effect };
    vec![taint("os", "windows", TaintEffect::NoSchedule), taint("example.com/gpu", "", TaintEffect::NoExecute)]
}

const CONTAINERD: ContainerRuntime<ContainerdLine> = ContainerRuntime::Containerd(ContainerdLine::new(2, 1));

/// Every feature gate that the tables list for the minor, with its default.
fn all_gates(minor: Minor) -> BTreeMap<&'static str, bool> {
    let known = GATES.iter().filter(|gate| gate.known_in(minor));
    known.map(|gate| (gate.name, gate.default_in(minor))).collect()
}

fn profiles(minor: Minor) -> Vec<Value> {
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
            "featureGates": all_gates(minor),
        }}),
        json!({
            "kubelet": {"priorityClass": "Idle", "systemReserved": {}, "logging": {"verbosity": 1}, "extra": {
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
    let program = Program::new().unwrap();
    let (profiles, hosts) = (profiles(program.minor()), builds_supported_by(program.minor()).unwrap());
    let mut all = BTreeSet::new();
    for spec in &profiles {
        for host in hosts {
            all.extend([taints(), Vec::new()].map(|taints| program.layer_for(spec, &taints, *host)));
        }
    }
    assert!(all.len() >= profiles.len() * 2);
    for files in all {
        program.accepts(&files).unwrap_or_else(|refusal| panic!("{refusal}\n{files:#?}"));
    }
}

#[test]
fn the_windows_kubelet_rejects_invalid_configurations() {
    let program = Program::new().unwrap();
    let (minor, gate) = (program.minor(), program.gate());
    let good = program.layer(&json!({"kubelet": {"featureGates": {gate: true}}}), &taints());
    program.accepts(&good).unwrap();

    let unknown = GATES.iter().find(|gate| gate_state(gate.name, true, minor) == GateState::Unknown).unwrap().name;
    let locked = GATES
        .iter()
        .find(|gate| gate_state(gate.name, false, minor) == GateState::Locked(true) && gate.known_in(minor));
    let (set, locked) = (format!("{gate}: true"), locked.unwrap().name);
    let in_yaml = [
        ("enforceNodeAllocatable: []", "enforceNodeAllocatable: [pods]", "nforceNodeAllocatable"),
        (&set, &format!("{unknown}: true"), "unrecognized feature gate"),
        (&set, &format!("{locked}: false"), "feature is locked to true"),
        (&set, &format!("{gate}: 1"), "featureGates"),
        ("maxPods: 110", "maxPods: \"110\"", "maxPods"),
        ("memory: \"2Gi\"", "memory: 2", "systemReserved"),
        ("imageGCLowThresholdPercent: 80", "imageGCLowThresholdPercent: 85", "imageGCLowThresholdPercent"),
        ("maxPods: 110", "maxPods: 110\nmaxPod: 110", FIELD_IGNORED),
        ("kind: KubeletConfiguration", "kind: KubeletConfig", "no kind"),
    ];
    for (right, wrong, word) in in_yaml {
        assert!(good.yaml.contains(right), "{right} is in the file");
        let broken = Files { yaml: good.yaml.replacen(right, wrong, 1), ..good.clone() };
        assert_rejected(&program, &broken, word);
    }
    let broken = Files { yaml: good.yaml.replace("effect: \"NoSchedule\"", "effect: \"Never\""), ..good.clone() };
    assert_rejected(&program, &broken, "Never");
    for (wrong, word) in [
        ("--windows-priorityclass=ABOVE_NORMAL", "unknown priority class"),
        ("--config-folder=C:\\k", "unknown flag"),
        ("--register-with-taints=os=windows:Never", "invalid taint"),
    ] {
        let mut broken = good.clone();
        broken.args.push(wrong.to_owned());
        assert_rejected(&program, &broken, word);
    }
}

fn assert_rejected(program: &Program, broken: &Files, word: &str) {
    let refusal = program.accepts(broken).expect_err(&format!("accepted: {broken:#?}")).to_string();
    assert!(refusal.contains(word), "not for {word}: {refusal}");
}

#[test]
fn the_windows_kubelet_starts_with_no_flag_that_has_ended() {
    let program = Program::new().unwrap();
    let ended: Vec<_> = ENDED.iter().filter(|flag| !flag.known_in(program.minor())).collect();
    assert!(!ended.is_empty());
    for flag in ended {
        let mut files = program.layer(&json!({}), &[]);
        files.args.push(format!("--{}=1", flag.name));
        let error = program.accepts(&files).unwrap_err().to_string();
        assert!(error.contains(&format!("unknown flag: --{}", flag.name)), "{error}");
    }
}

#[test]
fn a_layer_merged_into_the_file_of_kubeadm_keeps_what_the_cluster_decided_and_the_kubelet_starts() {
    let program = Program::new().unwrap();
    let (gates, gate) = (all_gates(program.minor()), program.gate());
    let from_kubeadm = from_kubeadm(&bootstrap(&program), gate);
    let others: BTreeMap<_, _> = gates.into_iter().filter(|(name, _)| *name != gate).collect();
    let partial = json!({"kubelet": {"systemReserved": {"memory": "2Gi"}, "maxPods": 60, "featureGates": others}});
    for spec in [json!({}), partial] {
        let layer = program.layer(&spec, &taints());
        let mut merged = from_kubeadm.clone();
        // Merged like a patch by kubeadm, or like drop-in files by a kubelet.
        json_patch::merge(&mut merged, &yaml_of(&layer));
        for decided_by_the_cluster in [
            "/clusterDNS",
            "/clusterDomain",
            "/authentication",
            "/authorization",
            "/rotateCertificates",
            "/staticPodPath",
            "/healthzPort",
            "/systemReserved/cpu",
            &format!("/featureGates/{gate}"),
        ] {
            let kept = from_kubeadm.pointer(decided_by_the_cluster);
            assert!(kept.is_some(), "{decided_by_the_cluster}");
            assert_eq!(merged.pointer(decided_by_the_cluster), kept, "{decided_by_the_cluster}");
        }
        for (name, value) in yaml_of(&layer).as_object().unwrap() {
            let decided = &merged[name];
            match value.as_object() {
                Some(fields) => {
                    fields.iter().for_each(|(field, value)| assert_eq!(&decided[field], value, "{name}.{field}"))
                }
                None => assert_eq!(decided, value, "{name}"),
            }
        }
        let merged = Files { yaml: merged.to_string(), args: layer.args };
        program.accepts(&merged).unwrap_or_else(|refusal| panic!("{refusal}\n{merged:#?}"));
    }
}

#[test]
fn a_field_of_the_cluster_with_which_the_kubelet_does_not_start_is_removed_by_the_patch_for_kubeadm() {
    let program = Program::new().unwrap();
    let layer = program.layer(&json!({}), &taints());
    let mut cluster = from_kubeadm(&bootstrap(&program), program.gate());
    cluster["systemCgroups"] = json!("/system.slice");
    let merged = |patch: &str| {
        let mut merged = cluster.clone();
        json_patch::merge(&mut merged, &serde_saphyr::from_str(patch).unwrap());
        Files { yaml: merged.to_string(), args: layer.args.clone() }
    };
    assert_rejected(&program, &merged(&layer.yaml), "systemCgroups (--system-cgroups) was specified");
    let patched = merged(&kubeadm_patch(&layer.yaml, program.minor()));
    program.accepts(&patched).unwrap_or_else(|refusal| panic!("{refusal}\n{patched:#?}"));
}

/// `Host` is a name, but the kubelet makes it a path if a file has it.
#[test]
fn a_relative_value_of_resolv_conf_in_a_file_is_a_path_and_one_of_the_flag_is_not() {
    let program = Program::new().unwrap();
    let layer = program.layer(&json!({}), &taints());
    assert_eq!(program.resolvers(&layer), "", "what is rendered reads no file");
    let mut in_file = layer.clone();
    in_file.args.retain(|arg| arg != "--resolv-conf=");
    in_file.yaml = in_file.yaml.replace("resolvConf: \"\"", "resolvConf: Host");
    let found = program.resolvers(&in_file);
    assert!(found.contains(':') && found.ends_with(r"\Host"), "{found}");
    let mut by_flag = layer;
    by_flag.args.push("--resolv-conf=Host".to_owned());
    assert_eq!(program.resolvers(&by_flag), "Host");
}

#[test]
fn a_whole_configuration_is_accepted_and_has_what_the_cluster_decides() {
    let program = Program::new().unwrap();
    let bootstrap = bootstrap(&program);
    let variant = Variant { kubelet: program.minor(), runtime: CONTAINERD, host: program.host() };
    let files = of_kubelet(&standalone(&taints(), &checked(&json!({})), &variant, &bootstrap).unwrap());
    assert_eq!(yaml_of(&files)["clusterDNS"], json!(["10.96.0.10"]));
    program.accepts(&files).unwrap_or_else(|refusal| panic!("{refusal}\n{files:#?}"));
}
