//! Arguments of shell commands.

/// A text as an argument of a shell command, in quotes if necessary.
pub fn shell_quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=,:@%+".contains(&byte);
    if text.bytes().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
