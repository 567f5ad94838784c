//! What the messages of a kubelet mean that was started without a cluster.
//!
//! Sources: kubelet.exe 1.36 under Wine 10; kubernetes/kubernetes, `cmd/kubelet/app/auth.go` (the two
//! messages about webhooks).

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Accepted,
    /// It does not accept its configuration, with the message that shows it.
    Rejected(String),
    /// No known message, with its last messages.
    Unknown(String),
}

/// Messages after the configuration was read.
const ACCEPTED: &[&str] = &[
    "no client provided, cannot use webhook authentication",
    "no client provided, cannot use webhook authorization",
    "validate cri v1 runtime api for endpoint",
];

/// Messages about a configuration that is not accepted, also if the kubelet only logs them and continues.
const REJECTED: &[&str] = &[
    "failed to load kubelet config file",
    "failed to validate kubelet configuration",
    "invalid configuration",
    "failed to construct kubelet dependencies",
    "unable to load client ca file",
    "failed to run kubelet: open ",
    "unknown flag",
    "using lenient decoding",
    "unrecognized feature gate",
];

/// The most that a refusal quotes, in characters.
const LONGEST: usize = 1000;
/// Of a longer message, the characters at its start.
const START: usize = 200;
const LINES: usize = 5;

/// Classifies the messages of a kubelet. A rejection counts also if it continued.
pub(super) fn classify(output: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text.lines().collect();
    let with = |messages: &[&str]| {
        lines.iter().position(|line| {
            let line = line.to_lowercase();
            messages.iter().any(|message| line.contains(message))
        })
    };
    match (with(REJECTED), with(ACCEPTED)) {
        (Some(at), _) => Outcome::Rejected(message(&lines[at..])),
        (None, Some(_)) => Outcome::Accepted,
        (None, None) => match lines.iter().position(|line| is_header(line, "F")) {
            Some(at) => Outcome::Unknown(message(&lines[at..])),
            None => Outcome::Unknown(last_lines(output)),
        },
    }
}

/// The message at the start of these lines: it ends before the next one, or before the stack of the program.
fn message(lines: &[&str]) -> String {
    let rest = lines.iter().skip(1).take_while(|line| !is_header(line, "IWEF") && !line.starts_with("goroutine "));
    let lines: Vec<_> = lines.iter().take(1).chain(rest).map(|line| line.trim()).collect();
    shortened(&lines.join(" "))
}

/// Whether a message begins in this line, with one of these severities: `E1122 `.
fn is_header(line: &str, severities: &str) -> bool {
    let mut characters = line.chars();
    let severity = characters.next().is_some_and(|c| severities.contains(c));
    severity && characters.by_ref().take(4).filter(char::is_ascii_digit).count() == 4 && characters.next() == Some(' ')
}

pub(super) fn last_lines(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "no output".to_owned();
    }
    shortened(&lines[lines.len().saturating_sub(LINES)..].join(" | "))
}

/// A text with the first and the last of its characters, if it is too long.
fn shortened(text: &str) -> String {
    let characters: Vec<char> = text.chars().filter(|c| !c.is_control()).collect();
    if characters.len() <= LONGEST {
        return characters.into_iter().collect();
    }
    let end = characters.len() - (LONGEST - START);
    characters[..START].iter().chain([' ', '…', ' '].iter()).chain(&characters[end..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(line: &str) -> Outcome {
        Outcome::Rejected(line.to_owned())
    }

    #[test]
    fn messages_after_the_configuration_was_read_are_accepted() {
        let lines = [
            r#"E1122 08:00:00.000000    1 run.go:72] "command failed" err="failed to run Kubelet: no client provided, cannot use webhook authentication""#,
            r#"E1122 08:00:00.000000    1 run.go:72] "command failed" err="failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint \"npipe:////./pipe/winpool-none\": rpc error""#,
            "F1122 09:06:38.116855      32 server.go:269] failed to run Kubelet: no client provided, cannot use webhook authentication",
            "F1122 09:07:09.689486      32 server.go:269] failed to run Kubelet: no client provided, cannot use webhook authorization",
        ];
        for line in lines {
            assert_eq!(classify(line.as_bytes()), Outcome::Accepted, "{line}");
        }
    }

    #[test]
    fn messages_about_the_configuration_are_rejections() {
        let lines = [
            r#"E1122 08:00:00.000000    1 run.go:72] "command failed" err="failed to load kubelet config file, path: C:\\x, error: yaml: line 3""#,
            r#"E1122 08:00:00.000000    1 run.go:72] "command failed" err="failed to validate kubelet configuration, error: maxPods""#,
            r#"E1122 08:00:00.000000    1 run.go:72] "command failed" err="failed to construct kubelet dependencies: unable to load client CA file""#,
            r#"E1122 08:00:00.000000    1 run.go:72] "command failed" err="failed to run Kubelet: open C:\\missing: The system cannot find the file specified.""#,
            r#"E1122 08:00:00.000000    1 run.go:72] "command failed" err="failed to parse kubelet flag: unknown flag: --no-such-flag""#,
            "W1122 08:00:00.000000    1 feature_gate.go:352] unrecognized feature gate: NoSuchGate",
            r"F1122 09:05:55.645410      32 server.go:257] unable to load client CA file Z:\k\etc\kubernetes\pki\ca.crt: open Z:\k\etc\kubernetes\pki\ca.crt: Path not found.",
            r"F1122 09:06:38.774678     316 server.go:198] failed to load Kubelet config file Z:\k\config.yaml, error failed to decode: yaml: line 8: did not find expected node content",
            "F1122 09:06:39.495646     348 server.go:215] [invalid configuration: maxPods (--max-pods) -1 must not be a negative number]",
            "F1122 09:06:40.644726     412 server.go:208] unrecognized feature gate: NoSuchGate",
            "F1122 09:06:41.119097     444 server.go:156] unknown flag: --no-such-flag",
        ];
        for line in lines {
            let output = format!("Usage:\n  kubelet [flags]\n{line}\ngoroutine 1 [running]:\nmain.main()\n");
            assert_eq!(classify(output.as_bytes()), rejected(line));
        }
    }

    #[test]
    fn a_rejection_that_is_only_logged_counts_although_the_kubelet_continued() {
        let lenient = r#"W1122 08:00:00.000000    1 reconcile.go:1] "Using lenient decoding as strict decoding failed" err="unknown field \"maxPodz\"""#;
        let accepted = "E1122 08:00:00.000000    1 run.go:72] no client provided, cannot use webhook authentication";
        assert_eq!(classify(format!("{lenient}\n{accepted}\n").as_bytes()), rejected(lenient));
    }

    #[test]
    fn a_message_of_several_lines_is_quoted_with_its_start_and_its_end() {
        let start = "W1122 09:06:40.076408     380 codec.go:118] using lenient decoding as strict decoding failed: strict decoder error for ";
        let end = ": v1beta1.KubeletConfiguration.ReadObject: found unknown field: maxPodz";
        let file = "kind: KubeletConfiguration\r\n".repeat(100);
        let output = format!(
            "I1122 09:06:40.000000     380 server.go:416] Version\n{start}{file}{end}\nI1122 09:06:40.100000 next\n"
        );
        let Outcome::Rejected(message) = classify(output.as_bytes()) else { panic!("a rejection") };
        assert!(message.starts_with(start) && message.ends_with(end), "{message}");
        assert_eq!(message.chars().count(), LONGEST + 3);
    }

    #[test]
    fn an_output_without_a_known_message_is_quoted() {
        let fatal = "F1122 09:07:10.556666     264 server.go:269] failed to run Kubelet: File not found.";
        let output = format!(
            "I1122 09:07:10.000000     264 server.go:416] Version\n{fatal}\ngoroutine 1 [running]:\nmain.main()\n"
        );
        assert_eq!(classify(output.as_bytes()), Outcome::Unknown(fatal.to_owned()));
        assert_eq!(classify(b"a\r\n\r\nb\r\n"), Outcome::Unknown("a | b".to_owned()));
        assert_eq!(classify(b" \r\n"), Outcome::Unknown("no output".to_owned()));
        assert_eq!(classify(b"1\n2\n3\n4\n5\n6\n7\n"), Outcome::Unknown("3 | 4 | 5 | 6 | 7".to_owned()));
        assert_eq!(last_lines("ü".repeat(5000).as_bytes()).chars().count(), LONGEST + 3);
    }
}
