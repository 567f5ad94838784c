//! Kubernetes objects in files, such as manifests in Git and the output of `kubectl get -o yaml`.
//!
//! Problems are reported all at once, each with file, line and path of the field.

#![allow(clippy::disallowed_methods)] // I/O, and time

mod bootstrap;
mod budget;
mod document;
mod object;
mod positions;
mod reader;
mod resources;
mod schema;
mod strict;
mod valid_part;

use std::{
    fmt,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use walkdir::{DirEntry, WalkDir};
use winpool_core::{
    Problem,
    image::ReplacedImages,
    json_path::fields,
    text::{agree, counted},
};

use self::{
    budget::TextProblem,
    object::Document,
    positions::Positions,
    reader::{Contents, FailureCause, Part, ReadFailure},
};

pub use bootstrap::{BootstrapTemplate, BootstrapTemplates};
pub use budget::Budget;
pub use object::Object;
pub use resources::{ManifestSet, nodes, nodes_among};
pub use strict::problems_of_status;

const STDIN: &str = "-";
/// The extension of the files of containerd.
const TOML: &str = "toml";
/// The extensions of the files that are read in a directory.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The contents of files, in the order of the files.
#[derive(Debug, Default)]
pub struct Manifests {
    /// The objects, and the items of lists.
    pub objects: Vec<Manifest>,
    /// Why documents could not be read.
    pub problems: Vec<LocatedProblem>,
    /// Documents and files that are for other programs, with the reason.
    pub ignored: Vec<String>,
    /// The number of CustomResourceDefinitions, which are not decoded.
    pub definitions: usize,
    pub replaced_images: ReplacedImages,
    /// The files that were read, as typed.
    pub files: Vec<String>,
    /// The paths without a manifest: empty directories, and empty standard input.
    pub empty: Vec<String>,
    /// The files of containerd, if [`Others`] permits them.
    pub node_files: Vec<NodeFile>,
}

/// A file of containerd on nodes, which is no manifest.
#[derive(Debug)]
pub struct NodeFile {
    /// Its path as typed.
    pub name: String,
    pub text: String,
}

/// The files to read below the paths of a command.
#[derive(Clone, Copy)]
pub struct FileSelection<'a> {
    pub excluded: &'a dyn Fn(&Path) -> bool,
    /// The files that may be for other programs.
    pub others: Others,
}

/// The files that may be for other programs, so that they are no problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// None, except documents without a kind in directories.
    None,
    /// All in directories. Typed files of containerd are read.
    InDirectories,
    /// All except standard input.
    Everywhere,
}

impl Default for FileSelection<'_> {
    fn default() -> Self {
        Self { excluded: &|_| false, others: Others::None }
    }
}

#[derive(Clone, Debug)]
pub struct Manifest {
    pub object: Object,
    pub location: Location,
}

#[derive(Clone, Debug)]
pub struct Location {
    file: Arc<SourceFile>,
    /// The index of the document in the file.
    document: usize,
    /// The index in the list, if the document is a list.
    item: Option<usize>,
}

#[derive(Debug)]
struct SourceFile {
    name: String,
    text: String,
    /// The parts that contain the documents.
    parts: Vec<Part>,
    /// Computed for the first problem.
    positions: OnceLock<Positions>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocatedProblem {
    /// The path of the file as typed, or `-` for standard input.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The problem; its path is empty if the document could not be read.
    pub problem: Problem,
}

impl fmt::Display for LocatedProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { path, wrong, remedy } = &self.problem;
        write!(f, "{}:{}: ", self.file, self.line)?;
        for part in [path, wrong].into_iter().filter(|part| !part.is_empty()) {
            write!(f, "{part}: ")?;
        }
        f.write_str(remedy)
    }
}

impl Location {
    pub fn problem(&self, problem: Problem) -> LocatedProblem {
        LocatedProblem { file: self.file.name.clone(), line: self.line(&problem.path), problem }
    }

    /// The path of the file as typed, or `-` for standard input.
    pub fn file(&self) -> &str {
        &self.file.name
    }

    pub fn text(&self) -> &str {
        &self.file.text
    }

    /// The file and the first line of the object.
    pub fn start(&self) -> String {
        format!("{}:{}", self.file.name, self.line(""))
    }

    /// The line of a field of the object, or of its innermost existing parent.
    pub fn line(&self, path: &str) -> usize {
        let SourceFile { text, parts, positions, .. } = &*self.file;
        let parts = || parts.iter().map(|part| (part.lines_before, part.of(text)));
        let positions = positions.get_or_init(|| Positions::of(parts()));
        match self.item {
            Some(item) => positions.line(self.document, &format!("items[{item}].{path}")),
            None => positions.line(self.document, path),
        }
    }
}

impl Manifests {
    /// Reads files, directories recursively, and standard input for the path `-`.
    pub fn read(paths: &[PathBuf], budget: &mut Budget) -> Result<Self, ReadError> {
        Self::read_selected(paths, budget, FileSelection::default())
    }

    /// The same for some of the files. A directory without a manifest is an error unless its files may be for other programs.
    pub fn read_selected(
        paths: &[PathBuf],
        budget: &mut Budget,
        selection: FileSelection<'_>,
    ) -> Result<Self, ReadError> {
        let mut manifests = Self::default();
        let mut unread = 0;
        for path in paths {
            if path.as_os_str() == STDIN {
                manifests.add_text(path, io::stdin(), PathSource::Argument, budget)?;
                continue;
            }
            let source = match (path.is_dir(), selection.others) {
                (false, Others::InDirectories) if extension(path) == TOML => PathSource::NodeFile,
                (_, Others::Everywhere) | (true, Others::InDirectories) => PathSource::OfAnyProgram,
                (true, Others::None) => PathSource::Directory,
                (false, Others::None | Others::InDirectories) => PathSource::Argument,
            };
            let files = if path.is_dir() { files_below(path)? } else { vec![path.clone()] };
            if files.is_empty() {
                let wrong = "has no .yaml, .yml or .json file".to_owned();
                let error = ReadError { path: path.clone(), wrong };
                if selection.others == Others::None {
                    return Err(error);
                }
                manifests.empty.push(format!("{} {}", path.display(), error.wrong));
            }
            for file in files.into_iter().filter(|file| !(selection.excluded)(file)) {
                if budget.is_exceeded {
                    unread += 1;
                } else {
                    let opened = File::open(&file).map_err(|error| ReadError::new(&file, &error))?;
                    manifests.add_text(&file, opened, source, budget)?;
                }
            }
        }
        if unread > 0
            && let Some(LocatedProblem { problem, .. }) = manifests.problems.last_mut()
        {
            let files = counted(unread, "more file");
            problem.wrong = format!("{}, so {files} {} not read", problem.wrong, agree(unread, "is", "are"));
        }
        Ok(manifests)
    }

    fn add_text(
        &mut self,
        path: &Path,
        reader: impl io::Read,
        source: PathSource,
        budget: &mut Budget,
    ) -> Result<(), ReadError> {
        let text = budget.read(reader).map_err(|error| ReadError::new(path, &error))?;
        let name = path.display().to_string();
        self.files.push(name.clone());
        match text {
            Ok(text) if source == PathSource::NodeFile => self.node_files.push(NodeFile { name, text }),
            Ok(text) => self.add(&name, text, source, budget),
            Err(TextProblem::NotText(_)) if source == PathSource::OfAnyProgram => {
                self.ignored.push(format!("{name} is not text"));
            }
            Err(TextProblem::NotText(problem) | TextProblem::TooLarge(problem)) => {
                self.problems.push(LocatedProblem { file: name, line: 1, problem });
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, text: String, source: PathSource, budget: &mut Budget) {
        if name == STDIN && text.trim().is_empty() {
            self.empty.push("standard input is empty".to_owned());
        }
        let Contents { documents, parts, problems, definitions } = reader::read(&text, budget);
        for ReadFailure { line, cause, problem } in problems {
            // A document with a duplicate key is read.
            let is_other = cause == FailureCause::Other;
            let at_fault = text.lines().nth(line.saturating_sub(1)).filter(|_| is_other).unwrap_or_default();
            match document::ignored(name, line, &text, at_fault).filter(|_| source == PathSource::OfAnyProgram) {
                Some(ignored) => self.ignored.push(ignored),
                None => self.problems.push(LocatedProblem { file: name.to_owned(), line, problem }),
            }
        }
        self.definitions += definitions;
        let file = Arc::new(SourceFile { name: name.to_owned(), text, parts, positions: OnceLock::new() });
        for (document, Document { objects, is_list }) in documents.into_iter().enumerate() {
            for (index, object) in objects.into_iter().enumerate() {
                let location = Location { file: file.clone(), document, item: is_list.then_some(index) };
                self.add_object(Manifest { object, location }, source);
            }
        }
    }

    fn add_object(&mut self, manifest: Manifest, source: PathSource) {
        if is_kustomization(&manifest) {
            let kustomization = manifest.object.value();
            let names = fields(&kustomization, "images[].name").into_iter();
            self.replaced_images.extend(names.filter_map(|(_, name)| Some(name.as_str()?.to_owned())));
        }
        if !manifest.object.kind().is_empty() {
            self.objects.push(manifest);
        } else if source != PathSource::Argument {
            self.ignored.push(format!("{} has no kind", manifest.location.start()));
        } else {
            let problem = Problem::new("kind", "not a Kubernetes object", "write apiVersion and kind");
            self.problems.push(manifest.location.problem(problem));
        }
    }
}

impl Manifest {
    /// The only document of a file, of any format; `None` if the file is empty.
    pub fn read_document(path: &Path) -> Result<Option<Self>, LocatedProblem> {
        let name = path.display().to_string();
        let problem = |line, problem| LocatedProblem { file: name.clone(), line, problem };
        let unreadable = |wrong: String| problem(1, Problem::new("", wrong, "correct its path, or make it readable"));
        let mut budget = Budget::bounded();
        let text =
            File::open(path).and_then(|file| budget.read(file)).map_err(|error| unreadable(error.to_string()))?;
        let text = text.map_err(|(TextProblem::NotText(wrong) | TextProblem::TooLarge(wrong))| problem(1, wrong))?;
        let Contents { documents, parts, problems, .. } = reader::read(&text, &mut budget);
        if let Some(ReadFailure { line, problem: wrong, .. }) = problems.into_iter().next() {
            return Err(problem(line, wrong));
        }
        let file = Arc::new(SourceFile { name: name.clone(), text, parts, positions: OnceLock::new() });
        let mut objects = documents.into_iter().flat_map(|document| document.objects);
        let (first, second) = (objects.next(), objects.next());
        if second.is_some() {
            return Err(problem(1, Problem::new("", "has several documents", "write one document")));
        }
        Ok(first.map(|object| Self { object, location: Location { file, document: 0, item: None } }))
    }
}

/// Whether an object is for Kustomize, where its kind is optional.
fn is_kustomization(manifest: &Manifest) -> bool {
    let name = Path::new(manifest.location.file()).file_stem().unwrap_or_default();
    name == "kustomization" || manifest.object.group() == "kustomize.config.k8s.io"
}

/// Why a file is read. Some files in a directory are for other programs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathSource {
    /// Its path was typed.
    Argument,
    /// The same, and it is one of containerd.
    NodeFile,
    Directory,
    /// It may be for another program, whatever its format.
    OfAnyProgram,
}

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

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

/// The files below a directory, sorted by path, without hidden files and linked directories, which may be cycles.
fn files_below(directory: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let mut files = Vec::new();
    let is_hidden = |entry: &DirEntry| entry.depth() > 0 && entry.file_name().as_encoded_bytes().starts_with(b".");
    for entry in WalkDir::new(directory).sort_by_file_name().into_iter().filter_entry(|entry| !is_hidden(entry)) {
        let path = match entry {
            Ok(entry) => entry.into_path(),
            Err(error) => {
                let path = error.path().unwrap_or(directory).to_owned();
                let error = error.into_io_error().unwrap_or_else(|| io::ErrorKind::Other.into());
                return Err(ReadError::new(&path, &error));
            }
        };
        if EXTENSIONS.contains(&extension(&path)) && path.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Manifests {
        let mut manifests = Manifests::default();
        manifests.add("pool.yaml", text.to_owned(), PathSource::Argument, &mut Budget::unbounded());
        manifests
    }

    /// The kinds of the objects, and where they are.
    fn starts(manifests: &Manifests) -> Vec<String> {
        manifests.objects.iter().map(|one| format!("{} {}", one.object.kind(), one.location.start())).collect()
    }

    fn problems(manifests: &Manifests) -> Vec<String> {
        manifests.problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn documents_and_lists_are_read_one_by_one() {
        let text = "# comment\n---\nkind: A\n---\n\n---\napiVersion: v1\nkind: List\nitems:\n- kind: B\n- kind: C\n";
        let manifests = read(text);
        assert_eq!(starts(&manifests), ["A pool.yaml:3", "B pool.yaml:10", "C pool.yaml:11"]);
        let json = read(r#"{"kind": "List", "items": [{"kind": "B"}]} {"kind": "C"}"#);
        assert_eq!(starts(&json), ["B pool.yaml:1", "C pool.yaml:1"]);
        assert_eq!(read("{kind: A}").objects.len(), 1, "what begins like JSON may be YAML");
    }

    #[test]
    fn a_problem_is_reported_with_the_line_of_its_field() {
        let text =
            "kind: A\nspec:\n  taints:\n  - key: a\n  - key: b\n    effect: Never\n  labels:\n    example.com/x: y\n";
        let manifests = read(text);
        let line = |path: &str| manifests.objects[0].location.problem(Problem::new(path, "", "")).line;
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
    fn invalid_yaml_is_reported_with_its_line() {
        for text in ["kind: A\nspec: [\n", "kind: A\nspec:\n\ta: 1\n", "kind: A\n---\na: b: c\n"] {
            let found = problems(&read(text));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("pool.yaml:2: ") || found[0].starts_with("pool.yaml:3: "), "{found:?}");
        }
        let escape = problems(&read("kind: A\npath: \"C:\\inetpub\\logs\"\n"));
        assert!(escape[0].starts_with("pool.yaml:2: ") && escape[0].contains("single quotes"), "{escape:?}");
    }

    #[test]
    fn an_unreadable_document_hides_no_other() {
        let text = "kind: A\n---\nkind: [\n---\nkind: B\nkind: C\nspec: {x: 1}\n---\nmore: {\n---\n# none\n---\nkind: D\nspec:\n  y: 1\n";
        let manifests = read(text);
        assert_eq!(starts(&manifests), ["A pool.yaml:1", "C pool.yaml:5", "D pool.yaml:13"]);
        assert_eq!(manifests.objects[2].location.line("spec.y"), 15);
        assert_eq!(manifests.problems.len(), 3);
        assert_eq!(
            manifests.problems[1].to_string(),
            "pool.yaml:6: the key kind is a duplicate: old versions of kubectl use the last one, new versions reject it: remove one \
             of them"
        );
    }

    #[test]
    fn a_document_without_kind_is_a_problem_only_in_a_named_file() {
        let text = "resources: [a.yaml]\n";
        assert_eq!(problems(&read(text)), ["pool.yaml:1: kind: not a Kubernetes object: write apiVersion and kind"]);
        let mut in_directory = Manifests::default();
        in_directory.add("kustomization.yaml", text.to_owned(), PathSource::Directory, &mut Budget::unbounded());
        assert_eq!(in_directory.problems, []);
        assert_eq!(in_directory.ignored, ["kustomization.yaml:1 has no kind"]);
    }

    #[test]
    fn images_that_a_kustomization_replaces_are_known() {
        let images = "images: [{name: web, newTag: '7'}, {name: example.com/log}]\n";
        let kustomization = format!("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n{images}");
        let table = [
            ("overlay/kustomization.yaml", images, true),
            ("overlay/web.yaml", kustomization.as_str(), true),
            ("overlay/web.yaml", "kind: Other\nimages: [{name: web}]\n", false),
        ];
        for (file, text, expected) in table {
            let mut manifests = Manifests::default();
            manifests.add(file, text.to_owned(), PathSource::OfAnyProgram, &mut Budget::unbounded());
            assert_eq!(manifests.replaced_images.contains("web:1"), expected, "{file}");
        }
    }

    #[test]
    fn directories_are_read_in_order_with_their_subdirectories() {
        let directory = tempfile::tempdir().unwrap();
        for (name, kind) in [("b.yaml", "B"), ("a/z.json", "Z"), ("a/c.yml", "C"), (".git/x.yaml", "X"), ("d.txt", "D")]
        {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{{\"kind\": \"{kind}\"}}")).unwrap();
        }
        let manifests = Manifests::read(&[directory.path().to_owned()], &mut Budget::unbounded()).unwrap();
        let kinds: Vec<_> = manifests.objects.iter().map(|manifest| manifest.object.kind()).collect();
        assert_eq!(kinds, ["C", "Z", "B"]);
        let empty =
            Manifests::read(&[directory.path().join(".git/none")], &mut Budget::unbounded()).unwrap_err().to_string();
        assert!(empty.contains(".git/none: No such file"), "{empty}");
    }
}
