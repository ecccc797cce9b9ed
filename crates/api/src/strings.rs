//! Shared immutable strings, and the table that makes equal strings share memory.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

use rustc_hash::FxHashSet;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

/// A shared immutable string. Cloning copies a pointer.
///
/// Equality checks the pointers first, so a string from an [`Interner`] is found equal to its copies in one step.
#[derive(Clone, Eq, PartialOrd, Ord)]
pub struct Str(Arc<str>);

impl Str {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Str {
    /// The empty text; does not allocate.
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl PartialEq for Str {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl PartialEq<str> for Str {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<String> for Str {
    fn eq(&self, other: &String) -> bool {
        *self.0 == **other
    }
}

impl PartialEq<&str> for Str {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl std::hash::Hash for Str {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Deref for Str {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Str {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Str {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Serialize for Str {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Str {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(StrVisitor)
    }
}

struct StrVisitor;

impl Visitor<'_> for StrVisitor {
    type Value = Str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Str, E> {
        Ok(text.into())
    }
}

/// Makes equal strings share one allocation (label keys, namespaces, images, resource names).
///
/// [`Interner::shrink`] drops strings that nothing else holds.
#[derive(Debug, Default)]
pub struct Interner {
    known: FxHashSet<Str>,
    shrink_at: usize,
}

impl Interner {
    /// Returns the shared copy of `text`.
    pub fn intern(&mut self, text: &str) -> Str {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        if self.known.len() >= self.shrink_at.max(1024) {
            self.shrink();
            self.shrink_at = self.known.len() * 2;
        }
        let fresh = Str::from(text);
        self.known.insert(fresh.clone());
        fresh
    }

    /// Drops strings that only this table holds.
    pub fn shrink(&mut self) {
        self.known.retain(|s| Arc::strong_count(&s.0) > 1);
    }

    /// Number of distinct strings.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns true if there are no strings.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_memory_and_unused_strings_are_dropped() {
        let mut interner = Interner::default();
        let (a, b) = (interner.intern("zone"), interner.intern("zone"));
        assert!(Arc::ptr_eq(&a.0, &b.0));
        let _ = interner.intern("gone");
        interner.shrink();
        assert_eq!(interner.len(), 1);
        assert_eq!(a, "zone");
    }
}
