//! `winpool policies`: the optional admission policies.

use std::path::PathBuf;

use serde_json::Value;
use winpool_api::names::DEFAULT_NAMESPACE;
use winpool_facts::{Minor, support::OLDEST};

use super::{
    CommandError, input,
    output::{self, OutputFormat},
};
use crate::admission_policies::{FIRST_WITH_MUTATING, FIRST_WITH_MUTATING_BETA, MUTATING, VALIDATING};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The output format
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
    /// Print the MutatingAdmissionPolicies instead of the ValidatingAdmissionPolicies
    #[arg(long)]
    mutating: bool,
    /// Write one file for each policy into this directory instead of printing them
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The version of the API server, such as 1.34: before 1.36, MutatingAdmissionPolicies are in version v1beta1
    #[arg(long, value_name = "VERSION", default_value_t = FIRST_WITH_MUTATING)]
    kubernetes: Minor,
    /// The namespace of the operator
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
}

/// Prints the policies or writes their files.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let Args { output: format, mutating: is_mutating, out, kubernetes, namespace } = args;
    let namespace = input::namespace(namespace)?;
    let (policies, first) = match is_mutating {
        true => (MUTATING, FIRST_WITH_MUTATING_BETA),
        false => (VALIDATING, OLDEST),
    };
    if kubernetes < first {
        return Err(CommandError::Usage(format!(
            "--kubernetes {kubernetes}: these policies require Kubernetes {first} or later"
        )));
    }
    let files = policies.iter().map(|policy| (policy.file, policy.yaml(&namespace, kubernetes)));
    match out {
        None => {
            let texts: Vec<_> = files.map(|(_, text)| text).collect();
            output::print(&formatted(texts.join("---\n"), format)?)
        }
        Some(directory) => {
            files.into_iter().try_for_each(|(file, text)| output::write(&directory, file, &formatted(text, format)?))
        }
    }
}

fn formatted(text: String, format: OutputFormat) -> Result<String, CommandError> {
    if format == OutputFormat::Yaml {
        return Ok(text);
    }
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text)
        .map_err(|error| CommandError::Usage(format!("cannot read the policies: {error}")))?;
    Ok(output::text(&objects, format))
}
