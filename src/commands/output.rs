//! How commands print Kubernetes objects: as YAML documents, as one JSON List, or as files.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use super::Failure;

/// How objects are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// YAML documents
    #[default]
    Yaml,
    /// One v1 List
    Json,
}

/// How commands print what they found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    #[default]
    Text,
    /// One object, for programs
    Json,
}

/// The objects as text. The same objects always give the same bytes.
pub fn text(objects: &[Value], format: Format) -> String {
    let mut bytes = Vec::new();
    // Nothing can go wrong with a Vec, nor with what serde_json reads itself.
    let _ = write_objects(&mut bytes, objects, format);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes objects one by one, so that many take no more memory than they do already.
///
/// # Errors
/// Whatever goes wrong in writing.
pub fn write_objects<'a>(
    out: &mut impl io::Write,
    objects: impl IntoIterator<Item = &'a Value>,
    format: Format,
) -> io::Result<()> {
    match format {
        Format::Yaml => {
            for (number, object) in objects.into_iter().enumerate() {
                let separator = if number == 0 { "" } else { "---\n" };
                write!(out, "{separator}{}", yaml(object))?;
            }
        }
        Format::Json => {
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
pub fn print_objects<'a>(objects: impl IntoIterator<Item = &'a Value>, format: Format) -> Result<(), Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    printed(write_objects(&mut out, objects, format).and_then(|()| out.flush()))
}

/// One object as a YAML document. Long lines are not folded, so that texts can be compared line by line.
pub fn yaml(object: &Value) -> String {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    // JSON is YAML too, should the writer ever give up.
    serde_saphyr::to_string_with_options(object, options).unwrap_or_else(|_| format!("{object:#}\n"))
}

/// Prints text to stdout. A reader that has seen enough, such as `head`, is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn printed(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Usage(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a file into a folder, which is made if it is missing. The text replaces what the file had.
pub fn write(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| Failure::Usage(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_is_documents_and_json_is_one_list() {
        let objects = [json!({"kind": "A", "long": "word ".repeat(60)}), json!({"kind": "B", "quoted": "1809"})];
        let documents = text(&objects, Format::Yaml);
        assert_eq!(serde_saphyr::from_multiple::<Value>(&documents).unwrap(), objects);
        assert!(documents.contains("quoted: \"1809\""), "{documents}");
        let list = serde_json::from_str::<Value>(&text(&objects, Format::Json)).unwrap();
        assert_eq!((&list["kind"], &list["items"]), (&json!("List"), &json!(objects)));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/b.yaml", "x").unwrap();
        let failure = write(folder.path(), "a/b.yaml/c", "x").unwrap_err().to_string();
        assert!(failure.contains("a/b.yaml/c"), "{failure}");
    }
}
