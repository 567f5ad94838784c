//! Output of Kubernetes objects: as YAML documents, as one JSON List, or as files.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anstream::AutoStream;
use clap::{
    ValueEnum,
    builder::styling::{AnsiColor, Style},
};
use serde::Serialize;
use serde_json::Value;

use super::CommandError;

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

/// Prints a report to stdout. Its styles are removed unless stdout is a terminal and NO_COLOR is not set.
pub fn print_styled(text: &str) -> Result<(), CommandError> {
    let mut out = AutoStream::auto(io::stdout().lock());
    ignore_closed_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
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
        ReportFormat::Json => print(&format!("{:#}\n", serde_json::json!(report))),
    }?;
    problems.map_or(Ok(()), |problems| Err(CommandError::Problems(problems)))
}

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
