//! The parts of a pod that a plugin reads: the key under which its answers are cached.

use std::hash::{Hash, Hasher};

/// Values that a [row-scoped](crate::scope::Row) plugin reads from a pod. Pods with equal values share the plugin's
/// answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reads(Vec<u8>);

impl Reads {
    /// Adds a value.
    pub fn of(&mut self, what: &(impl Hash + ?Sized)) -> &mut Self {
        what.hash(&mut Bytes(&mut self.0));
        self
    }

    /// Returns true if no value was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.0.len()
    }
}

/// Records the hashed bytes. Two values of one type for which [`Hash`] writes the same bytes are equal, because
/// implementations of [`Hash`] delimit the parts that they write.
struct Bytes<'a>(&'a mut Vec<u8>);

impl Hasher for Bytes<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_values_give_different_reads() {
        let reads = |first: &str, second: &str| {
            let mut reads = Reads::default();
            reads.of(first).of(second);
            reads
        };
        assert_eq!(reads("a", "b"), reads("a", "b"));
        assert_ne!(reads("ab", ""), reads("a", "b"));
        let of = |what: &Option<Vec<u32>>| Reads::default().of(what).clone();
        assert_ne!(of(&None), of(&Some(Vec::new())));
        assert_ne!(of(&Some(vec![0])), of(&Some(Vec::new())));
    }
}
