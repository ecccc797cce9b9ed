//! Positions of fields in a document.

use std::fmt::Write as _;

use harbormaster_yaml::{Node, Position};
use rustc_hash::FxHashMap;

/// Positions of the fields of a document by path (`profiles[0].plugins`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Positions(FxHashMap<String, Position>);

impl Positions {
    pub(crate) fn of(root: &Node) -> Self {
        let mut positions = Self::default();
        positions.add(&mut String::new(), root);
        positions
    }

    fn add(&mut self, path: &mut String, node: &Node) {
        let length = path.len();
        for (i, item) in node.items().iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(path, "[{i}]");
            self.0.insert(path.clone(), item.at);
            self.add(path, item);
            path.truncate(length);
        }
        for entry in node.entries() {
            if length > 0 {
                path.push('.');
            }
            path.push_str(&entry.key);
            self.0.insert(path.clone(), entry.at);
            self.add(path, &entry.value);
            path.truncate(length);
        }
    }

    /// Returns true if the document contains the field.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Position of a field, or of its closest parent that the document contains.
    pub(crate) fn nearest(&self, path: &str) -> Option<Position> {
        let mut path = path;
        loop {
            if let Some(at) = self.0.get(path) {
                return Some(*at);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_line_and_column() {
        let text = "a: 1\nb:\n  - c: 2\n    d: {e: 3}\n";
        let positions = Positions::of(&harbormaster_yaml::parse(text).unwrap());
        for (path, line, column) in [
            ("a", 1, 1),
            ("b", 2, 1),
            ("b[0]", 3, 5),
            ("b[0].d", 4, 5),
            ("b[0].d.e", 4, 9),
            ("b[0].d.absent.deeper", 4, 5),
        ] {
            assert_eq!(positions.nearest(path), Some(Position { line, column }), "{path}");
        }
        assert_eq!(positions.nearest("absent"), None);
    }
}
