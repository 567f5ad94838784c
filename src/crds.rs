//! `winpool crds`: the CustomResourceDefinitions.

mod json_schema;

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::{
    CommandError,
    output::{self, OutputFormat},
};

/// The options as typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: CrdFormat,
    /// Write one file for each CRD into this directory instead of printing them
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
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
    let crds = winpool_api::custom_resource_definitions().into_iter();
    let mut manifests = crds.clone().map(|(file, crd)| (file, json!(crd)));
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
