//! Looks up fields of a document by path, for example `spec.containers[0].image`.

use std::fmt::Write as _;

use rustc_hash::FxHashSet;

use crate::node::{Content, Node, Position};

/// A field that is present in a document, or its closest enclosing field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// Position of the field's key; for an item of a list, the position of the item.
    pub at: Position,
    /// The field's value.
    pub value: &'a Node,
    /// True if this is the field that the path names, not an enclosing field.
    pub is_exact: bool,
}

impl Node {
    /// Returns the field at a path, or its closest enclosing field; `None` if not even the first part of the path is
    /// present.
    pub fn field(&self, path: &str) -> Option<Field<'_>> {
        let (at, value, rest) = self.step(path)?;
        let here = Field { at, value, is_exact: rest.is_empty() };
        if here.is_exact { Some(here) } else { Some(value.field(rest).unwrap_or(here)) }
    }

    /// Follows the first part of a path. Returns the position and value of the field that this part names, and the rest
    /// of the path.
    fn step<'p>(&self, path: &'p str) -> Option<(Position, &Node, &'p str)> {
        let path = path.trim_start_matches('.');
        let end = match path.strip_prefix('[') {
            Some(rest) => rest.find(']').map_or(path.len(), |end| end + 2),
            None => path.find(['.', '[']).unwrap_or(path.len()),
        };
        let (part, rest) = path.split_at(end);
        let bare = part.strip_prefix('[').and_then(|part| part.strip_suffix(']')).unwrap_or(part);
        if let Some(item) = bare.parse::<usize>().ok().and_then(|index| self.items().get(index)) {
            return Some((item.at, item, rest.trim_start_matches('.')));
        }
        let named = self.entry(part).or_else(|| self.entry(bare)).filter(|_| !part.is_empty());
        let (entry, rest) = match named {
            Some(entry) => (entry, rest),
            None => {
                // Label keys and resource names contain dots.
                let entries = self.entries().iter().filter(|entry| !entry.key.is_empty());
                let named = entries.filter_map(|entry| Some((entry, path.strip_prefix(&entry.key)?)));
                let named = named.filter(|(_, rest)| rest.is_empty() || rest.starts_with(['.', '[']));
                named.min_by_key(|(_, rest)| rest.len())?
            }
        };
        Some((entry.at, &entry.value, rest.trim_start_matches('.')))
    }

    /// Returns the path and position of every key that repeats an earlier key of its mapping. Keys of merged mappings
    /// (`<<`) are ignored.
    pub fn repeated_keys(&self) -> Vec<(String, Position)> {
        let mut repeated = Vec::new();
        self.add_repeated_keys(&mut String::new(), &mut repeated);
        repeated
    }

    fn add_repeated_keys(&self, path: &mut String, repeated: &mut Vec<(String, Position)>) {
        let length = path.len();
        for (i, item) in self.items().iter().enumerate() {
            if matches!(item.content, Content::Sequence(_) | Content::Mapping(_)) {
                // Writing to a string cannot fail.
                let _ = write!(path, "[{i}]");
                item.add_repeated_keys(path, repeated);
                path.truncate(length);
            }
        }
        let mut keys = FxHashSet::default();
        for entry in self.entries() {
            if length > 0 {
                path.push('.');
            }
            path.push_str(&entry.key);
            entry.value.add_repeated_keys(path, repeated);
            if !entry.is_merged && !keys.insert(&entry.key) {
                repeated.push((path.clone(), entry.at));
            }
            path.truncate(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_line_and_column() {
        let text = "a: 1\nb:\n  - c: 2\n    d: {e: 3, x.y/z: {f: 4}}\n";
        let root = crate::parse(text).unwrap();
        for (path, line, column, is_exact) in [
            ("a", 1, 1, true),
            ("b", 2, 1, true),
            ("b[0]", 3, 5, true),
            ("b[0].d", 4, 5, true),
            ("b[0].d.e", 4, 9, true),
            ("b[0].d.x.y/z", 4, 15, true),
            ("b[0].d.x.y/z.f", 4, 23, true),
            ("b[0].d.absent.deeper", 4, 5, false),
            ("b[1]", 2, 1, false),
        ] {
            let field = root.field(path).unwrap();
            assert_eq!((field.at, field.is_exact), (Position { line, column }, is_exact), "{path}");
        }
        assert_eq!(root.field("absent"), None);
        assert_eq!(root.field(""), None);
    }

    #[test]
    fn repeated_keys_are_found_with_their_positions() {
        let root = crate::parse("a: 1\na: {b: 1, b: 2}\nc:\n- d: 1\n  d: 2\n").unwrap();
        let at = |line, column| Position { line, column };
        let expected =
            [("a.b".to_owned(), at(2, 11)), ("a".to_owned(), at(2, 1)), ("c[0].d".to_owned(), at(5, 3))];
        assert_eq!(root.repeated_keys(), expected);
    }
}
