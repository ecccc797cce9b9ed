//! An inverted index from labels to IDs, used for groups, selectors and held terms.

use std::hash::Hash;

use harbormaster_api::{
    Labels, Str,
    selector::{LabelSelector, Operator},
};
use rustc_hash::{FxHashMap, FxHashSet};

/// A label that a selector requires every matching pod to have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor<'a> {
    /// The key with one of these values.
    OneOf(&'a Str, &'a [Str]),
    /// The key with any value.
    Key(&'a Str),
}

/// Returns the anchors of a selector, or none if it requires no label.
pub(super) fn anchors(selector: &LabelSelector) -> impl Iterator<Item = Anchor<'_>> {
    let pairs = selector.match_labels.iter();
    let expressions = selector.match_expressions.iter().filter_map(|expression| match expression.operator {
        Operator::In => Some(Anchor::OneOf(&expression.key, &expression.values)),
        Operator::Exists => Some(Anchor::Key(&expression.key)),
        _ => None,
    });
    pairs.map(|(key, value)| Anchor::OneOf(key, std::slice::from_ref(value))).chain(expressions)
}

/// A slot of the map, which holds a set of IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LabelSlot<'a> {
    /// The slot of a label.
    Value(&'a Str, &'a Str),
    /// The slot of a key with any value.
    Key(&'a Str),
    /// The slot that belongs to no label. It holds the selectors that require no label, and all groups.
    Rest,
}

impl<'a> Anchor<'a> {
    /// Returns the slots in which a selector with this anchor is filed.
    pub(super) fn slots(self) -> impl Iterator<Item = LabelSlot<'a>> + Clone {
        let (key, values) = match self {
            Self::OneOf(key, values) => (key, values),
            Self::Key(key) => (key, [].as_slice()),
        };
        let under_key = matches!(self, Self::Key(_)).then_some(LabelSlot::Key(key));
        values.iter().map(move |value| LabelSlot::Value(key, value)).chain(under_key)
    }
}

/// Sets of IDs, one for each [`LabelSlot`]. Empty sets are dropped.
#[derive(Clone, Debug)]
pub(super) struct LabelMap<Id> {
    keys: FxHashMap<Str, Key<Id>>,
    rest: FxHashSet<Id>,
}

#[derive(Clone, Debug)]
struct Key<Id> {
    any_value: FxHashSet<Id>,
    values: FxHashMap<Str, FxHashSet<Id>>,
    /// Number of IDs in `values`.
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
    pub(super) fn insert(&mut self, slot: LabelSlot<'_>, id: Id) {
        match slot {
            LabelSlot::Value(key, value) => {
                let key = self.keys.entry(key.clone()).or_default();
                key.valued += usize::from(key.values.entry(value.clone()).or_default().insert(id));
            }
            LabelSlot::Key(key) => drop(self.keys.entry(key.clone()).or_default().any_value.insert(id)),
            LabelSlot::Rest => drop(self.rest.insert(id)),
        }
    }

    pub(super) fn remove(&mut self, slot: LabelSlot<'_>, id: Id) {
        let (LabelSlot::Value(name, _) | LabelSlot::Key(name)) = slot else {
            self.rest.remove(&id);
            return;
        };
        let Some(key) = self.keys.get_mut(name) else { return };
        match slot {
            LabelSlot::Value(_, value) => key.remove(value, id),
            _ => drop(key.any_value.remove(&id)),
        }
        if key.any_value.is_empty() && key.values.is_empty() {
            self.keys.remove(name);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.rest.is_empty()
    }

    /// Returns the number of IDs in a slot.
    pub(super) fn slot_len(&self, slot: LabelSlot<'_>) -> usize {
        self.set(slot).map_or(0, |set| set.len())
    }

    pub(super) fn contains(&self, slot: LabelSlot<'_>, id: Id) -> bool {
        self.set(slot).is_some_and(|set| set.contains(&id))
    }

    fn set(&self, slot: LabelSlot<'_>) -> Option<&FxHashSet<Id>> {
        match slot {
            LabelSlot::Value(key, value) => self.keys.get(key)?.values.get(value),
            LabelSlot::Key(key) => Some(&self.keys.get(key)?.any_value),
            LabelSlot::Rest => Some(&self.rest),
        }
    }

    /// Returns the IDs that may be relevant to a pod with these labels: the IDs under any of the labels or of their
    /// keys, and the IDs in [`LabelSlot::Rest`].
    pub(super) fn candidates_for(&self, labels: &Labels) -> impl Iterator<Item = Id> {
        // In a map without keys, which is common, there is no need to visit the labels.
        let pairs = (!self.keys.is_empty()).then(|| labels.iter()).into_iter().flatten();
        let keys = pairs.filter_map(|(key, value)| Some((self.keys.get(key)?, value)));
        let labelled = keys.flat_map(|(key, value)| {
            let of_value = key.values.get(value).into_iter().flatten();
            of_value.chain(&key.any_value)
        });
        labelled.chain(&self.rest).copied()
    }

    /// Returns the number of IDs under the labels of an anchor.
    pub(super) fn count(&self, anchor: Anchor<'_>) -> usize {
        match anchor {
            Anchor::OneOf(key, values) => {
                values.iter().map(|value| self.slot_len(LabelSlot::Value(key, value))).sum()
            }
            Anchor::Key(key) => self.keys.get(key).map_or(0, |key| key.valued),
        }
    }

    /// Returns the IDs under the labels of an anchor, or the IDs in [`LabelSlot::Rest`] if there is no anchor. For an
    /// [`Anchor::Key`], an ID is listed once for each value of the key that it is under.
    pub(super) fn under_anchor(&self, anchor: Option<Anchor<'_>>) -> Vec<Id> {
        let mut found: Vec<Id> = Vec::new();
        match anchor {
            Some(Anchor::OneOf(name, values)) => {
                let key = self.keys.get(name);
                let sets = values.iter().filter_map(|value| key?.values.get(value));
                sets.for_each(|set| found.extend(set));
                if values.len() > 1 {
                    // A selector may contain a value twice.
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

    /// Returns the number of IDs, counting each ID once per slot.
    pub(super) fn slots(&self) -> usize {
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
