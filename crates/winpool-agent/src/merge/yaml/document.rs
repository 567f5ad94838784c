//! The nodes of a YAML document with their places in the text.

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};

/// A node and its bytes in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub kind: Kind,
    /// Whether it is a collection in flow notation, as in JSON.
    pub flow: bool,
    /// Whether it has no anchor, tag or alias.
    pub plain: bool,
    pub start: usize,
    /// The byte after it; equal to `start` for a value that is not written.
    pub end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Mapping(Vec<Entry>),
    Sequence,
    Scalar,
}

/// An entry of a mapping, whose key is a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub key: String,
    pub key_start: usize,
    pub key_end: usize,
    pub value: Node,
}

impl Node {
    /// The entries of a mapping that can be edited.
    pub(super) fn entries(&self) -> Option<&[Entry]> {
        match &self.kind {
            Kind::Mapping(entries) if self.plain => Some(entries),
            _ => None,
        }
    }
}

/// The number of documents, 0 or 1.
pub(super) fn documents(text: &str) -> Result<usize, String> {
    let mut count = 0;
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|error| error.to_string())?;
        count += usize::from(matches!(event, Event::DocumentStart(..)));
    }
    if count > 1 { Err("the file has several YAML documents".to_owned()) } else { Ok(count) }
}

/// The root of the document, which is `Some(None)` if there is none or if it is not written.
pub(super) fn root(text: &str) -> Option<Option<Node>> {
    let mut events = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.ok()?;
        if !matches!(event, Event::Comment(..) | Event::StreamStart | Event::DocumentStart(..)) {
            events.push((event, span));
        }
    }
    let mut events = events.into_iter();
    match events.next()? {
        (Event::StreamEnd | Event::DocumentEnd, _) => Some(None),
        first => {
            let root = node(text, first, &mut events)?;
            Some((root.kind != Kind::Scalar || root.end > root.start).then_some(root))
        }
    }
}

type Events<'a, 'b> = &'a mut dyn Iterator<Item = (Event<'b>, Span)>;

fn node<'b>(text: &str, (event, span): (Event<'b>, Span), events: Events<'_, 'b>) -> Option<Node> {
    let range = span.byte_range()?;
    let leaf = |kind, plain| Node { kind, flow: false, plain, start: range.start, end: range.end };
    Some(match event {
        Event::Scalar(_, style, anchor, tag) => {
            let scalar = leaf(Kind::Scalar, anchor == 0 && tag.is_none());
            match style {
                // The range of a block scalar includes the blanks before the next key.
                ScalarStyle::Literal | ScalarStyle::Folded => {
                    let end = text.get(..range.end)?.trim_end().len().max(range.start);
                    Node { end, ..scalar }
                }
                _ => scalar,
            }
        }
        Event::Alias(_) => leaf(Kind::Scalar, false),
        Event::SequenceStart(style, anchor, tag) => {
            let end = sequence(text, range.start, events)?;
            Node { flow: style == StructureStyle::Flow, end, ..leaf(Kind::Sequence, anchor == 0 && tag.is_none()) }
        }
        Event::MappingStart(style, anchor, tag) => {
            let (entries, end) = mapping(text, range.start, events)?;
            let flow = style == StructureStyle::Flow;
            Node { flow, end, ..leaf(Kind::Mapping(entries), anchor == 0 && tag.is_none()) }
        }
        _ => return None,
    })
}

/// The byte after a sequence.
fn sequence<'b>(text: &str, start: usize, events: Events<'_, 'b>) -> Option<usize> {
    let mut end = start;
    loop {
        let (event, span) = events.next()?;
        if event == Event::SequenceEnd {
            return Some(end.max(closed(&span)?));
        }
        end = node(text, (event, span), events)?.end.max(end);
    }
}

/// The entries of a mapping, and the byte after it.
fn mapping<'b>(text: &str, start: usize, events: Events<'_, 'b>) -> Option<(Vec<Entry>, usize)> {
    let mut entries = Vec::new();
    let mut end = start;
    loop {
        let (event, span) = events.next()?;
        match event {
            Event::MappingEnd => return Some((entries, end.max(closed(&span)?))),
            Event::Scalar(key, ..) => {
                let key_range = span.byte_range()?;
                let value = node(text, events.next()?, events)?;
                end = value.end.max(key_range.end).max(end);
                let (key_start, key_end) = (key_range.start, key_range.end);
                entries.push(Entry { key: key.into_owned(), key_start, key_end, value });
            }
            _ => return None,
        }
    }
}

/// The byte after the closing bracket; 0 for block notation, which has none.
fn closed(span: &Span) -> Option<usize> {
    let range = span.byte_range()?;
    Some(if range.is_empty() { 0 } else { range.end })
}
