//! What each target of `winpool render` results in.

use std::collections::BTreeMap;

use serde_json::Value;
use winpool_check::{manifests::LocatedProblem, render::Rendered};
use winpool_render::hosts;

use super::directory;
use crate::{
    CommandError, input,
    output::{self, OutputTarget},
};

/// Objects or other texts, and notes for the user.
#[derive(Debug, Default)]
pub struct Documents {
    /// Objects in the order of application, by the names of their files without extension.
    pub objects: Vec<(String, Value)>,
    /// Other files, by path.
    pub texts: BTreeMap<String, String>,
    /// What is printed instead of the objects.
    pub printed: Option<String>,
    pub notes: Vec<String>,
    /// The pools for which nothing can be rendered, each with the reason: a failure, after the others are written.
    pub unrendered: Vec<String>,
}

impl Documents {
    /// These documents if there are no problems.
    ///
    /// # Errors
    /// All problems, each once, by file and line.
    pub fn without(self, mut problems: Vec<LocatedProblem>) -> Result<Self, Vec<LocatedProblem>> {
        problems.sort();
        problems.dedup();
        if problems.is_empty() { Ok(self) } else { Err(problems) }
    }

    /// These documents, printed as one stream of YAML.
    pub fn as_yaml(self) -> Self {
        let texts: Vec<_> = self.texts.values().map(String::as_str).collect();
        Self { printed: Some(texts.join("---\n")), ..self }
    }

    /// All files, by path.
    pub fn files(self) -> BTreeMap<String, String> {
        let objects = self.objects.iter().map(|(name, object)| (format!("{name}.yaml"), output::yaml(object)));
        objects.chain(self.texts).collect()
    }

    /// What a target lacks that was asked for.
    pub(super) fn failure(&self) -> Option<CommandError> {
        let nothing = self.objects.is_empty() && self.texts.is_empty();
        let text = match &self.unrendered[..] {
            [] => nothing.then(|| "nothing is rendered for any pool".to_owned())?,
            unrendered => unrendered.join("\n"),
        };
        Some(CommandError::Problems(text))
    }

    /// Prints the notes, and prints or writes the documents.
    pub(super) fn write(self, destination: OutputTarget) -> Result<(), CommandError> {
        self.notes.iter().for_each(|text| input::note(text));
        match (destination, &self.printed) {
            (OutputTarget::Directory(directory), _) => directory::write_files(&directory, &self.files()),
            (OutputTarget::Stdout(_), Some(text)) => output::print(text),
            (OutputTarget::Stdout(format), None) => {
                output::print_objects(self.objects.iter().map(|(_, object)| object), format)
            }
        }
    }
}

/// Each object, and for each ConfigMap a directory with the files for a node.
impl From<Rendered> for Documents {
    fn from(rendered: Rendered) -> Self {
        let mut texts = BTreeMap::new();
        for (name, object) in &rendered.config_maps {
            for (file, text) in object["data"].as_object().into_iter().flatten() {
                texts.insert(format!("{name}/{}", file_on_node(file)), text.as_str().unwrap_or_default().to_owned());
            }
        }
        let Rendered { runtime_classes, config_maps, nodes, .. } = rendered;
        let kinds = [("runtimeclass", runtime_classes), ("configmap", config_maps), ("node", nodes)];
        let named = |(kind, objects): (&'static str, BTreeMap<String, Value>)| {
            objects.into_iter().map(move |(name, object)| (format!("{kind}-{name}"), object))
        };
        Self { objects: kinds.into_iter().flat_map(named).collect(), texts, ..Self::default() }
    }
}

/// The path of a file on a node. containerd reads the mirrors of each registry from a separate directory.
pub fn file_on_node(key: &str) -> String {
    match hosts::directory_of_key(key) {
        Some(registry) => format!("certs.d/{registry}/hosts.toml"),
        None => key.to_owned(),
    }
}
