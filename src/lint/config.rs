//! The configuration file of `winpool lint`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::{Map, Value};
use winpool_check::{
    lint::{Code, Severity},
    manifests::Manifest,
};
use winpool_core::{Problem, text::closest};
use winpool_facts::Minor;

use super::minor;
use super::path::relative;
use crate::CommandError;

pub const FILE_NAME: &str = ".winpool-lint.yaml";

/// The fields of the file.
const FIELDS: [&str; 7] = ["baseline", "exclude", "failOn", "ignore", "kubernetes", "runtime", "severity"];
/// The severity that stands for no finding.
const OFF: &str = "off";

/// A container runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuntimeName {
    /// containerd
    Containerd,
    /// Docker with cri-dockerd
    Docker,
}

/// The least severity that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Only errors
    Error,
    /// Errors and warnings
    #[default]
    Warning,
}

impl FailOn {
    /// Whether a finding of a severity fails.
    pub fn includes(self, severity: Severity) -> bool {
        match self {
            Self::Error => severity == Severity::Error,
            Self::Warning => severity != Severity::Note,
        }
    }
}

/// The configuration.
#[derive(Debug, Default)]
pub struct Config {
    /// The Kubernetes version of the cluster.
    pub kubernetes: Option<Minor>,
    /// The container runtime of the Windows nodes.
    pub runtime: Option<RuntimeName>,
    /// The least severity that fails.
    pub fail_on: Option<FailOn>,
    /// The codes that are not reported.
    pub ignored: BTreeSet<Code>,
    /// The severities of codes that differ from the default.
    pub severities: BTreeMap<Code, Severity>,
    /// The file with the known findings.
    pub baseline: Option<PathBuf>,
    /// The files that are not checked.
    excluded: GlobSet,
    /// The directory of the file, to which its paths are relative.
    directory: PathBuf,
}

impl Config {
    /// The configuration in a file, or in the nearest [`FILE_NAME`] in the working directory `current` and its parents.
    pub fn read(file: Option<PathBuf>, current: &Path) -> Result<Self, CommandError> {
        let nearest = || current.ancestors().map(|directory| directory.join(FILE_NAME)).find(|file| file.is_file());
        let Some(file) = file.or_else(nearest) else { return Ok(Self::default()) };
        let document = Manifest::read_document(&file).map_err(|problem| CommandError::Usage(problem.to_string()))?;
        let directory = file.parent().unwrap_or(Path::new("")).to_owned();
        let Some(document) = document else { return Ok(Self { directory, ..Self::default() }) };
        let mut parser = Parser::default();
        let config = parser.parse(&document.object.value(), directory);
        let problems = parser.problems.into_iter().map(|problem| document.location.problem(problem).to_string());
        let lines: Vec<_> = problems.collect();
        if lines.is_empty() { Ok(config) } else { Err(CommandError::Usage(lines.join("\n"))) }
    }

    /// Whether a file as typed is not checked.
    pub fn excludes(&self, file: &Path, current: &Path) -> bool {
        let relative = relative(&file.to_string_lossy(), &self.directory, current);
        self.excluded.is_match(relative)
    }
}

/// Collects all problems of a file.
#[derive(Default)]
struct Parser {
    problems: Vec<Problem>,
}

impl Parser {
    fn parse(&mut self, value: &Value, directory: PathBuf) -> Config {
        let mut config = Config { directory, ..Config::default() };
        let Some(fields) = self.object("", value) else { return config };
        for (name, value) in fields {
            match name.as_str() {
                "kubernetes" => config.kubernetes = self.text(name, value).and_then(|text| self.minor(text)),
                "runtime" => config.runtime = self.text(name, value).and_then(|text| self.one_of(name, text)),
                "failOn" => config.fail_on = self.text(name, value).and_then(|text| self.one_of(name, text)),
                "baseline" => config.baseline = self.text(name, value).map(|text| config.directory.join(text)),
                "ignore" => {
                    let codes = self.texts(name, value);
                    config.ignored.extend(codes.into_iter().filter_map(|(path, code)| self.code(&path, code)));
                }
                "exclude" => config.excluded = self.globs(name, value),
                "severity" => self.severities(name, value, &mut config),
                _ => self.unknown_field(name),
            }
        }
        config
    }

    fn severities(&mut self, name: &str, value: &Value, config: &mut Config) {
        for (code, severity) in self.object(name, value).into_iter().flatten() {
            let path = format!("{name}.{code}");
            let Some(code) = self.code(&path, code) else { continue };
            // YAML reads off without quotes as false.
            let text = if *severity == false { Some(OFF) } else { self.text(&path, severity) };
            match text.map(|text| Severity::named(text).ok_or(text)) {
                Some(Ok(severity)) => drop(config.severities.insert(code, severity)),
                Some(Err(OFF)) => drop(config.ignored.insert(code)),
                Some(Err(text)) => {
                    let remedy = format!("write one of error, warning, note, {OFF}");
                    self.add(path, format!("unknown severity {text:?}"), remedy);
                }
                None => {}
            }
        }
    }

    fn code(&mut self, path: &str, text: &str) -> Option<Code> {
        let code = text.parse::<Code>();
        code.map_err(|error| self.add(path, format!("unknown code {text:?}"), error.advice())).ok()
    }

    fn minor(&mut self, text: &str) -> Option<Minor> {
        let mut add = |error: String| {
            self.add("kubernetes", error.trim_start_matches("--kubernetes: "), "write a version such as \"1.34\"");
        };
        minor(text).map_err(|error| add(error.to_string())).ok()
    }

    /// One of the values that the option of the same name has.
    fn one_of<T: ValueEnum>(&mut self, path: &str, text: &str) -> Option<T> {
        let found = T::from_str(text, false).ok();
        if found.is_none() {
            let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let names: Vec<_> = values.map(|value| value.get_name().to_owned()).collect();
            let remedy = format!("write one of {}", names.join(", "));
            self.add(path, format!("unknown value {text:?}"), remedy);
        }
        found
    }

    fn globs(&mut self, path: &str, value: &Value) -> GlobSet {
        let mut set = GlobSetBuilder::new();
        for (path, text) in self.texts(path, value) {
            match GlobBuilder::new(&pattern(text)).literal_separator(true).build() {
                Ok(glob) => drop(set.add(glob)),
                Err(error) => {
                    let wrong = format!("{text:?} is not a pattern: {}", error.kind());
                    self.add(path, wrong, "write a pattern such as vendor/** or *.generated.yaml");
                }
            }
        }
        set.build().unwrap_or_default()
    }

    fn unknown_field(&mut self, name: &str) {
        let remedy = match closest(name, FIELDS) {
            Some(field) => format!("write {field}"),
            None => format!("write one of {}", FIELDS.join(", ")),
        };
        self.add(name, "unknown field", remedy);
    }

    fn object<'v>(&mut self, path: &str, value: &'v Value) -> Option<&'v Map<String, Value>> {
        self.expect(path, value.as_object(), "an object")
    }

    fn text<'v>(&mut self, path: &str, value: &'v Value) -> Option<&'v str> {
        self.expect(path, value.as_str(), "a string, in quotes if it is a number")
    }

    /// The items of a list, with their paths.
    fn texts<'v>(&mut self, path: &str, value: &'v Value) -> Vec<(String, &'v str)> {
        let items = self.expect(path, value.as_array(), "a list");
        let mut texts = Vec::new();
        for (index, item) in items.into_iter().flatten().enumerate() {
            let path = format!("{path}[{index}]");
            texts.extend(self.text(&path, item).map(|text| (path, text)));
        }
        texts
    }

    fn expect<T>(&mut self, path: &str, value: Option<T>, expected: &str) -> Option<T> {
        if value.is_none() {
            self.add(path, format!("must be {expected}"), format!("write {expected}"));
        }
        value
    }

    fn add(&mut self, path: impl Into<String>, wrong: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(Problem::new(path, wrong, remedy));
    }
}

/// A pattern without a slash matches in every directory, and a directory matches everything in it.
fn pattern(text: &str) -> String {
    let text = text.strip_prefix("./").unwrap_or(text);
    match (text.strip_suffix('/'), text.contains('/')) {
        (Some(directory), _) => format!("{directory}/**"),
        (None, true) => text.to_owned(),
        (None, false) => format!("**/{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, CommandError> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE_NAME), text).unwrap();
        let below = directory.path().join("deep/below");
        std::fs::create_dir_all(&below).unwrap();
        Config::read(None, &below).map_err(|failure| {
            let path = directory.path().join(FILE_NAME).display().to_string();
            CommandError::Usage(failure.to_string().replace(&path, FILE_NAME))
        })
    }

    #[test]
    fn a_file_in_a_parent_of_the_working_directory_applies() {
        let text = "kubernetes: '1.30'\nruntime: docker\nfailOn: error\nignore: [image-latest]\nseverity:\n  sub-path: off\n  \
                    file-mode: error\nexclude: [vendor/, '*.generated.yaml', 'a/*/c.yaml']\nbaseline: ci/known.json\n";
        let config = read(text).unwrap();
        assert_eq!(config.kubernetes, Some(Minor(30)));
        assert!(matches!((config.runtime, config.fail_on), (Some(RuntimeName::Docker), Some(FailOn::Error))));
        assert_eq!(config.ignored, [Code::ImageLatest, Code::SubPath].into());
        assert_eq!(config.severities, [(Code::FileMode, Severity::Error)].into());
        assert_eq!(config.baseline, Some(config.directory.join("ci/known.json")));
        let table = [
            ("vendor/a/b.yaml", true),
            ("vendor.yaml", false),
            ("x/y/z.generated.yaml", true),
            ("a/b/c.yaml", true),
            ("a/b/b/c.yaml", false),
            ("app.yaml", false),
        ];
        for (file, expected) in table {
            assert_eq!(config.excludes(&config.directory.join(file), Path::new("/")), expected, "{file}");
        }
    }

    #[test]
    fn an_empty_file_changes_nothing() {
        let config = read("# nothing yet\n").unwrap();
        assert!(config.ignored.is_empty() && config.baseline.is_none() && config.kubernetes.is_none());
    }

    #[test]
    fn each_problem_is_reported_with_line_path_and_remedy() {
        let table = [
            ("ignored: [a]\n", ".winpool-lint.yaml:1: ignored: unknown field: write ignore"),
            (
                "\nrules: {}\n",
                ".winpool-lint.yaml:2: rules: unknown field: write one of baseline, exclude, failOn, ignore, kubernetes, runtime, severity",
            ),
            (
                "ignore:\n- image-last\n",
                ".winpool-lint.yaml:2: ignore[0]: unknown code \"image-last\": did you mean image-latest?",
            ),
            (
                "severity:\n  sub-path: fatal\n",
                ".winpool-lint.yaml:2: severity.sub-path: unknown severity \"fatal\": write one of error, warning, note, off",
            ),
            ("ignore: image-latest\n", ".winpool-lint.yaml:1: ignore: must be a list: write a list"),
            (
                "kubernetes: 1.30\n",
                ".winpool-lint.yaml:1: kubernetes: must be a string, in quotes if it is a number: write a string, in quotes if it is a number",
            ),
            (
                "kubernetes: '1.22'\n",
                ".winpool-lint.yaml:1: kubernetes: 1.22 is not supported. Use 1.23 or later: write a version such as \"1.34\"",
            ),
            ("failOn: never\n", ".winpool-lint.yaml:1: failOn: unknown value \"never\": write one of error, warning"),
            (
                "exclude: ['a[']\n",
                ".winpool-lint.yaml:1: exclude[0]: \"a[\" is not a pattern: unclosed character class; missing ']': write a pattern such as vendor/** or *.generated.yaml",
            ),
            ("- a\n", ".winpool-lint.yaml:1: must be an object: write an object"),
        ];
        for (text, expected) in table {
            assert_eq!(read(text).unwrap_err(), CommandError::Usage(expected.to_owned()), "{text}");
        }
        let unreadable = read("ignore: [\n").unwrap_err().to_string();
        assert!(unreadable.starts_with(".winpool-lint.yaml:"), "{unreadable}");
        let missing = Config::read(Some(PathBuf::from("/nowhere.yaml")), Path::new("/")).unwrap_err().to_string();
        assert!(missing.starts_with("/nowhere.yaml:1: No such file"), "{missing}");
    }
}
