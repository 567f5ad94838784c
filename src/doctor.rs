//! `winpool doctor`: which known symptoms a pool, a node or a pod has, with evidence, cause and remedy. Read-only.

mod bundle;
mod read;
mod text;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use jiff::SignedDuration;
use read::SubjectReader;
use tokio::time::Instant;
use winpool_check::doctor::{
    Diagnosis, DiagnosisSubject, Evidence, EvidenceLayer, RegistryImage, registry_image, waiting_images,
};
use winpool_core::kubernetes::{duration, syntax};

use super::{
    CommandError, connect, input,
    output::{self, ReportFormat},
    progress::Progress,
    registry,
};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit status is 0 if nothing was found, and 1 if a symptom was, or an error that no symptom explains; known issues do \
                  not count. What may not be read is not excluded: it is reported as not determinable. The role winpool-doctor in config/doctor has every permission that is used without --node-logs."
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
    /// Also read the end of the logs of kubelet, containerd, kube-proxy and nssm on at most 10 nodes, of the last 24h or of this time.
    /// Requires the permission to get nodes/proxy, which the role in config/doctor/node-logs has
    #[arg(
        long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "24h",
        conflicts_with = "from"
    )]
    node_logs: Option<String>,
    /// Also look up the platforms of the images of pods that are not ready in their registries, anonymously
    #[arg(long, conflicts_with = "from")]
    registry: bool,
    #[command(flatten)]
    registries: registry::Args,
    /// Also write what was read into this directory, without Secrets, environment, commands and credentials in texts
    #[arg(long, value_name = "DIR")]
    bundle: Option<PathBuf>,
    /// Read this directory, which --bundle has written, instead of a cluster. A subject in it can be named
    #[arg(long, value_name = "DIR", conflicts_with = "bundle")]
    from: Option<PathBuf>,
    /// List every symptom that could not be determined
    #[arg(short, long)]
    verbose: bool,
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: ReportFormat,
    #[command(flatten)]
    cluster: connect::Args,
}

/// Prints the diagnosis. A symptom that was found is an error.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let Args { subject, namespace, timeout, node_logs, registry, registries, bundle: directory, from, verbose, .. } =
        args;
    let is_offline = from.is_some();
    let mut evidence = match from {
        Some(directory) => {
            let evidence = bundle::read(&directory)?;
            match subject {
                None => evidence,
                Some(typed) => {
                    let subject = parse_subject(&typed, input::namespace(namespace)?)?;
                    let wrong = |why| CommandError::Usage(format!("cannot read {}: {why}", directory.display()));
                    evidence.about(subject).map_err(wrong)?
                }
            }
        }
        None => {
            let subject = parse_subject(&subject.unwrap_or_default(), input::namespace(namespace)?)?;
            let limit = positive("--timeout", &timeout)?;
            let logs = node_logs.map(|time| positive("--node-logs", &time)).transpose()?;
            connect::runtime()?.block_on(async {
                let progress = Progress::start("reading the cluster", "request");
                let client = progress.counting(args.cluster.client().await?);
                SubjectReader::new(client, Instant::now() + limit.unsigned_abs(), logs).evidence(subject).await
            })?
        }
    };
    if registry {
        evidence.images = images(&evidence, registries)?;
    }
    if let Some(directory) = &directory {
        bundle::write(directory, &evidence)?;
    }
    let mut diagnosis = Diagnosis::of(&evidence);
    if is_offline {
        // Its time would be that of the bundle.
        diagnosis.request = None;
    }
    output::report(args.output, &diagnosis, |diagnosis| text::text(diagnosis, verbose), diagnosis.summary())
}

/// The platforms of the images of pods that are not ready.
fn images(evidence: &Evidence, args: registry::Args) -> Result<EvidenceLayer<RegistryImage>, CommandError> {
    let images = match waiting_images(evidence) {
        Ok(images) => images,
        Err(unavailable) => return Ok(EvidenceLayer::Unavailable(unavailable.to_string())),
    };
    let registry = args.registry()?;
    let found = connect::runtime()?.block_on(registry::look_up(&registry, images, |_| Arc::default()));
    let found = found.into_iter().collect::<BTreeMap<_, _>>().into_iter();
    Ok(EvidenceLayer::of(found.map(|(image, lookup)| registry_image(image, &lookup)).collect()))
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

/// A duration of at most a week.
pub(super) fn positive(option: &str, typed: &str) -> Result<SignedDuration, CommandError> {
    let parsed = duration::parse(typed).map(SignedDuration::from_nanos);
    let is_valid = |parsed: &SignedDuration| parsed.is_positive() && *parsed <= SignedDuration::from_hours(168);
    let text = || format!("{option}: `{typed}` is no duration of at most 168h. Write for instance 30s or 2m");
    parsed.filter(is_valid).ok_or_else(|| CommandError::Usage(text()))
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
    fn a_duration_is_positive_and_bounded() {
        for (typed, expected) in
            [("30s", Some(30)), ("168h", Some(604_800)), ("169h", None), ("0", None), ("30", None), ("", None)]
        {
            assert_eq!(positive("--timeout", typed).ok(), expected.map(SignedDuration::from_secs), "{typed}");
        }
    }
}
