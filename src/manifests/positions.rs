//! On which line of a YAML or JSON file each field is.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use serde_saphyr::granit_parser::{Event, Parser};

/// The lines of every field of every document that is not empty.
#[derive(Debug, Default)]
pub struct Positions(Vec<Document>);

#[derive(Debug, Default)]
struct Document {
    /// Where its content begins.
    line: usize,
    /// The line of each field, by the [`hash`] of its path with a dot before every key and index: the paths of a large
    /// file would take many times its own size.
    fields: HashMap<u64, u32>,
}

impl Positions {
    /// Finds them in the parts of a text, each with the lines before it. What comes behind a syntax error in a part is left
    /// out.
    pub fn of<'t>(parts: impl IntoIterator<Item = (usize, &'t str)>) -> Self {
        let mut walk = Walk::default();
        for (before, text) in parts {
            walk.around.clear();
            let mut parser = Parser::new_from_str(text);
            while let Some(Ok((event, span))) = parser.next_event() {
                walk.step(&event, before + span.start.line());
            }
        }
        Self(walk.documents)
    }

    /// The line of a field such as `spec.taints[1].effect`; if it is not written, of the nearest of those around it.
    pub fn line(&self, document: usize, path: &str) -> usize {
        let Some(document) = self.0.get(document) else { return 1 };
        let plain = path.replace('[', ".").replace(']', "");
        let mut rest = format!(".{plain}");
        while !rest.is_empty() {
            if let Some(line) = document.fields.get(&hash(&rest)) {
                return *line as usize;
            }
            rest.truncate(rest.rfind('.').unwrap_or_default());
        }
        document.line
    }
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// A walk through the events of a parser.
#[derive(Default)]
struct Walk {
    documents: Vec<Document>,
    /// The collections around the present event.
    around: Vec<Around>,
}

struct Around {
    path: String,
    inside: Inside,
}

enum Inside {
    /// A mapping, whose key was read if it is `Some`.
    Mapping(Option<String>),
    /// A sequence, with the index of the element to come.
    Sequence(usize),
}

impl Walk {
    fn step(&mut self, event: &Event, line: usize) {
        match event {
            Event::Scalar(text, ..) if self.awaits_key() => self.key(text, line),
            Event::Scalar(text, ..) if self.around.is_empty() && ["", "~", "null"].contains(&&**text) => {}
            Event::Scalar(..) | Event::Alias(..) => {
                self.begin(line);
                self.end();
            }
            Event::MappingStart(..) => {
                let path = self.begin(line);
                self.around.push(Around { path, inside: Inside::Mapping(None) });
            }
            Event::SequenceStart(..) => {
                let path = self.begin(line);
                self.around.push(Around { path, inside: Inside::Sequence(0) });
            }
            Event::MappingEnd | Event::SequenceEnd => {
                self.around.pop();
                self.end();
            }
            _ => {}
        }
    }

    fn awaits_key(&self) -> bool {
        matches!(self.around.last(), Some(Around { inside: Inside::Mapping(None), .. }))
    }

    fn key(&mut self, text: &str, line: usize) {
        if let Some(Around { path, inside: Inside::Mapping(key) }) = self.around.last_mut() {
            let path = format!("{path}.{text}");
            *key = Some(text.to_owned());
            self.note(&path, line);
        }
    }

    /// A value begins; its path.
    fn begin(&mut self, line: usize) -> String {
        let path = match self.around.last() {
            None => {
                self.documents.push(Document { line, fields: HashMap::new() });
                return String::new();
            }
            Some(Around { path, inside: Inside::Mapping(key) }) => {
                // A key that is itself a collection is nobody's field.
                return format!("{path}.{}", key.as_deref().unwrap_or_default());
            }
            Some(Around { path, inside: Inside::Sequence(index) }) => format!("{path}.{index}"),
        };
        self.note(&path, line);
        path
    }

    /// A value has ended.
    fn end(&mut self) {
        match self.around.last_mut().map(|around| &mut around.inside) {
            // After a key that is a collection comes its value.
            Some(Inside::Mapping(key)) => *key = if key.is_some() { None } else { Some(String::new()) },
            Some(Inside::Sequence(index)) => *index += 1,
            None => {}
        }
    }

    fn note(&mut self, path: &str, line: usize) {
        if let Some(document) = self.documents.last_mut() {
            document.fields.entry(hash(path)).or_insert(u32::try_from(line).unwrap_or(u32::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_has_its_own_lines() {
        let text = "---\n# nothing\n---\na: {b: [1, {c: d}]}\n---\n? [x]\n: y\na:\n  b: *z\n";
        let positions = Positions::of([(0, text)]);
        assert_eq!(positions.0.len(), 2);
        assert_eq!(positions.line(0, "a.b[1].c"), 4);
        assert_eq!(positions.line(1, ""), 6);
        assert_eq!(positions.line(1, "a"), 8);
        assert_eq!(positions.line(7, "a"), 1, "there is no such document");
    }
}
