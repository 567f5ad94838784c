//! What the gMSAs of pods need from the cluster.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{core::v1::Pod, discovery::v1::EndpointSlice};
use serde_json::{Value, json};
use winpool_api::names::label;
use winpool_core::{Problem, kind::Kind};
use winpool_facts::pod_fields::{GMSA_GROUP, GMSA_RESOURCE, GMSA_VERB, GMSA_WEBHOOK};
use x509_parser::pem::Pem;

use crate::{
    doctor::{
        Evidence,
        case::{Case, Checked, Observation},
    },
    gmsa,
};

/// How long before its end a certificate is reported.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

/// A credential spec that a pod names.
struct NamedSpec<'p> {
    pod: &'p Pod,
    /// The field, in the spec of the pod.
    path: String,
    name: String,
    has_content: bool,
}

fn named<'p>(pods: impl IntoIterator<Item = &'p Pod>) -> Vec<NamedSpec<'p>> {
    let of_pod = |pod: &'p Pod| {
        let spec = json!(pod.spec);
        let one = |(path, name, has_content): (_, &str, _)| NamedSpec { pod, path, name: name.into(), has_content };
        gmsa::names(&spec).map(one).collect::<Vec<_>>()
    };
    pods.into_iter().flat_map(of_pod).collect()
}

impl NamedSpec<'_> {
    /// The review that the webhook requests (kubernetes-sigs/windows-gmsa at 993de21c, `isAuthorizedToUseCredSpec`).
    fn review(&self) -> Value {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let account = self.pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
        json!({"spec": {
            "user": format!("system:serviceaccount:{namespace}:{account}"),
            "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}")],
            "resourceAttributes": {"verb": GMSA_VERB, "group": GMSA_GROUP, "resource": GMSA_RESOURCE, "name": self.name, "namespace": namespace},
        }})
    }
}

/// The SubjectAccessReviews for the ServiceAccounts of pods with a gMSA, each once.
pub fn access_reviews(evidence: &Evidence) -> Vec<Value> {
    let reviews = named(evidence.pods().unwrap_or_default()).into_iter().map(|named| named.review());
    reviews.map(|review| (review.to_string(), review)).collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Pods whose ServiceAccount may not use their credential spec.
pub fn refused_accounts(case: &Case<'_>) -> Checked {
    let answers = case.evidence.access_reviews()?;
    let observed = named(case.pods()?).into_iter().filter_map(|named| {
        let request = &named.review()["spec"];
        let answer = answers.iter().find(|answer| answer["spec"] == *request)?;
        let text = format!("{} may not use {}", request["user"].as_str()?, named.name);
        (answer["status"]["allowed"] != true).then(|| Observation::of_pod(named.pod, named.path, text))
    });
    Ok(observed.collect())
}

/// Pods whose credential spec is missing, or that do not have it, and credential specs with another shape.
pub fn credential_specs(case: &Case<'_>) -> Checked {
    let specs = case.evidence.credential_specs()?;
    let mut found = Vec::new();
    for NamedSpec { pod, path, name, has_content } in named(case.pods()?) {
        if !has_content {
            found.push(Observation::of_pod(pod, &path, format!("{name}, and no gmsaCredentialSpec beside it")));
        }
        match specs.iter().find(|spec| spec["metadata"]["name"] == name.as_str()).map(gmsa::problems) {
            None => found.push(Observation::of_pod(pod, path, format!("there is no GMSACredentialSpec {name}"))),
            Some(problems) if problems.is_empty() => {}
            Some(problems) => found.push(observed(Kind::CREDENTIAL_SPEC, &name, Problem::list(&problems))),
        }
    }
    Ok(found)
}

fn observed(kind: Kind, name: &str, text: String) -> Observation {
    Observation { object: format!("{kind} {name}"), place: "object".into(), text }
}

/// Whether a configuration has the webhook of windows-gmsa.
pub fn has_gmsa_webhook(configuration: &Value) -> bool {
    webhooks_of(configuration).next().is_some()
}

fn webhooks_of(configuration: &Value) -> impl Iterator<Item = &Value> {
    configuration["webhooks"].as_array().into_iter().flatten().filter(|webhook| webhook["name"] == GMSA_WEBHOOK)
}

/// What is wrong with the webhook of windows-gmsa, if a pod has a gMSA.
pub fn webhooks(case: &Case<'_>) -> Checked {
    if named(case.pods()?).is_empty() {
        return Ok(Vec::new());
    }
    let (configurations, slices) = (case.evidence.mutating_webhooks()?, case.evidence.endpoint_slices()?);
    let mut found = Vec::new();
    if !configurations.iter().any(has_gmsa_webhook) {
        found.push(observed(Kind::MUTATING_WEBHOOK, GMSA_WEBHOOK, "there is none: no pod gets its gMSA".to_owned()));
    }
    for configuration in configurations {
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
        let problems = webhooks_of(configuration).flat_map(|webhook| problems(webhook, slices, case.now()));
        found.extend(problems.map(|problem| observed(Kind::MUTATING_WEBHOOK, name, problem)));
    }
    Ok(found)
}

fn problems(webhook: &Value, slices: &[EndpointSlice], now: Timestamp) -> Vec<String> {
    let (config, policy) = (&webhook["clientConfig"], webhook["failurePolicy"].as_str().unwrap_or("Fail"));
    let mut found = Vec::new();
    if policy != "Fail" {
        found.push(format!("failurePolicy is {policy}: without an answer, pods start without their gMSA"));
    }
    if let [Some(namespace), Some(name)] = ["namespace", "name"].map(|field| config["service"][field].as_str())
        && !slices.iter().any(|slice| is_ready(slice, namespace, name))
    {
        found.push(format!("no endpoint of Service {namespace}/{name} is ready, and failurePolicy is {policy}"));
    }
    // The certificate of the webhook itself is in a Secret, which is not read.
    match config["expires"].as_str().and_then(|at| at.parse::<Timestamp>().ok()) {
        None => found.push("caBundle has no certificate: the API server does not trust the webhook".to_owned()),
        Some(at) if at < now => found.push(format!("the certificate in caBundle expired at {at}")),
        Some(at) if at.duration_since(now) < SOON => {
            let days = at.duration_since(now).as_hours() / 24;
            found.push(format!("the certificate in caBundle expires at {at}, in {days} days"));
        }
        Some(_) => {}
    }
    found
}

/// Whether a slice has a ready endpoint of a Service. Without a condition, an endpoint is ready.
fn is_ready(slice: &EndpointSlice, namespace: &str, service: &str) -> bool {
    let of = slice.metadata.labels.as_ref().and_then(|labels| labels.get(label::SERVICE_NAME));
    let mut conditions = slice.endpoints.iter().map(|endpoint| endpoint.conditions.as_ref()?.ready);
    slice.metadata.namespace.as_deref() == Some(namespace)
        && of.is_some_and(|of| of == service)
        && conditions.any(|ready| ready != Some(false))
}

/// A webhook configuration with the time at which the last certificate of each `caBundle` expires.
pub fn with_expiry(mut configuration: Value) -> Value {
    for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
        let config = &mut webhook["clientConfig"];
        config["expires"] = config["caBundle"].as_str().and_then(expiry).map(|at| at.to_string()).into();
    }
    configuration
}

fn expiry(bundle: &str) -> Option<Timestamp> {
    let pem = STANDARD.decode(bundle).ok()?;
    let certificates = Pem::iter_from_buffer(&pem).filter_map(Result::ok);
    let last = certificates.filter_map(|pem| Some(pem.parse_x509().ok()?.validity().not_after.timestamp())).max()?;
    Timestamp::from_second(last).ok()
}
