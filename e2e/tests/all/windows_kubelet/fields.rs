//! The table of fields, checked with the kubelet.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use winpool_facts::{
    Minor,
    feature_gates::{GateState, feature_gate, gate_state},
    kubelet_fields::{FIELDS, Field, FieldSupport, FieldType, fatal_in},
    support::NEWEST,
};
use winpool_render::{Variant, profile, render};

use super::{CONFIGURATION_READ, CONTAINERD, Files, Program, assert_rejected, bootstrap, in_lower_case};

/// A value other than the default of every field that a profile may set.
#[rustfmt::skip]
fn samples(program: &Program) -> BTreeMap<&'static str, Value> {
    let previous = format!("1.{}", program.minor().0 - 1);
    let authority = bootstrap(program).client_ca_file;
    BTreeMap::from([
        ("enableServer", json!(false)),
        ("podLogsDir", json!(r"C:\log\pods")),
        ("syncFrequency", json!("1m30s")),
        ("fileCheckFrequency", json!("30s")),
        ("httpCheckFrequency", json!("30s")),
        ("address", json!("127.0.0.1")),
        ("port", json!(10350)),
        ("readOnlyPort", json!(10255)),
        ("tlsCertFile", json!(r"C:\k\kubelet.crt")),
        ("tlsPrivateKeyFile", json!(r"C:\k\kubelet.key")),
        ("tlsCipherSuites", json!(["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"])),
        ("tlsCurvePreferences", json!([29])),
        ("tlsMinVersion", json!("VersionTLS12")),
        ("rotateCertificates", json!(true)),
        ("clientCertificateKeyAlgorithm", json!("ECDSA-P384")),
        ("serverCertificateKeyAlgorithm", json!("ECDSA-P384")),
        ("serverTLSBootstrap", json!(true)),
        ("authentication", json!({
            "x509": {"clientCAFile": authority},
            "webhook": {"enabled": false, "cacheTTL": "3m0s"},
            "anonymous": {"enabled": true},
        })),
        ("authorization", json!({
            "mode": "Webhook",
            "webhook": {"cacheAuthorizedTTL": "6m0s", "cacheUnauthorizedTTL": "40s"},
        })),
        ("registryPullQPS", json!(7)),
        ("registryBurst", json!(20)),
        ("imagePullCredentialsVerificationPolicy", json!("NeverVerifyAllowlistedImages")),
        ("preloadedImagesVerificationAllowlist", json!(["mcr.microsoft.com/windows/*"])),
        ("eventRecordQPS", json!(60)),
        ("eventBurst", json!(120)),
        ("enableDebuggingHandlers", json!(false)),
        ("enableContentionProfiling", json!(true)),
        ("healthzPort", json!(10348)),
        ("healthzBindAddress", json!("127.0.0.2")),
        ("clusterDomain", json!("cluster.local")),
        ("clusterDNS", json!(["10.96.0.10"])),
        ("streamingConnectionIdleTimeout", json!("1h0m0s")),
        ("nodeStatusUpdateFrequency", json!("20s")),
        ("nodeStatusReportFrequency", json!("6m0s")),
        ("nodeLeaseDurationSeconds", json!(60)),
        ("imageMinimumGCAge", json!("5m0s")),
        ("imageMaximumGCAge", json!("24h0m0s")),
        ("volumeStatsAggPeriod", json!("2m0s")),
        ("cpuManagerPolicy", json!("static")),
        ("cpuManagerPolicyOptions", json!({"full-pcpus-only": "true"})),
        ("cpuManagerReconcilePeriod", json!("20s")),
        ("memoryManagerPolicy", json!("BestEffort")),
        ("topologyManagerPolicy", json!("best-effort")),
        ("topologyManagerScope", json!("pod")),
        ("topologyManagerPolicyOptions", json!({"max-allowable-numa-nodes": "16"})),
        ("runtimeRequestTimeout", json!("5m0s")),
        ("podCIDR", json!("10.244.1.0/24")),
        ("resolvConf", json!(r"C:\etc\resolv.conf")),
        ("nodeStatusMaxImages", json!(-1)),
        ("contentType", json!("application/json")),
        ("kubeAPIQPS", json!(60)),
        ("kubeAPIBurst", json!(120)),
        ("serializeImagePulls", json!(false)),
        ("maxParallelImagePulls", json!(5)),
        ("evictionSoft", json!({"memory.available": "1Gi"})),
        ("evictionSoftGracePeriod", json!({"memory.available": "1m30s"})),
        ("evictionPressureTransitionPeriod", json!("6m0s")),
        ("evictionMaxPodGracePeriod", json!(60)),
        ("evictionMinimumReclaim", json!({"nodefs.available": "500Mi"})),
        ("podsPerCore", json!(20)),
        ("enableControllerAttachDetach", json!(false)),
        ("containerLogMaxWorkers", json!(2)),
        ("containerLogMonitorInterval", json!("5s")),
        ("configMapAndSecretChangeDetectionStrategy", json!("Cache")),
        ("showHiddenMetricsForVersion", json!(previous)),
        ("providerID", json!("example:///über/no")),
        ("logging", json!({
            "format": "text",
            "flushFrequency": "10s",
            "verbosity": 5,
            "vmodule": [{"filePattern": "server", "verbosity": 4}],
        })),
        ("enableSystemLogQuery", json!(true)),
        ("shutdownGracePeriod", json!("30s")),
        ("shutdownGracePeriodCriticalPods", json!("10s")),
        ("crashLoopBackOff", json!({"maxContainerRestartPeriod": "2m0s"})),
        ("reservedMemory", json!([{"numaNode": 0, "limits": {"memory": "1Gi"}}])),
        ("enableProfilingHandler", json!(false)),
        ("enableDebugFlagsHandler", json!(false)),
        ("registerNode", json!(false)),
        ("tracing", json!({"endpoint": "127.0.0.1:4317", "samplingRatePerMillion": 100})),
        ("localStorageCapacityIsolation", json!(false)),
        ("enableSystemLogHandler", json!(false)),
        ("shutdownGracePeriodByPodPriority", json!([{"priority": 100, "shutdownGracePeriodSeconds": 10}])),
    ])
}

/// Fields that a kubelet does not take together with all others.
const APART: [&str; 2] = ["enableSystemLogHandler", "shutdownGracePeriodByPodPriority"];

/// The fields that a profile for kubelets of a minor may have.
fn available(minor: Minor) -> impl Iterator<Item = &'static Field> {
    let has_gate = move |field: &&Field| field.gate.and_then(feature_gate).is_none_or(|gate| gate.first <= minor);
    supported().filter(move |field| field.since <= minor).filter(has_gate)
}

fn supported() -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(|field| field.support == FieldSupport::Supported)
}

/// What is rendered from a profile with these fields, and with the gates of all fields.
fn with(program: &Program, extra: &Map<String, Value>) -> Files {
    let gates: Map<_, _> = supported()
        .filter_map(|field| field.gate)
        .filter(|gate| gate_state(gate, true, program.minor()) == GateState::Accepted)
        .map(|gate| (gate.to_owned(), true.into()))
        .collect();
    program.layer(&json!({"kubelet": {"extra": extra, "featureGates": gates}}), &[])
}

/// The parts of a field without a sample.
fn missing(path: &str, field_type: FieldType, sample: Option<&Value>) -> Vec<String> {
    match (field_type, sample) {
        (_, None) => vec![path.to_owned()],
        (FieldType::Object(fields), Some(sample)) => {
            let parts = fields.iter();
            parts.flat_map(|(name, part)| missing(&format!("{path}.{name}"), *part, sample.get(name))).collect()
        }
        (FieldType::Objects(fields), Some(sample)) => missing(path, FieldType::Object(fields), sample.get(0)),
        _ => Vec::new(),
    }
}

/// The parts of a value that the kubelet does not print as they are written.
fn lost(path: &str, written: &Value, printed: Option<&Value>) -> Vec<String> {
    match (written, printed) {
        (Value::Object(written), Some(Value::Object(printed))) => {
            let of_field = |(name, value): (&String, &Value)| lost(&format!("{path}.{name}"), value, printed.get(name));
            written.iter().flat_map(of_field).collect()
        }
        (Value::Array(written), Some(Value::Array(printed))) if written.len() == printed.len() => {
            let items = written.iter().zip(printed);
            items.flat_map(|(written, printed)| lost(&format!("{path}[]"), written, Some(printed))).collect()
        }
        _ if Some(written) == printed => Vec::new(),
        _ => vec![format!("{path}: {written} became {printed:?}")],
    }
}

#[test]
fn the_windows_kubelet_takes_every_field_that_a_profile_may_set() {
    let program = Program::new().unwrap();
    let samples = samples(&program);
    let without = supported().flat_map(|field| missing(field.name, field.field_type, samples.get(field.name)));
    assert_eq!(without.collect::<Vec<_>>(), Vec::<String>::new(), "fields without a sample");
    for apart in [false, true] {
        let fields = available(program.minor()).filter(|field| APART.contains(&field.name) == apart);
        let extra = fields.map(|field| (field.name.to_owned(), samples[field.name].clone())).collect();
        let effective = program.effective(&with(&program, &extra)).unwrap_or_else(|refusal| panic!("{refusal}"));
        let lost = lost("", &in_lower_case(extra.into()), Some(&effective));
        assert!(lost.is_empty(), "{lost:#?}");
    }
}

/// The first and last values of a range, or all values.
fn accepted_values(field_type: FieldType) -> Vec<Value> {
    match field_type {
        FieldType::Integer(min, max) => vec![json!(min), json!(max)],
        FieldType::DurationWithin(min, max) => vec![json!(format!("{min}s")), json!(format!("{max}s"))],
        FieldType::GracePeriod => vec![json!("0s"), json!("1s")],
        FieldType::Enum(values) => values.iter().map(|value| json!(value)).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_windows_kubelet_takes_the_bounds_of_every_range_and_all_values_of_an_enumeration() {
    let program = Program::new().unwrap();
    for index in 0..4 {
        let values = available(program.minor())
            .filter_map(|field| Some((field.name.to_owned(), accepted_values(field.field_type).get(index)?.clone())));
        let mut extra: Map<_, _> = values.collect();
        assert!(!extra.is_empty());
        extra.insert("serializeImagePulls".into(), false.into());
        program.accepts(&with(&program, &extra)).unwrap_or_else(|refusal| panic!("{refusal}"));
    }
}

#[test]
fn what_a_profile_must_not_say_stops_the_windows_kubelet() {
    let program = Program::new().unwrap();
    let files = with(&program, &Map::new());
    // The kubelet reads the settings of its log alone, and reports all other errors together.
    let batches: [&[_]; 3] = [
        &[(json!({"logging": {"format": "yaml"}}), "Unsupported log format")],
        &[(json!({"logging": {"format": "json", "vmodule": [{"filePattern": "a"}]}}), "Only supported for text log")],
        &[
            (json!({"port": 65536}), "port (--port) 65536 must be between 1 and 65535"),
            (json!({"nodeStatusMaxImages": -2}), "must be -1 or greater"),
            (json!({"podLogsDir": r"C:\log\..\pods"}), "must be normalized"),
            (json!({"containerLogMonitorInterval": "2s"}), "greater than or equal to 3s"),
            (json!({"topologyManagerPolicy": "numa"}), "topologyManagerPolicy (--topology-manager-policy)"),
            (json!({"showHiddenMetricsForVersion": "1.2"}), "nly the previous minor version is allowed"),
            (json!({"maxParallelImagePulls": 5, "serializeImagePulls": true}), "cannot be larger than 1 unless"),
            (json!({"imageMinimumGCAge": "1h", "imageMaximumGCAge": "1h"}), "must be greater than imageMinimumGCAge"),
            (json!({"shutdownGracePeriod": "9s", "shutdownGracePeriodCriticalPods": "20s"}), "must be <= shutdownGr"),
            (json!({"shutdownGracePeriod": "9s", "shutdownGracePeriodByPodPriority": [{}]}), "Cannot specify both"),
            (
                json!({"enableSystemLogQuery": true, "enableSystemLogHandler": false}),
                "enableSystemLogHandler is required",
            ),
        ],
    ];
    let variant = Variant { kubelet: program.minor(), runtime: CONTAINERD, host: program.host() };
    for batch in batches {
        let mut all = json!({});
        for (extra, _) in batch {
            let profile = profile::check(&serde_json::from_value(json!({"kubelet": {"extra": extra}})).unwrap());
            assert!(profile.is_err() || render(&[], &profile.unwrap(), &variant).is_err(), "{extra} is rendered");
            json_patch::merge(&mut all, extra);
        }
        let refusal = program.accepts(&files.with(&all)).unwrap_err().to_string();
        for (_, message) in batch {
            assert!(refusal.contains(message), "not for {message}: {refusal}");
        }
    }
}

#[test]
fn every_field_with_which_a_windows_kubelet_does_not_start_stops_it() {
    let program = Program::new().unwrap();
    let minor = program.minor();
    let files = program.layer(&json!({}), &[]);
    let table = BTreeMap::from([
        ("systemCgroups", (json!("/system"), "systemCgroups (--system-cgroups) was specified")),
        ("singleProcessOOMKill", (json!(false), "singleProcessOOMKill is not supported on Windows")),
        ("runOnce", (json!(true), "Runonce mode has been deprecated")),
        ("defaultPodSysctls", (json!({"net.core.somaxconn": "1"}), "defaultPodSysctls is not supported on Windows")),
        ("userNamespaces", (json!({}), "userNamespaces is not supported on Windows")),
    ]);
    for field in fatal_in(minor) {
        let (value, message) = table.get(field.name).unwrap_or_else(|| panic!("no value of {}", field.name));
        let files = files.with(&json!({field.name: value}));
        match (field.name, minor) {
            // Up to 1.31 it exits later, after it has started the pods of its files.
            ("runOnce", Minor(..=31)) => drop(program.accepts(&files).unwrap()),
            _ => assert_rejected(&program, &files, message),
        }
    }
    assert_eq!(table.len(), fatal_in(NEWEST).count());
}

#[test]
fn the_windows_kubelet_up_to_1_30_does_not_start_with_cgroups_and_later_ones_ignore_them() {
    let program = Program::new().unwrap();
    let files =
        program.layer(&json!({}), &[]).with(&json!({"cgroupsPerQOS": true, "enforceNodeAllocatable": ["pods"]}));
    let output = program.run(&files).unwrap();
    for field in ["CgroupsPerQOS (--cgroups-per-qos) true", "(--enforce-node-allocatable) [pods]"] {
        assert!(output.contains(&format!("{field} is not supported on Windows")), "{output}");
    }
    assert_eq!(output.contains(CONFIGURATION_READ), program.minor() > Minor(30), "{output}");
}
