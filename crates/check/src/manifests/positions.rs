//! The line of each field in a YAML or JSON file.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use serde_saphyr::granit_parser::{self, Event, Parser};

/// The lines of all fields, by document. Empty documents are omitted.
#[derive(Debug, Default)]
pub struct Positions(Vec<DocumentLines>);

#[derive(Debug, Default)]
struct DocumentLines {
    /// The first line of its content.
    first: usize,
    /// The line of each field, by the [`hash`] of its path with a dot before every key and index. The paths themselves
    /// would take many times the size of the file.
    fields: HashMap<u64, u32>,
}

impl Positions {
    /// Collects the lines in the parts of a text, each with the number of lines before it. A part is read up to its first
    /// syntax error.
    pub fn of<'t>(parts: impl IntoIterator<Item = (usize, &'t str)>) -> Self {
        let mut collector = Collector::default();
        for (before, text) in parts {
            collector.open.clear();
            let options = granit_parser::options! { emit_comments: false };
            let mut parser = Parser::new_from_str_with_options(text, options);
            while let Some(Ok((event, span))) = parser.next_event() {
                collector.add(&event, before + span.start.line());
            }
        }
        Self(collector.documents)
    }

    /// The line of a field such as `spec.taints[1].effect`, or of its innermost existing parent.
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
        document.first
    }
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

#[derive(Default)]
struct Collector {
    documents: Vec<DocumentLines>,
    /// The collections around the current event, outermost first.
    open: Vec<Collection>,
}

struct Collection {
    path: String,
    state: CollectionState,
}

enum CollectionState {
    /// In a mapping, with the key if its value comes next.
    Mapping(Option<String>),
    /// In a sequence, with the index of the next element.
    Sequence(usize),
}

impl Collector {
    fn add(&mut self, event: &Event, line: usize) {
        match event {
            Event::Scalar(text, ..) if self.expects_key() => self.add_key(text, line),
            Event::Scalar(text, ..) if self.open.is_empty() && ["", "~", "null"].contains(&&**text) => {}
            Event::Scalar(..) | Event::Alias(..) => {
                self.begin(line);
                self.end();
            }
            Event::MappingStart(..) => {
                let path = self.begin(line);
                self.open.push(Collection { path, state: CollectionState::Mapping(None) });
            }
            Event::SequenceStart(..) => {
                let path = self.begin(line);
                self.open.push(Collection { path, state: CollectionState::Sequence(0) });
            }
            Event::MappingEnd | Event::SequenceEnd => {
                self.open.pop();
                self.end();
            }
            _ => {}
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Collection { state: CollectionState::Mapping(None), .. }))
    }

    fn add_key(&mut self, text: &str, line: usize) {
        if let Some(Collection { path, state: CollectionState::Mapping(key) }) = self.open.last_mut() {
            let path = format!("{path}.{text}");
            *key = Some(text.to_owned());
            self.set_line(&path, line);
        }
    }

    /// Begins a value, and returns its path.
    fn begin(&mut self, line: usize) -> String {
        let path = match self.open.last() {
            None => {
                self.documents.push(DocumentLines { first: line, fields: HashMap::new() });
                return String::new();
            }
            Some(Collection { path, state: CollectionState::Mapping(key) }) => {
                // A key that is itself a collection has no field name.
                return format!("{path}.{}", key.as_deref().unwrap_or_default());
            }
            Some(Collection { path, state: CollectionState::Sequence(index) }) => format!("{path}.{index}"),
        };
        self.set_line(&path, line);
        path
    }

    fn end(&mut self) {
        match self.open.last_mut().map(|collection| &mut collection.state) {
            // A key that is a collection is followed by its value.
            Some(CollectionState::Mapping(key)) => *key = if key.is_some() { None } else { Some(String::new()) },
            Some(CollectionState::Sequence(index)) => *index += 1,
            None => {}
        }
    }

    fn set_line(&mut self, path: &str, line: usize) {
        if let Some(document) = self.documents.last_mut() {
            document.fields.entry(hash(path)).or_insert(u32::try_from(line).unwrap_or(u32::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_has_its_own_lines() {
        let text = "---\n# nothing\n---\na: {b: [1, {c: d}]}\n---\n? [x]\n: y\na:\n  b: *z\n";
        let positions = Positions::of([(0, text)]);
        assert_eq!(positions.0.len(), 2);
        assert_eq!(positions.line(0, "a.b[1].c"), 4);
        assert_eq!(positions.line(1, ""), 6);
        assert_eq!(positions.line(1, "a"), 8);
        assert_eq!(positions.line(7, "a"), 1, "there is no such document");
    }
}
