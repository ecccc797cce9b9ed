//! Iteration over rows.

use harbormaster_framework::nodeset::{NodeIdx, NodeSet};

/// Returns the rows that are in both sets, in ascending order. Processes 64 rows at a time.
pub(crate) fn both<'a>(a: &'a NodeSet, b: &'a NodeSet) -> impl Iterator<Item = NodeIdx> + 'a {
    let words = a.words().iter().zip(b.words()).enumerate();
    words.flat_map(|(at, (a, b))| {
        let mut left = a & b;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(NodeIdx::from(at * 64 + bit as usize))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_sets_come_in_order_across_words() {
        let set = |rows: &[u32]| rows.iter().copied().map(NodeIdx).collect::<NodeSet>();
        let found: Vec<u32> =
            both(&set(&[1, 63, 64, 200]), &set(&[0, 1, 64, 199, 200, 900])).map(|r| r.0).collect();
        assert_eq!(found, [1, 64, 200]);
        assert_eq!(both(&set(&[1]), &set(&[])).count(), 0);
    }
}
