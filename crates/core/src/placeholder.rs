//! Placeholders in manifests, which another program or a person replaces before they are applied.

/// What encloses the name of a placeholder, such as in `${TAG}`, `$(TAG)`, `{tag}`, `<tag>`, `%TAG%`, `@TAG@` and `__tag__`.
const MARKS: [(&str, &str); 7] =
    [("${", "}"), ("$(", ")"), ("{", "}"), ("<", ">"), ("%", "%"), ("@", "@"), ("__", "__")];
/// The beginning of an expression in a template, and the placeholder of a format string.
const EXPRESSIONS: [&str; 2] = ["{{", "%s"];

pub fn is_marked(text: &str) -> bool {
    let encloses_name = |(begin, end): &(&str, &str)| {
        let mut rests = text.match_indices(begin).map(|(at, _)| &text[at + begin.len()..]);
        rests.any(|rest| rest.split_once(end).is_some_and(|(name, _)| is_name(name)))
    };
    let mut after_dollar = text.split('$').skip(1);
    EXPRESSIONS.iter().any(|begin| text.contains(begin))
        || MARKS.iter().any(encloses_name)
        || after_dollar.any(|name| name.starts_with(|first: char| first.is_ascii_uppercase()))
}

/// Whether a word has the form of a placeholder without a mark, such as `PROJECT_ID`.
pub fn is_word(word: &str) -> bool {
    let is_capital = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
    word.starts_with(|first: char| first.is_ascii_uppercase()) && word.contains('_') && word.chars().all(is_capital)
}

/// Whether a value has a placeholder, with or without a mark.
pub fn is_in(value: &str) -> bool {
    is_marked(value) || value.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_')).any(is_word)
}

/// Whether a line of a file has a placeholder that is no value of YAML: alone in its line, or a value that begins with `{`, `%` or `@`.
pub fn is_no_yaml(line: &str) -> bool {
    let line = line.trim();
    let is_alone = !line.contains([' ', ':']) && (is_marked(line) || is_word(line));
    let value = line.rsplit(": ").next().unwrap_or_default().trim_start_matches("- ");
    let braced = value.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    let is_followed = braced.is_some_and(|(name, rest)| is_name(name) && !rest.trim().is_empty());
    is_alone || is_followed || value.starts_with(['%', '@']) && is_marked(value)
}

pub fn is_name(text: &str) -> bool {
    let is_inside = |char: char| char.is_ascii_alphanumeric() || "_-.:".contains(char);
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') && text.chars().all(is_inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_is_a_marked_name_or_a_word_in_capitals() {
        let table = [
            ("${PORT:-9002}", true),
            ("$(IMAGE)", true),
            ("[$NAME]", true),
            ("{{ .Values.port | int }}", true),
            ("{registry}/web:{version}", true),
            ("<<PROJECT>>/web", true),
            ("example.com/web:%VERSION%", true),
            ("%s.example.com/web", true),
            ("name: @NAME@", true),
            ("__registry__/web:__tag__", true),
            ("REGION-docker.pkg.dev/PROJECT_ID/web", true),
            (r"CONTOSO\web$", false),
            ("{cpu: 1, memory: 1Gi}", false),
            ("1 < 2 > 0", false),
            ("50% of 10%", false),
            ("web@sha256:1234", false),
            ("TRUE", false),
            ("Example_Web", false),
            ("example.com/Web:1", false),
        ];
        for (text, expected) in table {
            assert_eq!(is_in(text), expected, "{text}");
        }
        assert!(!is_marked("- name: MY_NAME"), "a word in capitals has no mark");
    }

    #[test]
    fn only_some_placeholders_are_no_values_of_yaml() {
        let table = [
            ("  name: {app}-web", true),
            ("- {registry}/web:1", true),
            ("  image: @IMAGE@", true),
            ("  image: %s/web", true),
            ("LABELS_OF_POD", true),
            ("  $LABELS", true),
            ("  name: {app}", false),
            ("  - \"--ip=$(POD_IP)\"", false),
            ("  image: ${IMAGE}", false),
            ("  args: [\"%s\"", false),
            ("  name: <name>", false),
        ];
        for (line, expected) in table {
            assert_eq!(is_no_yaml(line), expected, "{line}");
        }
    }
}
