//! `%VARIABLES%` in the command lines of services.

/// The text with every `%NAME%` replaced by the value of the environment variable. A name without a value is not replaced.
///
/// Source: `ExpandEnvironmentStrings`, which the service control manager uses for an `ImagePath` of type `REG_EXPAND_SZ`,
/// <https://learn.microsoft.com/windows/win32/api/processenv/nf-processenv-expandenvironmentstringsw>.
pub fn expand(text: &str, variable: impl Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        expanded.push_str(before);
        let reference = after.split_once('%').and_then(|(name, after)| Some((variable(name)?, after)));
        let (value, after) = reference.unwrap_or_else(|| ("%".to_owned(), after));
        expanded.push_str(&value);
        rest = after;
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_between_percent_signs_is_replaced_by_its_value() {
        let variable = |name: &str| match name {
            "SystemRoot" => Some(r"C:\Windows".to_owned()),
            "ProgramFiles" => Some(r"C:\Program Files".to_owned()),
            _ => None,
        };
        for (text, expected) in [
            (r"C:\k\kubelet.exe", r"C:\k\kubelet.exe"),
            (r"%SystemRoot%\System32\svchost.exe -k x", r"C:\Windows\System32\svchost.exe -k x"),
            (r#""%ProgramFiles%\a.exe" %SystemRoot%"#, r#""C:\Program Files\a.exe" C:\Windows"#),
            ("%Unknown%", "%Unknown%"),
            ("100% %SystemRoot%", r"100% C:\Windows"),
            ("--format=%d", "--format=%d"),
            ("%%", "%%"),
            ("", ""),
        ] {
            assert_eq!(expand(text, variable), expected, "{text}");
        }
    }
}
