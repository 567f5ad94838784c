//! `winpool crds`: the CustomResourceDefinitions.

use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::{
    Failure,
    output::{self, Destination, Format},
};
use crate::{api, facts::Minor};

/// The first minor of Kubernetes with validation rules in CRDs on by default.
///
/// Source: kubernetes/enhancements, issue 2876 (alpha in 1.23, beta and on by default in 1.25, stable in 1.29).
const FIRST_WITH_CEL: Minor = Minor(25);

/// The options as typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Write one file for each CRD into this directory instead of printing them
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    out: Option<PathBuf>,
    /// The version of the API server, such as 1.20: omits validation rules (CEL) before 1.25, which does not support
    /// them. The operator checks the same rules itself
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
}

/// The validated options.
pub(super) struct Settings {
    destination: Destination,
    rules: bool,
}

impl TryFrom<Args> for Settings {
    type Error = Failure;

    fn try_from(args: Args) -> Result<Self, Failure> {
        let minor = args.kubernetes.as_deref().map(str::parse::<Minor>).transpose();
        let minor = minor.map_err(|error| Failure::Usage(format!("--kubernetes: {error}")))?;
        Ok(Self {
            destination: Destination::new(args.out, args.output),
            rules: minor.is_none_or(|minor| minor >= FIRST_WITH_CEL),
        })
    }
}

/// Prints the CRDs or writes their files.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    let crds = api::custom_resource_definitions().into_iter();
    let mut crds = crds.map(|(file, crd)| (file, manifest(&crd, settings.rules)));
    match settings.destination {
        Destination::Stdout(format) => {
            output::print(&output::text(&crds.map(|(_, crd)| crd).collect::<Vec<_>>(), format))
        }
        Destination::Folder(folder) => {
            crds.try_for_each(|(file, crd)| output::write(&folder, file, &output::yaml(&crd)))
        }
    }
}

fn manifest(crd: &CustomResourceDefinition, rules: bool) -> Value {
    let mut value = serde_json::json!(crd);
    if !rules {
        remove_rules(&mut value);
    }
    value
}

fn remove_rules(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(remove_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_rules),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_omitted_for_api_servers_without_cel() {
        let rules = |kubernetes: Option<&str>| {
            let kubernetes = kubernetes.map(str::to_owned);
            let settings = Settings::try_from(Args { output: Format::Yaml, out: None, kubernetes }).unwrap();
            let (_, crd) = &api::custom_resource_definitions()[0];
            manifest(crd, settings.rules).to_string().matches("x-kubernetes-validations").count()
        };
        assert!(rules(None) > 3);
        assert_eq!(rules(Some("1.25")), rules(None));
        assert_eq!(rules(Some("v1.24.17")), 0);
        assert_eq!(rules(Some("1.20")), 0);
    }

    #[test]
    fn an_invalid_version_is_a_usage_error() {
        let args = Args { output: Format::Yaml, out: None, kubernetes: Some("newest".into()) };
        let failure = Settings::try_from(args).err().unwrap();
        assert_eq!(failure, Failure::Usage("--kubernetes: `newest` is not a Kubernetes version such as 1.34".into()));
    }
}
