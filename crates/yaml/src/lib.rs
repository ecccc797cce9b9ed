//! YAML and JSON as Kubernetes reads and writes them.
//!
//! Kubernetes reads YAML with `sigs.k8s.io/yaml`, which follows YAML 1.1 for scalars (`yes` is a boolean, `0644` is
//! octal) and converts everything to JSON. This crate accepts and produces the same values; the `scalar` module
//! contains the rules. Every node records its line and column.
//!
//! Reading order: `node` (the tree), `lookup` (fields by path, repeated keys), `reader` (conversion of a text to nodes,
//! as a whole or piece by piece), `quick` (a fast path for most texts), `scalar` and `key` (the meaning of scalars), `write` (conversion of JSON to text).

mod key;
mod lookup;
mod node;
pub mod quick;
mod reader;
mod scalar;
mod write;

pub use lookup::Field;
pub use node::{Content, Entry, Node, Position};
pub use reader::{Error, Key, Reader, Shape};
pub use write::write;

/// A text, with its name for error messages.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name, for example the path of a file.
    pub name: String,
    /// YAML or JSON.
    pub text: String,
}

/// Reads the first document of a text. An empty text yields null.
///
/// # Errors
/// If any part of the text is not valid YAML, even a part after the first document.
pub fn parse(text: &str) -> Result<Node, Error> {
    let mut reader = Reader::new(text);
    let mut first = None;
    while reader.next_document()? {
        let document = reader.value()?;
        first.get_or_insert(document);
    }
    Ok(first.unwrap_or(Node { at: Position { line: 1, column: 1 }, ..Node::default() }))
}

#[cfg(test)]
mod tests;
