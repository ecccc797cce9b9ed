//! Rows of the node table and sets of them.

use std::ops::Range;

/// A row of the node table. Rows are dense, and are reused after a node is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIdx(pub u32);

impl NodeIdx {
    /// The row as an index into columns.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

impl From<usize> for NodeIdx {
    /// Tables hold fewer than 2^32 rows.
    fn from(row: usize) -> Self {
        Self(row as u32)
    }
}

/// A set of rows, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet {
    words: Vec<u64>,
}

impl NodeSet {
    /// Returns an empty set with capacity for `rows` rows.
    pub fn empty(rows: usize) -> Self {
        Self { words: vec![0; rows.div_ceil(64)] }
    }

    /// Returns the rows `0..rows`.
    pub fn all(rows: usize) -> Self {
        let mut set = Self { words: vec![!0; rows.div_ceil(64)] };
        if let (Some(last), false) = (set.words.last_mut(), rows.is_multiple_of(64)) {
            *last = (1 << (rows % 64)) - 1;
        }
        set
    }

    /// Returns true if `row` is in the set.
    pub fn contains(&self, row: NodeIdx) -> bool {
        self.words.get(row.at() / 64).is_some_and(|w| w >> (row.at() % 64) & 1 == 1)
    }

    /// Adds a row, growing the set if needed.
    pub fn insert(&mut self, row: NodeIdx) {
        let word = row.at() / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (row.at() % 64);
    }

    /// Removes a row.
    pub fn remove(&mut self, row: NodeIdx) {
        if let Some(word) = self.words.get_mut(row.at() / 64) {
            *word &= !(1 << (row.at() % 64));
        }
    }

    /// Adds or removes a row.
    pub fn set(&mut self, row: NodeIdx, member: bool) {
        if member { self.insert(row) } else { self.remove(row) }
    }

    /// Keeps only rows that are also in `other`.
    pub fn intersect(&mut self, other: &NodeSet) {
        for (at, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(at).copied().unwrap_or(0);
        }
    }

    /// Adds the rows of `other`.
    pub fn unite(&mut self, other: &NodeSet) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Returns true if some row is in both sets.
    pub fn intersects(&self, other: &NodeSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Removes the rows of `other`.
    pub fn subtract(&mut self, other: &NodeSet) {
        for (word, gone) in self.words.iter_mut().zip(&other.words) {
            *word &= !gone;
        }
    }

    /// Copies the members of `other`, keeping the allocation.
    pub fn copy_from(&mut self, other: &NodeSet) {
        self.words.clone_from(&other.words);
    }

    /// Removes every row.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns true if no row is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// Number of rows in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// The rows in ascending order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { words: &self.words, next_word: 0, word: 0 }
    }

    /// The first member.
    pub fn first(&self) -> Option<NodeIdx> {
        self.iter().next()
    }

    /// Returns the smallest range of row indexes that contains all rows of the set, for columnar code.
    pub fn span(&self) -> Range<usize> {
        let filled = |word: &u64| *word != 0;
        match (self.words.iter().position(filled), self.words.iter().rposition(filled)) {
            (Some(first), Some(last)) => {
                let start = 64 * first + self.words[first].trailing_zeros() as usize;
                start..64 * (last + 1) - self.words[last].leading_zeros() as usize
            }
            _ => 0..0,
        }
    }

    /// The longest ranges of consecutive row indexes, in ascending order, for columnar code.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let (words, mut at) = (&self.words, 0);
        std::iter::from_fn(move || {
            let start = next_bit(words, at, 0)?;
            at = next_bit(words, start, !0).unwrap_or(64 * words.len());
            Some(start..at)
        })
    }

    /// The bits, 64 rows per word, for columnar code.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

/// Returns the first bit at or after `from` that differs from those of `other`, which are all equal.
fn next_bit(words: &[u64], from: usize, other: u64) -> Option<usize> {
    let mut at = from / 64;
    let mut word = (words.get(at)? ^ other) & (!0 << (from % 64));
    while word == 0 {
        at += 1;
        word = words.get(at)? ^ other;
    }
    Some(64 * at + word.trailing_zeros() as usize)
}

impl FromIterator<NodeIdx> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeIdx>>(rows: I) -> Self {
        let mut set = Self::default();
        for row in rows {
            set.insert(row);
        }
        set
    }
}

impl<'a> IntoIterator for &'a NodeSet {
    type Item = NodeIdx;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Ascending iterator over a [`NodeSet`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    words: &'a [u64],
    next_word: usize,
    word: u64,
}

impl Iterator for Iter<'_> {
    type Item = NodeIdx;
    fn next(&mut self) -> Option<NodeIdx> {
        while self.word == 0 {
            self.word = *self.words.get(self.next_word)?;
            self.next_word += 1;
        }
        let bit = self.word.trailing_zeros();
        self.word &= self.word - 1;
        Some(NodeIdx((self.next_word as u32 - 1) * 64 + bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_the_longest_ranges_of_rows() {
        for runs in [
            &[][..],
            &[(0, 1)],
            &[(0, 64)],
            &[(0, 128)],
            &[(0, 130)],
            &[(63, 65)],
            &[(1, 2), (3, 4), (62, 64)],
            &[(5, 200), (201, 202), (255, 256)],
            &[(64, 128), (192, 193)],
        ] {
            let set: NodeSet = runs.iter().flat_map(|(start, end)| *start..*end).map(NodeIdx).collect();
            let found: Vec<_> = set.runs().map(|run| (run.start as u32, run.end as u32)).collect();
            assert_eq!(found, runs);
        }
    }

    #[test]
    fn a_set_behaves_like_a_sorted_list_of_rows() {
        let mut set: NodeSet = [3, 64, 130].map(NodeIdx).into_iter().collect();
        assert_eq!(set.iter().map(|r| r.0).collect::<Vec<_>>(), [3, 64, 130]);
        set.intersect(&NodeSet::all(100));
        assert_eq!((set.len(), set.contains(NodeIdx(64)), set.contains(NodeIdx(130))), (2, true, false));
        set.remove(NodeIdx(3));
        assert_eq!(set.first(), Some(NodeIdx(64)));
        assert_eq!(NodeSet::all(64).len(), 64);
        assert_eq!(NodeSet::all(65).len(), 65);
        assert!(NodeSet::empty(10).is_empty());
    }

    #[test]
    fn the_span_goes_from_the_first_row_to_the_last() {
        for (rows, span) in [(&[3, 64, 130][..], 3..131), (&[3, 63], 3..64), (&[64], 64..65), (&[], 0..0)] {
            let set: NodeSet = rows.iter().copied().map(NodeIdx).collect();
            assert_eq!(set.span(), span, "{rows:?}");
        }
        assert_eq!(NodeSet::empty(70).span(), 0..0);
    }
}
