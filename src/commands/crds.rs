//! `winpool crds`: the CustomResourceDefinitions.

use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::{
    Failure,
    output::{self, Destination, Format},
};
use crate::{api, facts::Minor};

/// The first minor that enables validation rules in CRDs by default.
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

/// Prints the CRDs or writes their files.
pub(super) fn run(args: Args) -> Result<(), Failure> {
    let rules = supports_rules(args.kubernetes.as_deref())?;
    let crds = api::custom_resource_definitions().into_iter();
    let mut crds = crds.map(|(file, crd)| (file, manifest(&crd, rules)));
    match Destination::new(args.out, args.output) {
        Destination::Stdout(format) => {
            output::print(&output::text(&crds.map(|(_, crd)| crd).collect::<Vec<_>>(), format))
        }
        Destination::Directory(directory) => {
            crds.try_for_each(|(file, crd)| output::write(&directory, file, &output::yaml(&crd)))
        }
    }
}

/// Whether an API server of the version in `--kubernetes` supports validation rules.
fn supports_rules(kubernetes: Option<&str>) -> Result<bool, Failure> {
    let minor = kubernetes.map(str::parse::<Minor>).transpose();
    let minor = minor.map_err(|error| Failure::Usage(format!("--kubernetes: {error}")))?;
    Ok(minor.is_none_or(|minor| minor >= FIRST_WITH_CEL))
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
            let (_, crd) = &api::custom_resource_definitions()[1];
            manifest(crd, supports_rules(kubernetes).unwrap()).to_string().matches("x-kubernetes-validations").count()
        };
        assert!(rules(None) > 3);
        assert_eq!(rules(Some("1.25")), rules(None));
        assert_eq!(rules(Some("v1.24.17")), 0);
        assert_eq!(rules(Some("1.20")), 0);
    }

    #[test]
    fn an_invalid_version_is_a_usage_error() {
        let text = "--kubernetes: `newest` is not a Kubernetes version such as 1.34";
        assert_eq!(supports_rules(Some("newest")), Err(Failure::Usage(text.into())));
    }
}
