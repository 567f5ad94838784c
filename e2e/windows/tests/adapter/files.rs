//! Files: replaced in one step, also while other programs read them.
//!
//! A file that is open with `FILE_SHARE_DELETE` is replaced by Windows, but not by Wine.

use std::{fs, path::Path, time::Duration};

use tempfile::TempDir;
use winpool_agent::{host::Host, windows::Windows};

use super::{eventually, exists, os_error, start_helper};

// Modes of sharing, <https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-createfilew>.
const SHARE_READ: u32 = 1;
const SHARE_WRITE: u32 = 2;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A file with the content `former`, alone in its directory.
fn former() -> (TempDir, String) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("kubelet config über.yaml");
    fs::write(&path, "former").unwrap();
    let path = text(&path).to_owned();
    (directory, path)
}

/// Keeps a file open in another program, and returns when it is open.
fn hold(path: &str, share: u32, time: Duration) -> std::process::Child {
    let ready = TempDir::new().unwrap();
    let file = ready.path().join("ready");
    let child = start_helper(&["hold", path, &share.to_string(), &time.as_millis().to_string(), text(&file)]);
    eventually("the file is open", || exists(&file));
    child
}

#[test]
fn a_file_is_created_with_its_directories_and_replaced() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a b").join("ü").join("config.toml");
    for content in [&b"first\r\n"[..], b"", &[0xff; 100_000]] {
        Windows.replace(text(&path), content).unwrap();
        assert_eq!(Windows.read(text(&path)).unwrap().as_deref(), Some(content));
    }
    assert_eq!(Windows.list(text(path.parent().unwrap())).unwrap(), ["config.toml"], "no temporary file is left");
}

/// Its owner and access control list would otherwise be those that somebody else gave it.
#[test]
fn a_temporary_file_that_was_prepared_is_not_written_to() {
    let (directory, path) = former();
    let (prepared, link) = (format!("{path}.winpool-new"), directory.path().join("link"));
    fs::write(&prepared, "prepared").unwrap();
    fs::hard_link(&prepared, &link).unwrap();
    Windows.replace(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::read(&link).unwrap(), b"prepared", "another file was created");
}

#[test]
fn a_path_is_local_if_what_exists_of_it_is_on_a_drive_of_this_machine() {
    let directory = TempDir::new().unwrap();
    for path in [directory.path().to_owned(), directory.path().join("missing").join("file")] {
        assert!(Windows.is_local(text(&path)).unwrap(), "{}", path.display());
    }
    assert!(Windows.is_local(r"Q:\missing").is_err(), "a drive that does not exist");
}

#[test]
fn a_file_is_replaced_as_soon_as_others_close_it() {
    let (_directory, path) = former();
    let mut holder = hold(&path, SHARE_READ, Duration::from_millis(300));
    Windows.replace(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    holder.wait().unwrap();
}

#[test]
fn a_file_that_stays_open_keeps_its_content_and_the_error_has_its_number() {
    for share in [0, SHARE_READ, SHARE_READ | SHARE_WRITE] {
        let (directory, path) = former();
        let mut holder = hold(&path, share, Duration::from_secs(30));
        let error = os_error(Windows.replace(&path, b"new"));
        assert!(matches!(error, Some(5 | 32)), "share {share}: {error:?}");
        assert!(matches!(os_error(Windows.remove(&path)), Some(5 | 32)), "share {share}");
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"former", "share {share}");
        assert_eq!(Windows.list(text(directory.path())).unwrap().len(), 1, "share {share}: no temporary file is left");
    }
}

#[test]
fn what_does_not_exist_is_none_empty_or_already_removed() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("none");
    let below = file.join("none");
    for path in [text(&file), text(&below)] {
        assert_eq!(Windows.read(path).unwrap(), None);
        assert_eq!(Windows.list(path).unwrap(), Vec::<String>::new());
        Windows.remove(path).unwrap();
    }
}

#[test]
fn the_files_of_a_directory_are_listed_without_its_directories() {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("hosts")).unwrap();
    for name in ["20-b.conf", "10-ä.conf"] {
        fs::write(directory.path().join(name), "").unwrap();
    }
    assert_eq!(Windows.list(text(directory.path())).unwrap(), ["10-ä.conf", "20-b.conf"]);
    Windows.remove(text(&directory.path().join("20-b.conf"))).unwrap();
    assert_eq!(Windows.list(text(directory.path())).unwrap(), ["10-ä.conf"]);
}
