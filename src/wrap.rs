//! Lines that fit a terminal.

use anstream::adapter::strip_str;

/// What the lines of commands begin with. They are not broken, so that they can be pasted.
const COMMANDS: [&str; 2] = ["Run: ", "Collect: "];

/// The text with lines of at most this number of characters, unless a word or a command is longer. The rest of a line begins below its
/// second column, which two spaces separate from the first, or else two characters further right than the line.
pub fn wrapped(text: &str, width: usize) -> String {
    text.split_inclusive('\n').map(|line| wrapped_line(line, width)).collect()
}

fn wrapped_line(line: &str, width: usize) -> String {
    let plain = strip_str(line).to_string();
    let is_command = COMMANDS.iter().any(|start| plain.trim_start().starts_with(start));
    if is_command || plain.trim_end().chars().count() <= width {
        return line.to_owned();
    }
    let indent = hanging_indent(&plain, width);
    let (mut text, mut column) = (String::new(), 0);
    for word in words(line) {
        let begin = word.trim_start_matches(' ');
        if column > indent && column + length(word) > width {
            text.push_str(&format!("\n{:indent$}{begin}", ""));
            column = indent + length(begin);
        } else {
            text.push_str(word);
            column += length(word);
        }
    }
    text
}

/// Where the rest of a line begins. Without a second column in the left half, two characters further right than the line.
fn hanging_indent(plain: &str, width: usize) -> usize {
    let own = plain.len() - plain.trim_start_matches(' ').len();
    let second = plain[own..].find("  ").map(|gap| {
        let rest = &plain[own + gap..];
        own + plain[own..own + gap].chars().count() + rest.len() - rest.trim_start_matches(' ').len()
    });
    second.filter(|second| *second <= width / 2).unwrap_or(own + 2)
}

/// The number of characters on a terminal.
fn length(word: &str) -> usize {
    strip_str(word).to_string().trim_end_matches('\n').chars().count()
}

/// The words of a line, each with the spaces before it. What is between backticks is one word.
fn words(line: &str) -> Vec<&str> {
    let (mut words, mut start, mut quoted, mut before) = (Vec::new(), 0, false, ' ');
    for (at, char) in line.char_indices() {
        quoted ^= char == '`';
        if char == ' ' && before != ' ' && !quoted {
            words.push(&line[start..at]);
            start = at;
        }
        before = char;
    }
    words.push(&line[start..]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_between_words_and_continues_below_its_text() {
        let bold = "\u{1b}[1mweb\u{1b}[0m  six nodes are as they are specified\n";
        let table = [
            ("short\n", "short\n"),
            ("one two three four five six seven\n", "one two three four five\n  six seven\n"),
            ("  one two three four five six\n", "  one two three four five\n    six\n"),
            ("  web   one two three four five\n", "  web   one two three\n        four five\n"),
            (bold, "\u{1b}[1mweb\u{1b}[0m  six nodes are as\n     they are specified\n"),
            ("    Run: kubectl get nodes -l a=b -o wide\n", "    Run: kubectl get nodes -l a=b -o wide\n"),
            ("please type `winpool plan --pool web`\n", "please type\n  `winpool plan --pool web`\n"),
            ("a-word-that-is-longer-than-a-line x\n", "a-word-that-is-longer-than-a-line\n  x\n"),
            ("a column that is too far right  b c\n", "a column that is too far\n  right  b c\n"),
            ("ä ö ü é à è ç ñ ï î ô û â\n\nb\n", "ä ö ü é à è ç ñ ï î ô û â\n\nb\n"),
        ];
        for (text, expected) in table {
            assert_eq!(wrapped(text, 25), expected);
        }
    }
}
