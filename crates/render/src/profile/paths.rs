//! Paths of Windows.

/// A drive and a path without characters that Windows does not allow.
pub fn is_windows_path(text: &str) -> bool {
    let mut bytes = text.bytes();
    let drive = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let rooted = bytes.next() == Some(b':') && bytes.next().is_some_and(|byte| byte == b'\\' || byte == b'/');
    let rest = text.get(2..).unwrap_or_default();
    drive && rooted && text.len() <= 260 && !rest.contains(|c: char| c.is_control() || "<>:\"|?*".contains(c))
}

/// Whether a text is a path on another machine, or of a device: two separators.
pub(super) fn is_network_path(text: &str) -> bool {
    let is_separator = |byte: Option<&u8>| matches!(byte, Some(b'\\' | b'/'));
    is_separator(text.as_bytes().first()) && is_separator(text.as_bytes().get(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_drive_or_is_of_another_machine_or_neither() {
        for (text, of_windows, of_network) in [
            (r"C:\k", true, false),
            ("d:/k", true, false),
            (r"\k", false, false),
            (r"\\server\share", false, true),
            ("//server/share", false, true),
            (r"\/server/share", false, true),
            (r"\\?\UNC\server\share", false, true),
            (r"C:\k:stream", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_windows_path(text), is_network_path(text)), (of_windows, of_network), "{text}");
        }
    }
}
