//! Reduces objects to the fields that a diagnosis needs, and removes credentials from the texts in them.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;
use serde_json::Value;
use winpool_api::{bounds::shortened, facts::runtime_errors};

use super::evidence::EvidencePart;

/// The maximum length of a text, in characters.
const MAX_TEXT: usize = 2048;
/// What replaces a credential.
pub(super) const MASK: &str = "***";

/// The fields of each part that are kept, with everything below them. A path through a list is through each of its items. A path
/// that ends in `{}` keeps that there is a value, without its fields. A key may have dots.
const fn fields(part: EvidencePart) -> &'static [&'static str] {
    match part {
        EvidencePart::Pools => POOLS,
        EvidencePart::Nodes => &[
            "metadata.annotations.flannel.alpha.coreos.com/node-public-ip",
            "metadata.annotations.flannel.alpha.coreos.com/public-ip",
            "metadata.annotations.flannel.alpha.coreos.com/public-ip-overwrite",
            "metadata.annotations.projectcalico.org/IPv4Address",
            "metadata.creationTimestamp",
            "metadata.labels",
            "metadata.name",
            "metadata.uid",
            "spec.taints",
            "spec.unschedulable",
            "status.addresses",
            "status.allocatable",
            "status.capacity",
            "status.conditions",
            "status.daemonEndpoints",
            "status.nodeInfo",
        ],
        EvidencePart::Pods => PODS,
        EvidencePart::Events => &[
            "count",
            "eventTime",
            "firstTimestamp",
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.uid",
            "lastTimestamp",
            "message",
            "metadata.name",
            "metadata.namespace",
            "reason",
            "type",
        ],
        EvidencePart::DaemonSets => &[
            "metadata.name",
            "metadata.namespace",
            "metadata.uid",
            "spec.selector.{}",
            "spec.template.spec.affinity.{}",
            "spec.template.spec.containers.image",
            "spec.template.spec.containers.name",
            "spec.template.spec.nodeSelector",
        ],
        EvidencePart::Leases => &["metadata.name", "metadata.namespace", "spec.renewTime"],
        EvidencePart::EndpointSlices => &[
            "addressType",
            "endpoints.addresses",
            "endpoints.targetRef.kind",
            "endpoints.targetRef.name",
            "endpoints.targetRef.namespace",
            "metadata.name",
            "metadata.namespace",
        ],
        EvidencePart::Machines => &[
            "metadata.creationTimestamp",
            "metadata.deletionTimestamp",
            "metadata.name",
            "metadata.namespace",
            "metadata.ownerReferences",
            "metadata.labels",
            "status.nodeRef.name",
            "status.phase",
        ],
        EvidencePart::NodeConfigs => &[
            "apiVersion",
            "kind",
            "metadata.name",
            "spec",
            "status.diagnosis",
            "status.facts",
            "status.message",
            "status.phase",
            "status.reason",
        ],
        // They are no objects.
        EvidencePart::NodeLogs | EvidencePart::Images => &[],
    }
}

const POOLS: &[&str] =
    &["apiVersion", "kind", "metadata.annotations.winpool.dev/acknowledge-issues", "metadata.name", "spec", "status"];

const PODS: &[&str] = &[
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.ownerReferences",
    "metadata.uid",
    "spec.containers.image",
    "spec.containers.lifecycle.postStart.{}",
    "spec.containers.livenessProbe.exec.{}",
    "spec.containers.name",
    "spec.containers.readinessProbe.exec.{}",
    "spec.containers.securityContext.windowsOptions.hostProcess",
    "spec.containers.startupProbe.exec.{}",
    "spec.containers.volumeMounts.mountPath",
    "spec.containers.volumeMounts.name",
    "spec.containers.volumeMounts.subPath",
    "spec.dnsPolicy",
    "spec.hostNetwork",
    "spec.initContainers.image",
    "spec.initContainers.name",
    "spec.initContainers.volumeMounts.mountPath",
    "spec.initContainers.volumeMounts.name",
    "spec.initContainers.volumeMounts.subPath",
    "spec.nodeName",
    "spec.runtimeClassName",
    "spec.securityContext.windowsOptions.hostProcess",
    "spec.volumes.awsElasticBlockStore.{}",
    "spec.volumes.azureDisk.{}",
    "spec.volumes.azureFile.{}",
    "spec.volumes.csi.driver",
    "spec.volumes.ephemeral.{}",
    "spec.volumes.fc.{}",
    "spec.volumes.flexVolume.{}",
    "spec.volumes.gcePersistentDisk.{}",
    "spec.volumes.image.{}",
    "spec.volumes.iscsi.{}",
    "spec.volumes.name",
    "spec.volumes.nfs.{}",
    "spec.volumes.persistentVolumeClaim.{}",
    "spec.volumes.vsphereVolume.{}",
    "status.conditions",
    "status.containerStatuses",
    "status.initContainerStatuses",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.startTime",
];

/// The words that name a credential, alone or at the end of a name such as `DB_PASS` or `--docker-password`.
const WORDS: &str = "password|passwd|passphrase|pwd|secret|token|(?:api|account|access|secret|private|shared|master|encryption)[-_]?key|\
                     sig|signature|credentials?|dockerconfigjson|(?:\\b|_)pass|(?:\\b|_)auth";

/// Credentials in a text, and what replaces them. `WORD` is one of [`WORDS`].
const CREDENTIALS: &[(&str, &str)] = &[
    // Private keys, also in one line, and without their end.
    (r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY.*?(-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\z)", MASK),
    (r"eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}(\.[A-Za-z0-9_-]*)?", MASK),
    (r"(?i)(bearer|basic)[ \t]+[A-Za-z0-9._~+/=-]{6,}", "$1 ***"),
    // The prefixes of GitHub, GitLab, Slack, Vault, AWS, Google, OpenAI, Stripe, npm, PyPI, Docker, DigitalOcean, Azure DevOps, age.
    (
        r"\b(gh[opusr]_|github_pat_|gl(?:pat|dt|rt|soat|cbt|ptt|ft|imt|agent|oas|ffct)-|xox[a-z]-|xapp-|hv[sbr]\.|A[KS]IA|AIza|ya29\.|sk[-_](?:live_|test_|proj-|ant-)?|rk_live_|npm_|pypi-|dckr_pat_|do[opr]_v1_|AGE-SECRET-KEY-)[A-Za-z0-9._/+=-]{12,}",
        "$1***",
    ),
    (r#"(?i)((?:WORD)\\*["']?[ \t]*[=:][ \t]*)(\\*)"[^"\\]{3,}\\*""#, r#"$1$2"***$2""#),
    (r"(?i)((?:WORD)[ \t]*[=:][ \t]*)'[^']{3,}'", "$1'***'"),
    (r#"(?i)(WORD)(\\*["']?[ \t]*[=:][ \t]*["']?)[!#-%(-+\--:<-\[\]-~]{3,}"#, "$1$2***"),
    // The value of a flag is the next word, or the next item of a list.
    (r#"(?i)((?:^|[\s"'\[,(=])-{1,2}[a-z0-9_-]*(?:WORD)\\*["']?[\s,]+\\*["']?)[^\s"',\\-][^\s"',\\]*"#, "$1***"),
    (r#"((?:^|\s)-u[ \t]+["']?)[^\s:"']+:[^\s"']+"#, "$1***"),
    (r"://[!-.0-9;-?A-~]*:[!-.0-?A-~]+@", "://***@"),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compiled =
        CREDENTIALS.iter().map(|(pattern, with)| Some((Regex::new(&pattern.replace("WORD", WORDS)).ok()?, *with)));
    compiled.flatten().collect()
});

/// An object of a part, reduced to the fields that a diagnosis needs. No text in it has a credential, as far as its form shows.
pub fn reduced(part: EvidencePart, object: Value) -> Value {
    let mut object = kept(object, fields(part)).unwrap_or(Value::Null);
    if part == EvidencePart::Pods {
        remove_output(&mut object);
    }
    object
}

fn kept(value: Value, paths: &[&str]) -> Option<Value> {
    match value {
        Value::Array(items) => Some(items.into_iter().filter_map(|item| kept(item, paths)).collect()),
        Value::Object(fields) => {
            let fields = fields.into_iter().filter_map(|(key, value)| {
                let below: Vec<&str> = paths.iter().filter_map(|path| rest(path, &key)).collect();
                let value = match &below[..] {
                    [] => None,
                    // The name of an image is no credential, also if it has the form of one.
                    below if below.contains(&"") && key == "image" => Some(value),
                    below if below.contains(&"") => Some(masked_value(value)),
                    below => kept(value, below),
                };
                Some((key, value?))
            });
            Some(Value::Object(fields.collect()))
        }
        _ => None,
    }
}

/// The part of a path after its first field, if that is `key`.
fn rest<'p>(path: &'p str, key: &str) -> Option<&'p str> {
    match path.strip_prefix(key)? {
        "" => Some(""),
        below => below.strip_prefix('.'),
    }
}

fn masked_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(masked(&text)),
        Value::Array(items) => items.into_iter().map(masked_value).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, masked_value(value))).collect(),
        other => other,
    }
}

/// A text without credentials, in at most 2,048 characters.
pub fn masked(text: &str) -> String {
    let masked = PATTERNS
        .iter()
        .fold(Cow::Borrowed(text), |text, (pattern, with)| Cow::Owned(pattern.replace_all(&text, *with).into_owned()));
    shortened(&masked, MAX_TEXT)
}

/// Removes what programs in containers have written: the message of a container that ended is its termination log, or the end
/// of its output. Messages of the container runtime about an image that does not match stay.
fn remove_output(pod: &mut Value) {
    let status = pod.get_mut("status").and_then(Value::as_object_mut);
    let lists = status.into_iter().flatten().filter(|(key, _)| key.ends_with("ontainerStatuses"));
    for container in lists.filter_map(|(_, list)| list.as_array_mut()).flatten() {
        for state in ["state", "lastState"] {
            let terminated = container.get_mut(state).and_then(|state| state.get_mut("terminated"));
            if let Some(terminated) = terminated.and_then(Value::as_object_mut) {
                let is_of_runtime = |text: &Value| text.as_str().is_some_and(runtime_errors::is_platform_mismatch);
                terminated.retain(|key, value| key != "message" || is_of_runtime(value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_pattern_of_credentials_is_valid() {
        assert_eq!(PATTERNS.len(), CREDENTIALS.len());
    }

    #[test]
    fn a_text_has_no_credentials() {
        let table = [
            ("Authorization: Bearer abcdef123456", "Authorization: Bearer ***"),
            ("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln and more", "*** and more"),
            ("--password=hunter22 --user=x", "--password=*** --user=x"),
            ("{\"token\": \"abcdef\", \"a\": 1}", "{\"token\": \"***\", \"a\": 1}"),
            ("https://u.blob.example/x?sv=1&sig=aGVsbG8%3D&x=1", "https://u.blob.example/x?sv=1&sig=***&x=1"),
            ("Get \"https://joe:s3cret@registry.example/v2/\"", "Get \"https://***@registry.example/v2/\""),
            ("AccountKey=abc123==;EndpointSuffix=x", "AccountKey=***;EndpointSuffix=x"),
            ("kubeadm join a:6443 --token abcdef.0123456789abcdef --v 5", "kubeadm join a:6443 --token *** --v 5"),
            ("DB_PASS=hunter22 HOST=a", "DB_PASS=*** HOST=a"),
            ("args: [\"--password\", \"hunter22\", \"-v\"]", "args: [\"--password\", \"***\", \"-v\"]"),
        ];
        for (text, expected) in table {
            assert_eq!(masked(text), expected);
            assert_eq!(masked(expected), expected, "masked once is masked");
        }
    }

    #[test]
    fn no_credential_of_any_kind_survives() {
        let random = "q7Zk2mXw9RtB4nLs8VyE1cGh6DfJ3pUa";
        let forms = [
            "password=HIDDEN",
            "Password: HIDDEN",
            "db_password = HIDDEN",
            "PASSWORD='HIDDEN'",
            "pwd=HIDDEN;",
            "passwd:HIDDEN",
            "passphrase=\"HIDDEN\"",
            "password=\"two HIDDEN words\"",
            "password: 'two HIDDEN words'",
            "DB_PASS=HIDDEN",
            "MYSQL_ROOT_PASSWORD=HIDDEN",
            "PASS: HIDDEN",
            "api_key=HIDDEN",
            "apikey: HIDDEN",
            "x-api-key: HIDDEN",
            "API-KEY=HIDDEN",
            "client_secret=HIDDEN",
            "clientSecret: HIDDEN",
            "secretKey=HIDDEN",
            "aws_secret_access_key = HIDDEN",
            "aws_session_token=HIDDEN",
            "SharedAccessKey=HIDDEN",
            "DefaultEndpointsProtocol=https;AccountKey=HIDDEN;x=y",
            "private_key: HIDDEN",
            "credentials=HIDDEN",
            "X-Amz-Signature=HIDDEN&a=b",
            "?sig=HIDDEN",
            "X-Vault-Token: HIDDEN",
            "{\"password\":\"HIDDEN\"}",
            "{\\\"password\\\":\\\"HIDDEN\\\"}",
            "{\"auths\":{\"a\":{\"auth\":\"HIDDEN\"}}}",
            ".dockerconfigjson: HIDDEN",
            "--password HIDDEN",
            "--password=HIDDEN",
            "--docker-password HIDDEN",
            "-Password HIDDEN",
            "-token HIDDEN",
            "--token  \"HIDDEN\"",
            "--client-secret 'HIDDEN'",
            "[\"--api-key\",\"HIDDEN\"]",
            "--registry-token HIDDEN",
            "curl -u joe:HIDDEN https://a",
            "/password:HIDDEN",
            "https://joe:HIDDEN@host/x",
            "postgres://:HIDDEN@db:5432/a",
            "Authorization: Basic HIDDEN",
            "authorization: bearer HIDDEN",
            "Proxy-Authorization: Basic HIDDEN",
            "ghp_HIDDEN",
            "gho_HIDDEN",
            "ghs_HIDDEN",
            "github_pat_HIDDEN",
            "glpat-HIDDEN",
            "glrt-HIDDEN",
            "xoxb-HIDDEN",
            "xoxp-HIDDEN",
            "xapp-HIDDEN",
            "hvs.HIDDEN",
            "hvb.HIDDEN",
            "AKIAHIDDEN",
            "ASIAHIDDEN",
            "AIzaHIDDEN",
            "ya29.HIDDEN",
            "sk-HIDDEN",
            "sk_live_HIDDEN",
            "sk-ant-HIDDEN",
            "npm_HIDDEN",
            "pypi-HIDDEN",
            "dckr_pat_HIDDEN",
            "dop_v1_HIDDEN",
            "AGE-SECRET-KEY-HIDDEN",
            "eyJhbGciOiJIUzI1NiJ9.eyJHIDDEN.HIDDEN",
            "-----BEGIN PRIVATE KEY-----\nHIDDEN\n-----END PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----\\nHIDDEN\\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN OPENSSH PRIVATE KEY----- HIDDEN -----END OPENSSH PRIVATE KEY-----",
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nHIDDEN\n-----END PGP PRIVATE KEY BLOCK-----",
            "-----BEGIN EC PRIVATE KEY-----\nHIDDEN and its end is cut",
        ];
        for form in forms {
            for around in ["FORM", "failed to start: FORM", "\"FORM\": exit status 1", "run FORM --v 2"] {
                let text = around.replace("FORM", &form.replace("HIDDEN", random));
                let masked = masked(&text);
                assert!(!masked.contains(random) && masked.contains(MASK), "{text} -> {masked}");
            }
        }
    }

    #[test]
    fn ordinary_texts_are_unchanged() {
        let texts = [
            "failed to pull: unauthorized",
            "secret \"web-tls\" not found",
            "volume \"default-token-x7k2p\" : timed out",
            "couldn't find key password in Secret shop/db",
            "MountVolume.SetUp failed for volume \"kube-api-access-5f7xk\" : failed to fetch token from the API server",
            "Back-off pulling image \"mcr.microsoft.com/windows/servercore:ltsc2022\"",
            "hcs::CreateComputeSystem web: The container operating system does not match the host operating system.",
            "failed to create containerd task: bypass the compass, 3 of 4 passed",
            "desk-lamp-1, task-sk-2 and risk_2 are not ready",
            "node win-1.example.com: PLEG is not healthy: pleg was last seen active 3m0s ago; threshold is 3m0s",
            "-----BEGIN CERTIFICATE----- MIIB -----END CERTIFICATE-----",
            "Get \"https://10.0.0.1:10250/pods\": dial tcp 10.0.0.1:10250: connect: connection refused",
            "web.17a2b3c4d5e6f708 --v 5 -u 1000",
        ];
        for text in texts {
            assert_eq!(masked(text), text);
        }
    }

    #[test]
    fn a_pod_keeps_no_environment_command_or_output() {
        let pod = json!({
            "metadata": {"name": "web", "annotations": {"a": "planted"}},
            "spec": {
                "nodeName": "win-1",
                "containers": [{
                    "name": "app", "image": "app-token:1.2", "args": ["planted"], "command": ["planted"],
                    "env": [{"name": "A", "value": "planted"}],
                    "livenessProbe": {"exec": {"command": ["planted"]}},
                }],
                "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"key": "planted"}}}],
            },
            "status": {"containerStatuses": [{
                "name": "app",
                "state": {"terminated": {"exitCode": 1, "message": "planted"}},
                "lastState": {"terminated": {"exitCode": 1, "message": "x: 0xc0370101"}},
            }]},
        });
        let expected = json!({
            "metadata": {"name": "web"},
            "spec": {
                "nodeName": "win-1",
                "containers": [{"name": "app", "image": "app-token:1.2", "livenessProbe": {"exec": {}}}],
                "volumes": [{"name": "v", "csi": {"driver": "d"}}],
            },
            "status": {"containerStatuses": [{
                "name": "app",
                "state": {"terminated": {"exitCode": 1}},
                "lastState": {"terminated": {"exitCode": 1, "message": "x: 0xc0370101"}},
            }]},
        });
        assert_eq!(reduced(EvidencePart::Pods, pod), expected);
    }
}
