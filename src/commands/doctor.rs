//! `winpool doctor`: which known symptoms a pool, a node or a pod has, with evidence, cause and remedy. Read-only.

mod bundle;
mod read;
mod text;

use std::{path::PathBuf, time::Duration};

use tokio::time::Instant;
use winpool_core::{
    doctor::{Diagnosis, DiagnosisSubject},
    kubernetes::{duration, syntax},
};

use super::{
    CommandError, connect, input,
    output::{self, ReportFormat},
    progress::Progress,
};
use read::SubjectReader;

/// The options as typed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is 0 if no symptom was found, and 1 if one was. What may not be read is not excluded: it is \
                  reported as not determinable. The role winpool-doctor in config/doctor has every permission that is used."
)]
pub(super) struct Args {
    /// pool/NAME, node/NAME or pod/NAME
    #[arg(value_name = "KIND/NAME", required_unless_present = "from")]
    subject: Option<String>,
    /// The namespace of the pod
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// How long reading the cluster may take, such as 30s
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    timeout: String,
    /// Also write what was read into this directory, without Secrets, environment, commands and credentials in texts
    #[arg(long, value_name = "DIR")]
    bundle: Option<PathBuf>,
    /// Read this directory, which --bundle has written, instead of a cluster
    #[arg(long, value_name = "DIR", conflicts_with_all = ["subject", "bundle"])]
    from: Option<PathBuf>,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: ReportFormat,
    #[command(flatten)]
    cluster: connect::Args,
}

/// Prints the diagnosis.
///
/// # Errors
/// A symptom was found, or the subject does not exist.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let Args { subject, namespace, timeout, bundle: directory, from, output: format, cluster } = args;
    let evidence = match from {
        Some(directory) => bundle::read(&directory)?,
        None => {
            let subject = parse_subject(&subject.unwrap_or_default(), input::namespace(namespace)?)?;
            let limit = time_limit(&timeout)?;
            connect::runtime()?.block_on(async {
                let progress = Progress::start("reading the cluster", "request");
                let client = progress.counting(cluster.client().await?);
                SubjectReader::new(client, Instant::now() + limit).evidence(subject).await
            })?
        }
    };
    if let Some(directory) = &directory {
        bundle::write(directory, &evidence)?;
    }
    let diagnosis = Diagnosis::of(&evidence);
    match format {
        ReportFormat::Text => output::print_styled(&text::text(&diagnosis)),
        ReportFormat::Json => output::print(&format!("{:#}\n", serde_json::json!(diagnosis))),
    }?;
    diagnosis.summary().map_or(Ok(()), |summary| Err(CommandError::Problems(summary)))
}

fn parse_subject(typed: &str, namespace: String) -> Result<DiagnosisSubject, CommandError> {
    let (kind, name) = typed.split_once('/').unwrap_or_default();
    let name = name.to_owned();
    let subject = match kind {
        "pool" | "wnp" | "windowsnodepool" => Some(DiagnosisSubject::Pool { name: name.clone() }),
        "node" | "no" => Some(DiagnosisSubject::Node { name: name.clone() }),
        "pod" | "po" => Some(DiagnosisSubject::Pod { namespace, name: name.clone() }),
        _ => None,
    };
    let text = || format!("`{typed}` is no subject. Write pool/NAME, node/NAME or pod/NAME");
    subject.filter(|_| syntax::is_dns_subdomain(&name)).ok_or_else(|| CommandError::Usage(text()))
}

fn time_limit(typed: &str) -> Result<Duration, CommandError> {
    let nanoseconds = duration::parse(typed).and_then(|parsed| u64::try_from(parsed).ok()).filter(|parsed| *parsed > 0);
    let text = || format!("--timeout: `{typed}` is no duration. Write for instance 30s or 2m");
    nanoseconds.map(Duration::from_nanos).ok_or_else(|| CommandError::Usage(text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_a_kind_and_a_name() {
        let of = |typed: &str| parse_subject(typed, "shop".to_owned()).map(|subject| subject.to_string()).ok();
        let table = [
            ("pool/web", Some("pool web")),
            ("wnp/web", Some("pool web")),
            ("node/win-1.example", Some("node win-1.example")),
            ("pod/cart-0", Some("pod shop/cart-0")),
            ("web", None),
            ("pool/", None),
            ("service/web", None),
            ("pool/a/b", None),
        ];
        for (typed, expected) in table {
            assert_eq!(of(typed).as_deref(), expected, "{typed}");
        }
    }

    #[test]
    fn a_time_limit_is_a_positive_duration() {
        for (typed, expected) in [("30s", Some(30)), ("2m", Some(120)), ("0", None), ("30", None), ("", None)] {
            assert_eq!(time_limit(typed).ok(), expected.map(Duration::from_secs), "{typed}");
        }
    }
}
