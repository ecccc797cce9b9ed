//! Storage offers that are available on some nodes, with a lookup of the best offer for a node.

use std::{
    collections::BTreeMap,
    ops::Bound::{Included, Unbounded},
};

use harbormaster_api::{Labels, Str};
use rustc_hash::FxHashMap;

use super::reach::Reach;

/// Offers in the order of their keys, best first, each with its reach.
#[derive(Debug, PartialEq)]
pub(super) struct Offers<K: Ord, T> {
    /// Offers whose reach is one label, by key and value of the label.
    by_label: FxHashMap<Str, FxHashMap<Str, BTreeMap<K, T>>>,
    /// All other offers.
    others: BTreeMap<K, (Reach, T)>,
}

impl<K: Ord, T> Default for Offers<K, T> {
    fn default() -> Self {
        Self { by_label: FxHashMap::default(), others: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, T: Clone> Offers<K, T> {
    pub(super) fn insert(&mut self, key: &K, reach: &Reach, offer: &T) {
        match reach.one_label() {
            Some((label, values)) => {
                let by_value = self.by_label.entry(label.clone()).or_default();
                for value in values {
                    by_value.entry(value.clone()).or_default().insert(key.clone(), offer.clone());
                }
            }
            None => drop(self.others.insert(key.clone(), (reach.clone(), offer.clone()))),
        }
    }

    /// Removes the offer with this key and reach.
    pub(super) fn remove(&mut self, key: &K, reach: &Reach) {
        let Some((label, values)) = reach.one_label() else {
            self.others.remove(key);
            return;
        };
        let Some(by_value) = self.by_label.get_mut(label) else { return };
        for value in values {
            if let Some(offers) = by_value.get_mut(value) {
                offers.remove(key);
                if offers.is_empty() {
                    by_value.remove(value);
                }
            }
        }
        if by_value.is_empty() {
            self.by_label.remove(label);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_label.is_empty() && self.others.is_empty()
    }

    /// Returns the node labels under which there is a suitable offer whose key is at least `least`: each label key with
    /// its values. Returns `None` if the reach of some offer is not a single label.
    pub(super) fn labels(
        &self,
        least: &K,
        suits: impl Fn(&T) -> bool + Copy,
    ) -> Option<impl Iterator<Item = (&Str, impl Iterator<Item = &Str>)>> {
        let has_some = move |offers: &BTreeMap<K, T>| {
            offers.range((Included(least), Unbounded)).any(|(_, offer)| suits(offer))
        };
        self.others.is_empty().then(|| {
            self.by_label.iter().map(move |(label, by_value)| {
                let values = by_value.iter().filter(move |(_, offers)| has_some(offers));
                (label, values.map(|(value, _)| value))
            })
        })
    }

    /// Returns the best suitable offer for a node with these labels among the offers whose key is at least `least`.
    pub(super) fn best(&self, node: &Labels, least: &K, suits: impl Fn(&T) -> bool) -> Option<&T> {
        let from = (Included(least), Unbounded);
        let by_label = self.by_label.iter().filter_map(|(label, by_value)| {
            let here = by_value.get(node.get(label)?)?;
            here.range(from).find(|(_, offer)| suits(offer))
        });
        let mut others = self.others.range(from);
        let other = others.find(|(_, (reach, offer))| suits(offer) && reach.includes(node));
        let other = other.map(|(key, (_, offer))| (key, offer));
        by_label.chain(other).min_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, offer)| offer)
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
    fn the_best_offer_equals_the_result_of_a_search_in_order_after_any_changes() {
        let nodes: Vec<Labels> = ["1", "2", "3", "4"]
            .iter()
            .flat_map(|a| ["1", "2"].map(|b| labels(&[("a", a), ("b", b)])))
            .chain([Labels::default(), labels(&[("b", "3")])])
            .collect();
        for seed in 0..200 {
            let mut dice = Dice::new(seed);
            let all: Vec<(u64, Reach)> = (0..12).map(|at| (at, reach(&mut dice))).collect();
            let (taken, gone, least) = (dice.below(1 << 12), dice.below(1 << 12), dice.below(4));
            let is_there = |at: u64| gone & (1 << at) == 0;
            let suits = |at: &u64| taken & (1 << *at) == 0;
            let mut offers = Offers::default();
            all.iter().rev().for_each(|(at, reach)| offers.insert(at, reach, at));
            all.iter().filter(|(at, _)| !is_there(*at)).for_each(|(at, reach)| offers.remove(at, reach));
            let mut anew = Offers::default();
            let left = || all.iter().filter(|(at, _)| is_there(*at));
            left().for_each(|(at, reach)| anew.insert(at, reach, at));
            assert_eq!(offers, anew, "{seed}");
            for node in &nodes {
                let mut left = left().filter(|(at, _)| *at >= least);
                let expected = left.find(|(at, reach)| suits(at) && reach.includes(node));
                assert_eq!(offers.best(node, &least, suits), expected.map(|(at, _)| at), "{seed} {node:?}");
            }
            all.iter().for_each(|(at, reach)| offers.remove(at, reach));
            assert!(offers.is_empty(), "{seed}");
        }
    }
}
