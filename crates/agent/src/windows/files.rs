//! Files, replaced in one step.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read, Seek, SeekFrom, Write},
    path::{Component, Path, Prefix},
    thread,
    time::Duration,
};

/// What the name of a temporary file ends with. No program reads a configuration file with this ending.
const TEMPORARY: &str = ".winpool-new";
/// How often a file that another program keeps open is tried.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// `ERROR_ACCESS_DENIED`: the file is open without `FILE_SHARE_DELETE`.
const ACCESS_DENIED: i32 = 5;
/// `ERROR_SHARING_VIOLATION`: the file is open without the mode of sharing that is needed.
const SHARING_VIOLATION: i32 = 32;

pub(super) fn read(path: &str) -> io::Result<Option<Vec<u8>>> {
    existing(while_in_use(|| fs::read(path)))
}

/// Reads what other programs still write, such as a log.
pub(super) fn read_end(path: &str, bytes: u64) -> io::Result<Option<Vec<u8>>> {
    existing(while_in_use(|| {
        let mut file = File::open(path)?;
        let begin = file.metadata()?.len().saturating_sub(bytes);
        file.seek(SeekFrom::Start(begin))?;
        let mut content = Vec::new();
        file.take(bytes).read_to_end(&mut content)?;
        Ok(content)
    }))
}

fn existing(content: io::Result<Vec<u8>>) -> io::Result<Option<Vec<u8>>> {
    match content {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a temporary file beside the file, flushes it to the disk, and renames it. The new file has the access control
/// list that its directory gives to new files.
pub(super) fn replace(path: &str, content: &[u8]) -> io::Result<()> {
    if let Some(directory) = Path::new(path).parent() {
        fs::create_dir_all(directory)?;
    }
    let temporary = format!("{path}{TEMPORARY}");
    let result = write(&temporary, content).and_then(|()| while_in_use(|| fs::rename(&temporary, path)));
    if result.is_err() {
        // The error of the replacement is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Creates a file, writes it to the disk and closes it. A file that is already there is not written to, because it keeps the
/// owner and the access control list that somebody else gave it.
fn write(path: &str, content: &[u8]) -> io::Result<()> {
    remove(path)?;
    let mut file = File::create_new(path)?;
    file.write_all(content)?;
    file.sync_all()
}

pub(super) fn remove(path: &str) -> io::Result<()> {
    match while_in_use(|| fs::remove_file(path)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The names of the files in a directory, sorted. A name that is not Unicode is left out: no configuration file has one.
pub fn list(directory: &str) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    Ok(names)
}

/// Whether the existing part of a path is on this machine: the system resolves drives and links to the path of a share.
pub(super) fn is_local(path: &str) -> io::Result<bool> {
    let mut error = io::Error::from(ErrorKind::NotFound);
    for part in Path::new(path).ancestors().filter(|part| !part.as_os_str().is_empty()) {
        match fs::canonicalize(part) {
            Ok(resolved) => return Ok(!matches!(prefix(&resolved), Some(Prefix::UNC(..) | Prefix::VerbatimUNC(..)))),
            Err(missing) if missing.kind() == ErrorKind::NotFound => error = missing,
            Err(other) => return Err(other),
        }
    }
    Err(error)
}

fn prefix(path: &Path) -> Option<Prefix<'_>> {
    match path.components().next() {
        Some(Component::Prefix(prefix)) => Some(prefix.kind()),
        _ => None,
    }
}

/// Repeats an operation on a file while another program keeps it open: kubelets and virus scanners do so for moments.
fn while_in_use<T>(operation: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match operation() {
            Err(error) if matches!(error.raw_os_error(), Some(ACCESS_DENIED | SHARING_VIOLATION)) => {}
            result => return result,
        }
        thread::sleep(PAUSE);
    }
    operation()
}
