//! Kubernetes objects in files: what a person keeps in Git, and what `kubectl get -o yaml` prints.
//!
//! Whatever is wrong in a file is said with file, line and path of the field, and everything that is wrong at once.

mod budget;
mod language;
mod object;
mod positions;
mod reader;
mod resources;
mod schema;
mod sound;
mod strict;

use std::{
    fmt,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use self::{
    object::Document,
    positions::Positions,
    reader::{Contents, Part},
};
use crate::domain::Problem;

pub use budget::Budget;
pub use object::Object;
pub use resources::{Resources, nodes};
pub use strict::problems_of_status;

/// The name under which standard input is read and told.
const STDIN: &str = "-";
/// The ends of the names of files that are read in a folder.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Everything that was read: the objects in the order of the files, and what is wrong in these.
#[derive(Debug, Default)]
pub struct Manifests {
    /// The objects; those of a list one by one.
    pub objects: Vec<Manifest>,
    /// What could not be read.
    pub mistakes: Vec<Mistake>,
    /// Documents that are no Kubernetes objects, such as a kustomization.yaml without a kind.
    pub ignored: Vec<String>,
}

/// An object, and where it is written.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The object.
    pub object: Object,
    /// Where it is written.
    pub place: Place,
}

/// Where an object is written.
#[derive(Clone, Debug)]
pub struct Place {
    source: Arc<Source>,
    /// The number of the document in the file, from 0.
    document: usize,
    /// The number in the List that the document is, if it is one.
    item: Option<usize>,
}

/// A file.
#[derive(Debug)]
struct Source {
    name: String,
    text: String,
    /// The parts that the documents are in.
    parts: Vec<Part>,
    /// Found when they are needed first, which is when there is a mistake.
    positions: OnceLock<Positions>,
}

/// Something wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// The file as it was named, or `-` for standard input.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong; the path may be empty where the file is not even YAML.
    pub problem: Problem,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { path, wrong, remedy } = &self.problem;
        write!(f, "{}:{}: ", self.file, self.line)?;
        for part in [path, wrong].into_iter().filter(|part| !part.is_empty()) {
            write!(f, "{part}: ")?;
        }
        f.write_str(remedy)
    }
}

impl Place {
    /// The mistake that a problem of this object is: with its file and line.
    pub fn mistake(&self, problem: Problem) -> Mistake {
        Mistake { file: self.source.name.clone(), line: self.line(&problem.path), problem }
    }

    /// The file as it was named, or `-` for standard input.
    pub fn file(&self) -> &str {
        &self.source.name
    }

    /// The whole text of the file.
    pub fn text(&self) -> &str {
        &self.source.text
    }

    /// The file and line at which the object begins.
    pub fn begin(&self) -> String {
        format!("{}:{}", self.source.name, self.line(""))
    }

    /// The line of a field of the object, or of the nearest that is written of those around it.
    pub fn line(&self, path: &str) -> usize {
        let Source { text, parts, positions, .. } = &*self.source;
        let parts = || parts.iter().map(|part| (part.lines_before, part.of(text)));
        let positions = positions.get_or_init(|| Positions::of(parts()));
        match self.item {
            Some(item) => positions.line(self.document, &format!("items[{item}].{path}")),
            None => positions.line(self.document, path),
        }
    }
}

impl Manifests {
    /// Reads files, folders with everything below them, and standard input where a path is `-`.
    ///
    /// # Errors
    /// A path that cannot be read, or a folder without any file to read.
    pub fn read(paths: &[PathBuf], budget: &mut Budget) -> Result<Self, ReadError> {
        let mut manifests = Self::default();
        for path in paths {
            if path.as_os_str() == STDIN {
                manifests.add_text(path, io::stdin(), Found::Named, budget)?;
            } else if path.is_dir() {
                let mut files = Vec::new();
                files_below(path, &mut files)?;
                if files.is_empty() {
                    return Err(ReadError { path: path.clone(), wrong: "has no .yaml, .yml or .json file".to_owned() });
                }
                for file in files {
                    manifests.add_file(&file, Found::InFolder, budget)?;
                }
            } else {
                manifests.add_file(path, Found::Named, budget)?;
            }
        }
        Ok(manifests)
    }

    fn add_file(&mut self, path: &Path, found: Found, budget: &mut Budget) -> Result<(), ReadError> {
        let file = File::open(path).map_err(|error| ReadError::new(path, &error))?;
        self.add_text(path, file, found, budget)
    }

    fn add_text(
        &mut self,
        path: &Path,
        reader: impl io::Read,
        found: Found,
        budget: &mut Budget,
    ) -> Result<(), ReadError> {
        let text = budget.read(reader).map_err(|error| ReadError::new(path, &error))?;
        let name = path.display().to_string();
        match text {
            Ok(text) => self.add(&name, text, found, budget),
            Err(problem) => self.mistakes.push(Mistake { file: name, line: 1, problem }),
        }
        Ok(())
    }

    fn add(&mut self, name: &str, text: String, found: Found, budget: &mut Budget) {
        let Contents { documents, parts, problems } = reader::read(&text, budget);
        for (line, mut problem) in problems {
            if let Some(remedy) = language::remedy(name, &text) {
                problem.remedy = remedy.to_owned();
            }
            self.mistakes.push(Mistake { file: name.to_owned(), line, problem });
        }
        let source = Arc::new(Source { name: name.to_owned(), text, parts, positions: OnceLock::new() });
        for (number, document) in documents.into_iter().enumerate() {
            self.add_document(document, &Place { source: source.clone(), document: number, item: None }, found);
        }
    }

    fn add_document(&mut self, document: Document, place: &Place, found: Found) {
        for (index, object) in document.objects.into_iter().enumerate() {
            let place = Place { item: document.is_list.then_some(index), ..place.clone() };
            self.add_object(Manifest { object, place }, found);
        }
    }

    fn add_object(&mut self, manifest: Manifest, found: Found) {
        if !manifest.object.kind().is_empty() {
            self.objects.push(manifest);
        } else if matches!(found, Found::InFolder) {
            self.ignored.push(format!("{} has no kind", manifest.place.begin()));
        } else {
            let written = "write apiVersion and kind";
            let remedy = language::remedy(manifest.place.file(), manifest.place.text()).unwrap_or(written);
            let problem = Problem::new("kind", "this is no Kubernetes object", remedy);
            self.mistakes.push(manifest.place.mistake(problem));
        }
    }
}

/// How a file was come by: of those that only lie in a folder, some are for other programs.
#[derive(Clone, Copy)]
enum Found {
    Named,
    InFolder,
}

/// A path that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {wrong}", path.display())]
pub struct ReadError {
    path: PathBuf,
    wrong: String,
}

impl ReadError {
    fn new(path: &Path, error: &io::Error) -> Self {
        Self { path: path.to_owned(), wrong: error.to_string() }
    }
}

/// The files below a folder, in order of their paths. What begins with a dot is left out, and so are linked folders,
/// which could lead back.
fn files_below(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), ReadError> {
    let wrong = |error: io::Error| ReadError::new(folder, &error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push((entry.path(), entry.file_type().map_err(wrong)?.is_dir()));
        }
    }
    paths.sort();
    for (path, is_folder) in paths {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if is_folder {
            files_below(&path, files)?;
        } else if EXTENSIONS.contains(&extension) && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Manifests {
        let mut manifests = Manifests::default();
        manifests.add("pool.yaml", text.to_owned(), Found::Named, &mut Budget::unbounded());
        manifests
    }

    fn mistakes(manifests: &Manifests) -> Vec<String> {
        manifests.mistakes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn documents_and_lists_are_read_one_by_one() {
        let text = "# comment\n---\nkind: A\n---\n\n---\napiVersion: v1\nkind: List\nitems:\n- kind: B\n- kind: C\n";
        let manifests = read(text);
        assert_eq!(
            manifests.objects.iter().map(|manifest| manifest.object.kind()).collect::<Vec<_>>(),
            ["A", "B", "C"]
        );
        assert_eq!(
            manifests.objects.iter().map(|object| object.place.begin()).collect::<Vec<_>>(),
            ["pool.yaml:3", "pool.yaml:10", "pool.yaml:11"]
        );
        let json = read(r#"{"kind": "List", "items": [{"kind": "B"}]} {"kind": "C"}"#);
        assert_eq!(json.objects.iter().map(|manifest| manifest.object.kind()).collect::<Vec<_>>(), ["B", "C"]);
        assert_eq!(read("{kind: A}").objects.len(), 1, "what begins like JSON may be YAML");
    }

    #[test]
    fn a_problem_is_told_with_the_line_of_its_field() {
        let text =
            "kind: A\nspec:\n  taints:\n  - key: a\n  - key: b\n    effect: Never\n  labels:\n    example.com/x: y\n";
        let manifests = read(text);
        let line = |path: &str| manifests.objects[0].place.mistake(Problem::new(path, "", "")).line;
        let table = [
            ("", 1),
            ("spec", 2),
            ("spec.taints[1].effect", 6),
            ("spec.taints[1].value", 5),
            ("spec.taints[0]", 4),
            ("spec.labels[example.com/x]", 8),
            ("spec.labels.example.com/x", 8),
            ("spec.nodeSelector.matchLabels[a.b/c]", 2),
            ("metadata.name", 1),
        ];
        for (path, expected) in table {
            assert_eq!(line(path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_not_yaml_is_told_with_its_line() {
        for text in ["kind: A\nspec: [\n", "kind: A\nspec:\n\ta: 1\n", "kind: A\n---\na: b: c\n"] {
            let told = mistakes(&read(text));
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].starts_with("pool.yaml:2: ") || told[0].starts_with("pool.yaml:3: "), "{told:?}");
        }
        let escape = mistakes(&read("kind: A\npath: \"C:\\inetpub\\logs\"\n"));
        assert!(escape[0].starts_with("pool.yaml:2: ") && escape[0].contains("single quotes"), "{escape:?}");
    }

    #[test]
    fn one_document_that_cannot_be_read_hides_no_other() {
        let text = "kind: A\n---\nkind: [\n---\nkind: B\nkind: C\nspec: {x: 1}\n---\nmore: {\n---\n# none\n---\nkind: D\nspec:\n  y: 1\n";
        let manifests = read(text);
        let found: Vec<_> = manifests.objects.iter().map(|one| (one.object.kind(), one.place.begin())).collect();
        let expected = [("A", "pool.yaml:1"), ("C", "pool.yaml:5"), ("D", "pool.yaml:13")];
        assert_eq!(found, expected.map(|(kind, place)| (kind, place.to_owned())));
        assert_eq!(manifests.objects[2].place.line("spec.y"), 15);
        assert_eq!(manifests.mistakes.iter().map(|mistake| mistake.line).collect::<Vec<_>>().len(), 3);
        assert_eq!(
            manifests.mistakes[1].to_string(),
            "pool.yaml:6: the key kind is written twice: an older kubectl takes the last, a newer one refuses it: remove one \
             of them"
        );
    }

    #[test]
    fn what_has_no_kind_is_a_mistake_only_where_it_was_named() {
        let text = "resources: [a.yaml]\n";
        assert_eq!(
            mistakes(&read(text)),
            ["pool.yaml:1: kind: this is no Kubernetes object: write apiVersion and kind"]
        );
        let mut in_folder = Manifests::default();
        in_folder.add("kustomization.yaml", text.to_owned(), Found::InFolder, &mut Budget::unbounded());
        assert_eq!(in_folder.mistakes, []);
        assert_eq!(in_folder.ignored, ["kustomization.yaml:1 has no kind"]);
    }

    #[test]
    fn folders_are_read_in_order_with_everything_below() {
        let folder = tempfile::tempdir().unwrap();
        for (name, kind) in [("b.yaml", "B"), ("a/z.json", "Z"), ("a/c.yml", "C"), (".git/x.yaml", "X"), ("d.txt", "D")]
        {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{{\"kind\": \"{kind}\"}}")).unwrap();
        }
        let manifests = Manifests::read(&[folder.path().to_owned()], &mut Budget::unbounded()).unwrap();
        assert_eq!(
            manifests.objects.iter().map(|manifest| manifest.object.kind()).collect::<Vec<_>>(),
            ["C", "Z", "B"]
        );
        let empty =
            Manifests::read(&[folder.path().join(".git/none")], &mut Budget::unbounded()).unwrap_err().to_string();
        assert!(empty.contains(".git/none: No such file"), "{empty}");
    }
}
