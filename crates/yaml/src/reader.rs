//! Converts text to nodes.

use std::{borrow::Cow, collections::VecDeque, fmt};

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use rustc_hash::FxHashMap;

use crate::{
    key,
    node::{Content, Entry, Node, Position},
    scalar::{self, Scalar},
};

/// Maximum number of nodes that aliases may expand to. The small limit stops alias bombs early.
const MAX_NODES_OF_ALIASES: usize = 100_000;
/// Maximum depth of a document with all its aliases expanded.
const MAX_DEPTH: usize = 300;

/// The reason why a text cannot be read as YAML and converted to JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Position, if known.
    pub at: Option<Position>,
    /// The reason.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "line {}: {}", at.line, self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    fn at(at: Position, message: impl Into<String>) -> Self {
        Self { at: Some(at), message: message.into() }
    }
}

impl From<ScanError> for Error {
    fn from(error: ScanError) -> Self {
        let at = error.marker();
        let at = (at.line() > 0).then(|| position(at.line(), at.col()));
        Self { at, message: error.kind().to_string() }
    }
}

fn position(line: usize, column: usize) -> Position {
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position { line: narrow(line), column: narrow(column).saturating_add(1) }
}

/// Shape of the next value, which determines how it can be read piece by piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A mapping; [`Reader::enter_mapping`] enters it.
    Mapping,
    /// A sequence; [`Reader::enter_sequence`] enters it.
    Sequence,
    /// Anything else; [`Reader::value`] reads it.
    Other,
}

/// Reads the documents of a text one after another, each as a whole or piece by piece.
pub struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    next: Option<(Event<'t>, Position)>,
    /// Completed values of this document that have an anchor, by the anchor's number.
    anchors: FxHashMap<usize, Node>,
    /// Entries merged into the current mapping whose keys have not been read yet.
    merged: VecDeque<Entry>,
    /// The value of the last key read, if the key comes from a merged mapping.
    merged_value: Option<Node>,
    nodes_of_aliases: usize,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("next", &self.next).finish_non_exhaustive()
    }
}

impl<'t> Reader<'t> {
    /// Returns a reader that is positioned before the first document.
    pub fn new(text: &'t str) -> Self {
        let mut options = Options::default();
        options.set_emit_comments(false);
        Self {
            parser: Parser::new_from_str_with_options(text, options),
            next: None,
            anchors: FxHashMap::default(),
            merged: VecDeque::new(),
            merged_value: None,
            nodes_of_aliases: 0,
        }
    }

    /// Moves to the beginning of the next document. Returns false if there is none.
    ///
    /// # Errors
    /// If the text is not YAML.
    pub fn next_document(&mut self) -> Result<bool, Error> {
        self.anchors.clear();
        loop {
            match self.event()? {
                None | Some((Event::StreamEnd, _)) => return Ok(false),
                Some((Event::DocumentStart(..), _)) => return Ok(true),
                Some(_) => {}
            }
        }
    }

    /// Returns the position of the next value.
    ///
    /// # Errors
    /// If the text is not YAML.
    pub fn position(&mut self) -> Result<Position, Error> {
        Ok(self.peek()?.map_or_else(Position::default, |(_, at)| *at))
    }

    /// Returns the shape of the next value.
    ///
    /// # Errors
    /// If the text is not YAML.
    pub fn shape(&mut self) -> Result<Shape, Error> {
        if self.merged_value.is_some() {
            return Ok(Shape::Other);
        }
        Ok(match self.peek()? {
            // A value with an anchor must be read as a whole and kept.
            Some((Event::MappingStart(_, 0, _), _)) => Shape::Mapping,
            Some((Event::SequenceStart(_, 0, _), _)) => Shape::Sequence,
            _ => Shape::Other,
        })
    }

    /// Enters the mapping that comes next; [`Self::next_key`] returns its keys.
    ///
    /// # Errors
    /// If the text is not YAML.
    pub fn enter_mapping(&mut self) -> Result<(), Error> {
        self.event().map(drop)
    }

    /// Enters the sequence that comes next; [`Self::has_item`] returns true if there is another item.
    ///
    /// # Errors
    /// If the text is not YAML.
    pub fn enter_sequence(&mut self) -> Result<(), Error> {
        self.event().map(drop)
    }

    /// Returns true if the sequence has another item, which is then the next value. Otherwise, leaves the sequence.
    ///
    /// # Errors
    /// If the text is not YAML.
    pub fn has_item(&mut self) -> Result<bool, Error> {
        let is_over = matches!(self.peek()?, None | Some((Event::SequenceEnd, _)));
        if is_over {
            self.event()?;
        }
        Ok(!is_over)
    }

    /// Returns the next key of the mapping; the key's value is then the next value. If there are no more keys, leaves
    /// the mapping and returns `None`.
    ///
    /// # Errors
    /// If the text is not YAML, or the key cannot be represented in JSON.
    pub fn next_key(&mut self) -> Result<Option<Key>, Error> {
        self.next_key_at(0)
    }

    fn next_key_at(&mut self, depth: usize) -> Result<Option<Key>, Error> {
        loop {
            if let Some(Entry { key: text, at, value, .. }) = self.merged.pop_front() {
                self.merged_value = Some(value);
                return Ok(Some(Key { text, at, is_merged: true }));
            }
            let Some((event, at)) = self.event()? else { return Ok(None) };
            let text = match event {
                Event::MappingEnd => return Ok(None),
                Event::Scalar(text, style, anchor, tag) => {
                    if is_merge(&text, style, tag.as_deref()) {
                        self.merge(depth)?;
                        continue;
                    }
                    let (text, scalar) = resolved(text, style, tag.as_deref(), at)?;
                    if anchor > 0 {
                        self.anchors.insert(anchor, node(text.clone(), scalar.clone(), at)?);
                    }
                    key::of(&scalar, &text)
                }
                Event::Alias(id) => match self.aliased(id, at, depth)?.content {
                    Content::String(text) => Some(text),
                    Content::Bool(value) => Some(value.to_string()),
                    Content::Int(value) => Some(value.to_string()),
                    _ => None,
                },
                _ => None,
            };
            let Some(text) = text else {
                return Err(Error::at(at, "only strings, numbers and booleans can be keys"));
            };
            return Ok(Some(Key { text, at, is_merged: false }));
        }
    }

    /// Merges the entries of the next value, a mapping or a list of mappings, into the current mapping.
    fn merge(&mut self, depth: usize) -> Result<(), Error> {
        let value = self.value_at(depth)?;
        let at = value.at;
        let mappings = match value.content {
            Content::Mapping(_) => vec![value],
            // The first mapping takes precedence, so it is merged last.
            Content::Sequence(items) => items.into_iter().rev().collect(),
            _ => vec![Node { at, ..Node::default() }],
        };
        for mapping in mappings {
            let Content::Mapping(entries) = mapping.content else {
                return Err(Error::at(at, "map merge requires map or sequence of maps as the value"));
            };
            self.merged.extend(entries.into_iter().map(|entry| Entry { is_merged: true, ..entry }));
        }
        Ok(())
    }

    /// Reads the whole next value.
    ///
    /// # Errors
    /// If the text is not YAML, or the value cannot be represented in JSON.
    pub fn value(&mut self) -> Result<Node, Error> {
        self.value_at(0)
    }

    fn value_at(&mut self, depth: usize) -> Result<Node, Error> {
        if let Some(value) = self.merged_value.take() {
            return Ok(value);
        }
        let Some((event, at)) = self.event()? else { return Ok(Node::default()) };
        if depth >= MAX_DEPTH {
            return Err(Error::at(at, "the document is nested too deeply"));
        }
        let (node, anchor) = match event {
            Event::Alias(id) => return self.aliased(id, at, depth),
            Event::Scalar(text, style, anchor, tag) => {
                let (text, scalar) = resolved(text, style, tag.as_deref(), at)?;
                (node(text, scalar, at)?, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                while self.has_item()? {
                    items.push(self.value_at(depth + 1)?);
                }
                (Node { at, content: Content::Sequence(items), ..Node::default() }, anchor)
            }
            Event::MappingStart(_, anchor, _) => {
                let mut entries = Vec::new();
                while let Some(Key { text: key, at, is_merged }) = self.next_key_at(depth + 1)? {
                    entries.push(Entry { key, at, value: self.value_at(depth + 1)?, is_merged });
                }
                (Node { at, content: Content::Mapping(entries), ..Node::default() }, anchor)
            }
            _ => return Err(Error::at(at, "a value is missing")),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn aliased(&mut self, id: usize, at: Position, depth: usize) -> Result<Node, Error> {
        let Some(node) = self.anchors.get(&id) else {
            return Err(Error::at(at, "the value of an anchor contains itself"));
        };
        let (count, deepest) = node.size();
        self.nodes_of_aliases += count;
        if self.nodes_of_aliases > MAX_NODES_OF_ALIASES {
            return Err(Error::at(at, "document contains excessive aliasing"));
        }
        if depth + deepest > MAX_DEPTH {
            return Err(Error::at(at, "the document is nested too deeply"));
        }
        Ok(node.clone())
    }

    fn peek(&mut self) -> Result<Option<&(Event<'t>, Position)>, Error> {
        if self.next.is_none() {
            self.next = self.event()?;
        }
        Ok(self.next.as_ref())
    }

    fn event(&mut self) -> Result<Option<(Event<'t>, Position)>, Error> {
        if let Some(next) = self.next.take() {
            return Ok(Some(next));
        }
        let Some(event) = self.parser.next_event() else { return Ok(None) };
        let (event, span): (Event<'t>, Span) = event?;
        Ok(Some((event, position(span.start.line(), span.start.col()))))
    }
}

/// A key of a mapping that is read piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key's text.
    pub text: String,
    /// The key's position.
    pub at: Position,
    /// True if the key comes from a mapping that `<<` merges.
    pub is_merged: bool,
}

fn is_merge(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> bool {
    text == "<<" && tag.map_or(style == ScalarStyle::Plain, |tag| suffix(tag) == Some("merge"))
}

/// Returns the name of a tag if it is one of YAML's own tags.
fn suffix(tag: &Tag) -> Option<&str> {
    match tag.suffix_in_namespace("tag:yaml.org,2002:")? {
        Cow::Borrowed(suffix) => Some(suffix),
        Cow::Owned(_) => None,
    }
}

fn resolved(
    text: Cow<'_, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
    at: Position,
) -> Result<(String, Scalar), Error> {
    // The tag `!` has no meaning.
    let Some(tag) = tag.filter(|tag| tag.original() != "!") else {
        let scalar = if style == ScalarStyle::Plain { scalar::plain(&text) } else { Scalar::Text };
        return Ok((text.into_owned(), scalar));
    };
    let name = suffix(tag).unwrap_or("str");
    let scalar = match (name, scalar::plain(&text)) {
        ("binary", _) => return Err(Error::at(at, "binary data cannot be read")),
        ("null", scalar @ Scalar::Null)
        | ("bool", scalar @ Scalar::Bool(_))
        | ("int", scalar @ Scalar::Int(_))
        | ("float", scalar @ Scalar::Float(_)) => scalar,
        ("float", Scalar::Int(value)) => Scalar::Float(value as f64),
        ("null" | "bool" | "int" | "float", _) => {
            return Err(Error::at(at, format!("cannot decode `{text}` as a !!{name}")));
        }
        _ => Scalar::Text,
    };
    Ok((text.into_owned(), scalar))
}

fn node(text: String, scalar: Scalar, at: Position) -> Result<Node, Error> {
    let content = match scalar {
        Scalar::Text => return Ok(Node { at, content: Content::String(text), ..Node::default() }),
        Scalar::Null => return Ok(Node { at, ..Node::default() }),
        Scalar::Bool(value) => Content::Bool(value),
        Scalar::Int(value) => Content::Int(value),
        Scalar::Float(value) if value.is_finite() => Content::Float(value),
        Scalar::Float(_) => return Err(Error::at(at, format!("JSON has no number {text}"))),
    };
    Ok(Node { at, content, written: text.into() })
}
