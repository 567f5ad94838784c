//! The only place that writes to stdout and stderr: Kubernetes objects, as YAML documents, as one JSON List or as files, and reports.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anstream::{AutoStream, ColorChoice};
use clap::{
    ValueEnum,
    builder::styling::{AnsiColor, Style},
};
use serde::Serialize;
use serde_json::Value;

use super::{CommandError, program::as_called, wrap::wrapped};

/// Where objects are written.
#[derive(Clone, Debug)]
pub enum OutputTarget {
    /// To standard output.
    Stdout(OutputFormat),
    /// As files into a directory.
    Directory(PathBuf),
}

impl OutputTarget {
    /// The directory, if there is one, else standard output.
    pub fn new(directory: Option<PathBuf>, format: OutputFormat) -> Self {
        directory.map_or(Self::Stdout(format), Self::Directory)
    }
}

/// The format of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// YAML documents
    #[default]
    Yaml,
    /// One v1 List
    Json,
}

/// The format of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Plain text
    #[default]
    Text,
    /// One JSON object
    Json,
    /// The same as YAML
    Yaml,
}

/// When reports, help and errors have colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    /// The value of `--color` among words that are typed; the default if it is none.
    pub fn among(words: &[String]) -> Self {
        let value = super::typed_value(words, "--color").and_then(|value| Self::from_str(&value, false).ok());
        value.unwrap_or_default()
    }

    /// Applies it to everything that is printed from now on.
    pub fn apply(self) {
        let choice = match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::AlwaysAnsi,
            Self::Never => ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// The objects as text. The same objects always result in the same bytes.
pub fn text(objects: &[Value], format: OutputFormat) -> String {
    let mut bytes = Vec::new();
    // Writing values to a Vec does not fail.
    let _ = write_objects(&mut bytes, objects, format);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes objects one by one, so that the text of all objects is never in memory.
pub fn write_objects<'a>(
    out: &mut impl io::Write,
    objects: impl IntoIterator<Item = &'a Value>,
    format: OutputFormat,
) -> io::Result<()> {
    match format {
        OutputFormat::Yaml => {
            for (number, object) in objects.into_iter().enumerate() {
                let separator = if number == 0 { "" } else { "---\n" };
                write!(out, "{separator}{}", yaml(object))?;
            }
        }
        OutputFormat::Json => {
            let list = List { api_version: "v1", items: objects.into_iter().collect(), kind: "List" };
            serde_json::to_writer_pretty(&mut *out, &list)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    api_version: &'static str,
    items: Vec<&'a Value>,
    kind: &'static str,
}

/// Prints objects to stdout, one by one.
pub fn print_objects<'a>(
    objects: impl IntoIterator<Item = &'a Value>,
    format: OutputFormat,
) -> Result<(), CommandError> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    ignore_closed_pipe(write_objects(&mut out, objects, format).and_then(|()| out.flush()))
}

/// One object as a YAML document. Long lines are not folded, so that documents can be compared line by line.
pub fn yaml(object: &Value) -> String {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    // JSON is valid YAML.
    serde_saphyr::to_string_with_options(object, options).unwrap_or_else(|_| format!("{object:#}\n"))
}

/// Prints text to stdout. A closed pipe, as by `head`, is not a failure.
pub fn print(text: &str) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    ignore_closed_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints a report to stdout, as wide as a terminal, with styles as [`Color`] says, and with commands as this program is called.
pub fn print_styled(text: &str) -> Result<(), CommandError> {
    let text = as_called(text);
    let text = terminal_width().map_or_else(|| text.clone(), |width| wrapped(&text, width).into());
    let mut out = AutoStream::auto(io::stdout().lock());
    ignore_closed_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Prints a text to stderr. If nobody can read it, nobody can be told.
pub fn print_error(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(as_called(text).as_bytes()).and_then(|()| out.flush());
}

/// The number of characters in a line of the terminal that stdout is; `None` if it is none, or too narrow for columns.
pub fn terminal_width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(width.0)).filter(|width| *width >= MIN_WIDTH)
}

/// Prints a report, and fails with the summary of its problems, if it has any.
pub fn report<T: Serialize>(
    format: ReportFormat,
    report: &T,
    text: impl FnOnce(&T) -> String,
    problems: Option<String>,
) -> Result<(), CommandError> {
    match format {
        ReportFormat::Text => print_styled(&text(report)),
        ReportFormat::Json => print(&as_called(&format!("{:#}\n", serde_json::json!(report)))),
        ReportFormat::Yaml => print(&as_called(&yaml(&serde_json::json!(report)))),
    }?;
    problems.map_or(Ok(()), |problems| Err(CommandError::Problems(problems)))
}

/// The least width of a terminal to which lines are fitted.
const MIN_WIDTH: usize = 40;

/// The last line of a report that has codes.
pub const EXPLAIN: &str = "Run winpool explain CODE for the meaning of a code.";

/// The style of headings.
pub const BOLD: Style = Style::new().bold();
/// The style of problems.
pub const RED: Style = AnsiColor::Red.on_default();
/// The style of what needs attention.
pub const YELLOW: Style = AnsiColor::Yellow.on_default();

fn ignore_closed_pipe(result: io::Result<()>) -> Result<(), CommandError> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::Usage(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a file into a directory, and creates the directory if it does not exist.
pub fn write(directory: &Path, name: &str, text: &str) -> Result<(), CommandError> {
    let path = directory.join(name);
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| CommandError::Usage(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_is_documents_and_json_is_one_list() {
        let objects = [json!({"kind": "A", "long": "word ".repeat(60)}), json!({"kind": "B", "quoted": "1809"})];
        let documents = text(&objects, OutputFormat::Yaml);
        assert_eq!(serde_saphyr::from_multiple::<Value>(&documents).unwrap(), objects);
        assert!(documents.contains("quoted: \"1809\""), "{documents}");
        let list = serde_json::from_str::<Value>(&text(&objects, OutputFormat::Json)).unwrap();
        assert_eq!((&list["kind"], &list["items"]), (&json!("List"), &json!(objects)));
    }

    #[test]
    fn what_yaml_1_1_does_not_read_as_a_string_is_quoted() {
        let not_strings = "y N yes No on OFF True ~ Null 012 0o17 0x1f 0b11 1_000 1e3 1. .5 +1 -0 .inf .NaN 1:30 \
                           190:20:30.15 2026-08-01 2026-08-01T10:00:00Z 1809 << =";
        for text in not_strings.split(' ').chain(["", "2026-08-01 10:00:00"]) {
            assert_eq!(yaml(&json!({"a": text, "b": [text]})), format!("a: \"{text}\"\nb:\n- \"{text}\"\n"));
        }
    }

    #[test]
    fn an_unwritable_file_is_reported_with_its_path() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "a/b.yaml", "x").unwrap();
        let failure = write(directory.path(), "a/b.yaml/c", "x").unwrap_err().to_string();
        assert!(failure.contains("a/b.yaml/c"), "{failure}");
    }
}
