//! `winpool crds`: the CustomResourceDefinitions.

mod json_schema;

use std::path::PathBuf;

use clap::ValueEnum;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use winpool_api::facts::Minor;

use super::{
    CommandError,
    output::{self, OutputFormat},
};

/// The first minor that enables validation rules in CRDs by default.
///
/// Source: kubernetes/enhancements, issue 2876 (alpha in 1.23, beta and on by default in 1.25, stable in 1.29).
const FIRST_WITH_CEL: Minor = Minor(25);

/// The options as typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: CrdFormat,
    /// Write one file for each CRD into this directory instead of printing them
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The version of the API server, such as 1.20: omits validation rules (CEL) before 1.25, which does not support
    /// them. The operator checks the same rules itself
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
}

/// The format of CRDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum CrdFormat {
    /// YAML documents
    #[default]
    Yaml,
    /// One v1 List
    Json,
    /// JSON schemas of the resources, for editors and kubeconform: files with --out
    JsonSchema,
}

/// Prints the CRDs or writes their files.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let rules = supports_rules(args.kubernetes.as_deref())?;
    let crds = winpool_api::custom_resource_definitions().into_iter();
    let mut manifests = crds.clone().map(|(file, crd)| (file, manifest(&crd, rules)));
    let list = |manifests: &mut dyn Iterator<Item = (&str, Value)>, format| {
        output::print(&output::text(&manifests.map(|(_, crd)| crd).collect::<Vec<_>>(), format))
    };
    match (args.output, args.out) {
        (CrdFormat::Yaml, None) => list(&mut manifests, OutputFormat::Yaml),
        (CrdFormat::Json, None) => list(&mut manifests, OutputFormat::Json),
        (CrdFormat::Yaml, Some(directory)) => {
            manifests.try_for_each(|(file, crd)| output::write(&directory, file, &output::yaml(&crd)))
        }
        (CrdFormat::JsonSchema, Some(directory)) => crds
            .filter_map(|(_, crd)| json_schema::file(&crd))
            .try_for_each(|(file, schema)| output::write(&directory, &file, &format!("{schema:#}\n"))),
        (CrdFormat::Json, Some(_)) => {
            Err(CommandError::Usage("--out writes YAML or JSON schemas: omit -o json".to_owned()))
        }
        (CrdFormat::JsonSchema, None) => {
            Err(CommandError::Usage("-o json-schema writes a file for each kind: add --out DIR".to_owned()))
        }
    }
}

/// Whether an API server of the version in `--kubernetes` supports validation rules.
fn supports_rules(kubernetes: Option<&str>) -> Result<bool, CommandError> {
    let minor = kubernetes.map(str::parse::<Minor>).transpose();
    let minor = minor.map_err(|error| CommandError::Usage(format!("--kubernetes: {error}")))?;
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
            let (_, crd) = &winpool_api::custom_resource_definitions()[1];
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
        assert_eq!(supports_rules(Some("newest")), Err(CommandError::Usage(text.into())));
    }
}
