//! `winpool crds`: the CustomResourceDefinitions.

use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::{
    Failure,
    output::{self, Format},
};
use crate::{api, facts::Minor};

/// The first minor of Kubernetes whose API server knows validation rules in CRDs without being asked to.
///
/// Source: kubernetes/enhancements, issue 2876 (alpha in 1.23, beta and on by default in 1.25, stable in 1.29).
const FIRST_WITH_CEL: Minor = Minor(25);

/// What was typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How to print them
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Write one file for each into this folder, instead of printing them
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    out: Option<PathBuf>,
    /// The API server's version, such as 1.20: leaves out the validation rules where it is too old for them (before
    /// 1.25), so that kubectl apply takes the CRDs there. The operator checks resources by the same rules itself
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
}

/// What it means.
pub(super) struct Settings {
    to: To,
    cel: bool,
}

enum To {
    Stdout(Format),
    Folder(PathBuf),
}

impl TryFrom<Args> for Settings {
    type Error = Failure;

    fn try_from(args: Args) -> Result<Self, Failure> {
        let minor = args.kubernetes.as_deref().map(str::parse::<Minor>).transpose();
        let minor = minor.map_err(|error| Failure::Usage(format!("--kubernetes: {error}")))?;
        Ok(Self {
            to: args.out.map_or(To::Stdout(args.output), To::Folder),
            cel: minor.is_none_or(|minor| minor >= FIRST_WITH_CEL),
        })
    }
}

/// Prints the CRDs or writes their files.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    let mut crds =
        api::custom_resource_definitions().into_iter().map(|(file, crd)| (file, shipped(&crd, settings.cel)));
    match settings.to {
        To::Stdout(format) => output::print(&output::text(&crds.map(|(_, crd)| crd).collect::<Vec<_>>(), format)),
        To::Folder(folder) => crds.try_for_each(|(file, crd)| output::write(&folder, file, &output::yaml(&crd))),
    }
}

fn shipped(crd: &CustomResourceDefinition, cel: bool) -> Value {
    let mut value = serde_json::json!(crd);
    if !cel {
        without_rules(&mut value);
    }
    value
}

fn without_rules(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(without_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(without_rules),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_left_out_for_api_servers_that_do_not_know_them() {
        let rules = |kubernetes: Option<&str>| {
            let kubernetes = kubernetes.map(str::to_owned);
            let settings = Settings::try_from(Args { output: Format::Yaml, out: None, kubernetes }).unwrap();
            let (_, crd) = &api::custom_resource_definitions()[0];
            shipped(crd, settings.cel).to_string().matches("x-kubernetes-validations").count()
        };
        assert!(rules(None) > 3);
        assert_eq!(rules(Some("1.25")), rules(None));
        assert_eq!(rules(Some("v1.24.17")), 0);
        assert_eq!(rules(Some("1.20")), 0);
    }

    #[test]
    fn a_version_that_is_none_is_wrong_usage() {
        let args = Args { output: Format::Yaml, out: None, kubernetes: Some("newest".into()) };
        let failure = Settings::try_from(args).err().unwrap();
        assert_eq!(failure, Failure::Usage("--kubernetes: `newest` is not a Kubernetes version such as 1.34".into()));
    }
}
