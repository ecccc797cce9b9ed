//! Things of which some can be had on a node: the best of them is found without looking at all.

use harbormaster_api::{Labels, Str};
use rustc_hash::FxHashMap;

use super::reach::Reach;

/// Things in order, the best first, each with its reach.
#[derive(Debug)]
pub(super) struct Offers<T> {
    all: Vec<T>,
    /// Where one label decides: places in `all`, by the label's key and its value.
    by_label: FxHashMap<Str, FxHashMap<Str, Vec<usize>>>,
    /// Where more does.
    others: Vec<(usize, Reach)>,
}

impl<T> Offers<T> {
    /// `all`, the best first.
    pub(super) fn new(all: impl IntoIterator<Item = (T, Reach)>) -> Self {
        let mut offers = Self { all: Vec::new(), by_label: FxHashMap::default(), others: Vec::new() };
        for (offer, reach) in all {
            let at = offers.all.len();
            offers.all.push(offer);
            match reach.one_label() {
                Some((key, values)) => {
                    let by_value = offers.by_label.entry(key.clone()).or_default();
                    for value in values {
                        by_value.entry(value.clone()).or_default().push(at);
                    }
                }
                None => offers.others.push((at, reach)),
            }
        }
        offers
    }

    /// The best that can be had on a node with these labels and that `is_free`.
    pub(super) fn best(&self, node: &Labels, is_free: impl Fn(&T) -> bool) -> Option<&T> {
        let is_free = |at: &usize| is_free(&self.all[*at]);
        let by_label = self.by_label.iter().filter_map(|(key, by_value)| {
            let here = by_value.get(node.get(key)?)?;
            here.iter().copied().find(is_free)
        });
        let other = self.others.iter().find(|(at, reach)| is_free(at) && reach.includes(node));
        let best = by_label.chain(other.map(|(at, _)| *at)).min()?;
        Some(&self.all[best])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use harbormaster_api::selector::{
        LabelSelector, NodeSelector, NodeSelectorTerm, Operator, ParsedNodeSelector, Requirement,
    };
    use harbormaster_testkit::{labels, random::Dice};

    use super::*;

    fn pick<'a>(dice: &mut Dice, from: &[&'a str]) -> &'a str {
        from[dice.below(from.len() as u64) as usize]
    }

    fn requirement(dice: &mut Dice) -> Requirement {
        let operator = if dice.below(4) == 0 { Operator::NotIn } else { Operator::In };
        let values = (0..=dice.below(2)).map(|_| pick(dice, &["1", "2", "3"]).into()).collect();
        Requirement { key: pick(dice, &["a", "b"]).into(), operator, values }
    }

    fn reach(dice: &mut Dice) -> Reach {
        let mut requirements: Vec<_> = (0..=dice.below(2)).map(|_| requirement(dice)).collect();
        match dice.below(4) {
            0 => Reach::Everywhere,
            1 => Reach::Labels(LabelSelector {
                match_labels: labels(&[(pick(dice, &["a", "b"]), "1")]),
                match_expressions: if dice.below(2) == 0 { Vec::new() } else { requirements },
            }),
            _ => {
                let second = requirements.split_off(1);
                let term = |match_expressions| NodeSelectorTerm { match_expressions, ..Default::default() };
                let terms = vec![term(requirements), term(second)];
                Reach::Affinity(Arc::new(ParsedNodeSelector::new(&NodeSelector { terms })))
            }
        }
    }

    #[test]
    fn the_best_is_what_one_would_find_by_looking_at_all_in_order() {
        let nodes: Vec<Labels> = ["1", "2", "3", "4"]
            .iter()
            .flat_map(|a| ["1", "2"].map(|b| labels(&[("a", a), ("b", b)])))
            .chain([Labels::default(), labels(&[("b", "3")])])
            .collect();
        for seed in 0..200 {
            let mut dice = Dice::new(seed);
            let all: Vec<(usize, Reach)> = (0..12).map(|at| (at, reach(&mut dice))).collect();
            let taken = dice.below(1 << 12);
            let is_free = |at: &usize| taken & (1 << at) == 0;
            let offers = Offers::new(all.clone());
            for node in &nodes {
                let expected = all.iter().find(|(at, reach)| is_free(at) && reach.includes(node));
                assert_eq!(offers.best(node, is_free), expected.map(|(at, _)| at), "{seed} {node:?}");
            }
        }
    }
}
