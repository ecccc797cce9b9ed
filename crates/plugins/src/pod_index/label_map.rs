//! Numbers found by labels: the inverted index behind groups, selectors and held terms.

use std::hash::Hash;

use harbormaster_api::{
    Labels, Str,
    selector::{LabelSelector, Operator},
};
use rustc_hash::{FxHashMap, FxHashSet};

/// A label that every pod has which a selector selects.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor<'a> {
    /// The key with one of these values.
    OneOf(&'a Str, &'a [Str]),
    /// The key with any value.
    Key(&'a Str),
}

/// The anchors of a selector; none if it names no label that pods must have.
pub(super) fn anchors(selector: &LabelSelector) -> impl Iterator<Item = Anchor<'_>> {
    let pairs = selector.match_labels.iter();
    let expressions = selector.match_expressions.iter().filter_map(|expression| match expression.operator {
        Operator::In => Some(Anchor::OneOf(&expression.key, &expression.values)),
        Operator::Exists => Some(Anchor::Key(&expression.key)),
        _ => None,
    });
    pairs.map(|(key, value)| Anchor::OneOf(key, std::slice::from_ref(value))).chain(expressions)
}

/// Where a number stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place<'a> {
    /// Under a label.
    Value(&'a Str, &'a Str),
    /// Under a key, whatever its value.
    Key(&'a Str),
    /// Under nothing.
    Rest,
}

impl<'a> Anchor<'a> {
    /// Where a selector stands that is found by this anchor.
    pub(super) fn places(self) -> impl Iterator<Item = Place<'a>> + Clone {
        let (key, values) = match self {
            Self::OneOf(key, values) => (key, values),
            Self::Key(key) => (key, [].as_slice()),
        };
        let under_key = matches!(self, Self::Key(_)).then_some(Place::Key(key));
        values.iter().map(move |value| Place::Value(key, value)).chain(under_key)
    }
}

/// Sets of numbers under labels, under label keys, and under nothing. Empty sets are forgotten.
#[derive(Clone, Debug)]
pub(super) struct LabelMap<Id> {
    keys: FxHashMap<Str, Key<Id>>,
    rest: FxHashSet<Id>,
}

#[derive(Clone, Debug)]
struct Key<Id> {
    any_value: FxHashSet<Id>,
    values: FxHashMap<Str, FxHashSet<Id>>,
    /// How many numbers are under values.
    valued: usize,
}

impl<Id> Default for LabelMap<Id> {
    fn default() -> Self {
        Self { keys: FxHashMap::default(), rest: FxHashSet::default() }
    }
}

impl<Id> Default for Key<Id> {
    fn default() -> Self {
        Self { any_value: FxHashSet::default(), values: FxHashMap::default(), valued: 0 }
    }
}

impl<Id: Copy + Ord + Hash> LabelMap<Id> {
    pub(super) fn insert(&mut self, place: Place<'_>, id: Id) {
        match place {
            Place::Value(key, value) => {
                let key = self.keys.entry(key.clone()).or_default();
                key.valued += usize::from(key.values.entry(value.clone()).or_default().insert(id));
            }
            Place::Key(key) => drop(self.keys.entry(key.clone()).or_default().any_value.insert(id)),
            Place::Rest => drop(self.rest.insert(id)),
        }
    }

    pub(super) fn remove(&mut self, place: Place<'_>, id: Id) {
        let (Place::Value(name, _) | Place::Key(name)) = place else {
            self.rest.remove(&id);
            return;
        };
        let Some(key) = self.keys.get_mut(name) else { return };
        match place {
            Place::Value(_, value) => key.remove(value, id),
            _ => drop(key.any_value.remove(&id)),
        }
        if key.any_value.is_empty() && key.values.is_empty() {
            self.keys.remove(name);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.rest.is_empty()
    }

    /// How many numbers stand in a place.
    pub(super) fn crowd(&self, place: Place<'_>) -> usize {
        self.set(place).map_or(0, |set| set.len())
    }

    pub(super) fn contains(&self, place: Place<'_>, id: Id) -> bool {
        self.set(place).is_some_and(|set| set.contains(&id))
    }

    fn set(&self, place: Place<'_>) -> Option<&FxHashSet<Id>> {
        match place {
            Place::Value(key, value) => self.keys.get(key)?.values.get(value),
            Place::Key(key) => Some(&self.keys.get(key)?.any_value),
            Place::Rest => Some(&self.rest),
        }
    }

    /// What may concern a pod with these labels: what stands under one of them, under a key of theirs, or under nothing.
    pub(super) fn about(&self, labels: &Labels) -> impl Iterator<Item = Id> {
        // Most maps are empty, or know few keys: then the labels need not be looked at.
        let pairs = (!self.keys.is_empty()).then(|| labels.iter()).into_iter().flatten();
        let keys = pairs.filter_map(|(key, value)| Some((self.keys.get(key)?, value)));
        let labelled = keys.flat_map(|(key, value)| {
            let of_value = key.values.get(value).into_iter().flatten();
            of_value.chain(&key.any_value)
        });
        labelled.chain(&self.rest).copied()
    }

    /// How many numbers stand under labels that an anchor names.
    pub(super) fn count(&self, anchor: Anchor<'_>) -> usize {
        match anchor {
            Anchor::OneOf(key, values) => {
                values.iter().map(|value| self.crowd(Place::Value(key, value))).sum()
            }
            Anchor::Key(key) => self.keys.get(key).map_or(0, |key| key.valued),
        }
    }

    /// What stands under labels that an anchor names, or, without one, under nothing; each once if it stands under one
    /// value of a key.
    pub(super) fn under(&self, anchor: Option<Anchor<'_>>) -> Vec<Id> {
        let mut found: Vec<Id> = Vec::new();
        match anchor {
            Some(Anchor::OneOf(name, values)) => {
                let key = self.keys.get(name);
                let sets = values.iter().filter_map(|value| key?.values.get(value));
                sets.for_each(|set| found.extend(set));
                if values.len() > 1 {
                    // A selector may name a value twice.
                    found.sort_unstable();
                    found.dedup();
                }
            }
            Some(Anchor::Key(name)) => {
                let sets = self.keys.get(name).into_iter().flat_map(|key| key.values.values());
                sets.for_each(|set| found.extend(set));
            }
            None => found.extend(&self.rest),
        }
        found
    }

    /// How many numbers there are, each as often as it has places.
    pub(super) fn places(&self) -> usize {
        let of_key =
            |key: &Key<Id>| key.any_value.len() + key.values.values().map(|set| set.len()).sum::<usize>();
        self.rest.len() + self.keys.values().map(of_key).sum::<usize>()
    }
}

impl<Id: Copy + Ord + Hash> Key<Id> {
    fn remove(&mut self, value: &Str, id: Id) {
        let Some(set) = self.values.get_mut(value) else { return };
        self.valued -= usize::from(set.remove(&id));
        if set.is_empty() {
            self.values.remove(value);
        }
    }
}
