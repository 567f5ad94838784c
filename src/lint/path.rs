//! Paths of files in reports for other programs.

use std::path::{Component, Path, PathBuf};

/// A file as typed, relative to a directory and with forward slashes. Both are relative to the working directory
/// `current` unless they are absolute. Links are not resolved.
pub fn relative(file: &str, directory: &Path, current: &Path) -> String {
    if file == "-" {
        return file.to_owned();
    }
    let [file, directory] = [Path::new(file), directory].map(|path| normalized(&current.join(path)));
    let common = file.components().zip(directory.components()).take_while(|(one, other)| one == other).count();
    let up = directory.components().skip(common).map(|_| "..".to_owned());
    let down = file.components().skip(common).map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// A path without `.` and `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normalized.pop();
            }
            part => normalized.push(part),
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_relative_to_a_directory_however_it_was_typed() {
        let table = [
            ("deploy/app.yaml", "", "deploy/app.yaml"),
            ("./deploy/../app.yaml", "", "app.yaml"),
            ("/home/user/repository/app.yaml", "", "app.yaml"),
            ("/elsewhere/app.yaml", "", "../../../elsewhere/app.yaml"),
            ("app.yaml", "ci", "../app.yaml"),
            ("ci/app.yaml", "/home/user/repository/ci", "app.yaml"),
            ("-", "ci", "-"),
        ];
        for (file, directory, expected) in table {
            assert_eq!(relative(file, Path::new(directory), Path::new("/home/user/repository")), expected, "{file}");
        }
    }
}
