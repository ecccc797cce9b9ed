//! Scores from CPU usage.

use std::collections::BTreeMap;

use harbormaster_extender::{MAX_SCORE, Scores};

/// Returns the article's scores (see `README.md`) for all nodes with metrics: 1 for the node with the lowest usage, and
/// one less for every additional millicore. There is no lower bound. Schedulers multiply scores by ten, so a difference
/// of eleven millicores outweighs any plugin of weight 1.
pub fn literal(millicores: &BTreeMap<String, u64>) -> Scores {
    let least = millicores.values().min().copied().unwrap_or_default();
    let points = |used: u64| 1 - i64::try_from(used - least).unwrap_or(i64::MAX);
    millicores.iter().map(|(node, used)| (node.clone(), points(*used))).collect()
}

/// Returns scores from 0 to 10 for `nodes`: 10 for the node with the lowest usage, 5 for a node with twice that usage.
/// Nodes without metrics get 0, since they may be busy.
pub fn corrected<'a>(
    millicores: &BTreeMap<String, u64>,
    nodes: impl Iterator<Item = &'a str> + Clone,
) -> Scores {
    // Even an idle node uses some CPU; values below one millicore count as one.
    let used = |node: &str| millicores.get(node).map(|used| u128::from((*used).max(1)));
    let least = nodes.clone().filter_map(used).min().unwrap_or(1);
    let points = |used: u128| {
        let rounded = (2 * u128::from(MAX_SCORE.unsigned_abs()) * least + used) / (2 * used);
        i64::try_from(rounded).unwrap_or(MAX_SCORE)
    };
    nodes.map(|node| (node.to_owned(), used(node).map_or(0, points))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(nodes: &[(&str, u64)]) -> BTreeMap<String, u64> {
        nodes.iter().map(|(name, used)| ((*name).to_owned(), *used)).collect()
    }

    fn points(scores: Scores) -> Vec<i64> {
        scores.0.into_iter().map(|(_, points)| points).collect()
    }

    #[test]
    fn literal_scores_are_the_same_as_in_the_article() {
        let known = usage(&[("k8s-master", 264), ("k8s-node1", 87), ("k8s-node2", 67)]);
        let expected = [("k8s-master", -196), ("k8s-node1", -19), ("k8s-node2", 1)];
        assert_eq!(
            literal(&known),
            expected.map(|(name, points)| (name.to_owned(), points)).into_iter().collect()
        );
        assert_eq!(literal(&usage(&[])), Scores::default());
    }

    #[test]
    fn corrected_scores_are_from_0_to_10_whatever_the_usage() {
        for (used, expected) in [
            (&[("a", 264), ("b", 87), ("c", 67)][..], &[3, 8, 10][..]),
            (&[("a", 1000), ("b", 1010), ("c", 2000)], &[10, 10, 5]),
            (&[("a", 0), ("b", 1), ("c", 21)], &[10, 10, 0]),
            (&[("a", u64::MAX), ("b", 1), ("c", u64::MAX / 2)], &[0, 10, 0]),
            (&[("a", 5)], &[10, 0, 0]),
            (&[], &[0, 0, 0]),
            // Only the nodes in the request are compared.
            (&[("idle", 1), ("a", 100), ("b", 100), ("c", 200)], &[10, 10, 5]),
        ] {
            assert_eq!(points(corrected(&usage(used), ["a", "b", "c"].into_iter())), expected, "{used:?}");
        }
    }
}
