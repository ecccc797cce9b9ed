//! A binary heap whose elements can be found, replaced and removed by key.

use std::{hash::Hash, sync::Arc};

use rustc_hash::FxHashMap;

/// The order of a heap.
pub trait Order<T> {
    /// Returns true if `a` comes before `b`.
    fn before(&self, a: &T, b: &T) -> bool;
}

impl<T, O: Order<T>> Order<T> for Arc<O> {
    fn before(&self, a: &T, b: &T) -> bool {
        (**self).before(a, b)
    }
}

/// Elements in the order `O`; the first one is on top.
#[derive(Debug)]
pub struct IndexedHeap<K, T, O> {
    items: Vec<(K, T)>,
    positions: FxHashMap<K, usize>,
    order: O,
}

impl<K: Clone + Eq + Hash, T, O: Order<T>> IndexedHeap<K, T, O> {
    /// Creates an empty heap.
    pub fn new(order: O) -> Self {
        Self { items: Vec::new(), positions: FxHashMap::default(), order }
    }

    /// The heap's order.
    pub fn order(&self) -> &O {
        &self.order
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the element with the given key.
    pub fn get(&self, key: &K) -> Option<&T> {
        self.positions.get(key).map(|at| &self.items[*at].1)
    }

    /// The first element.
    pub fn peek(&self) -> Option<&T> {
        self.items.first().map(|(_, item)| item)
    }

    /// All elements in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|(_, item)| item)
    }

    /// Adds an element or replaces the one with the same key.
    pub fn push(&mut self, key: K, item: T) {
        match self.positions.get(&key).copied() {
            Some(at) => {
                self.items[at].1 = item;
                self.restore(at);
            }
            None => {
                let at = self.items.len();
                self.positions.insert(key.clone(), at);
                self.items.push((key, item));
                self.up(at);
            }
        }
    }

    /// Takes the first element.
    pub fn pop(&mut self) -> Option<T> {
        let key = self.items.first()?.0.clone();
        self.remove(&key)
    }

    /// Takes the element with the given key.
    pub fn remove(&mut self, key: &K) -> Option<T> {
        let at = self.positions.remove(key)?;
        let (_, item) = self.items.swap_remove(at);
        if at < self.items.len() {
            self.positions.insert(self.items[at].0.clone(), at);
            self.restore(at);
        }
        Some(item)
    }

    /// Changes all elements, and restores the order.
    pub fn change_all(&mut self, change: impl Fn(&O, &mut T)) {
        for (_, item) in &mut self.items {
            change(&self.order, item);
        }
        (0..self.items.len() / 2).rev().for_each(|at| self.down(at));
    }

    fn before(&self, a: usize, b: usize) -> bool {
        self.order.before(&self.items[a].1, &self.items[b].1)
    }

    fn restore(&mut self, at: usize) {
        if !self.up(at) {
            self.down(at);
        }
    }

    fn up(&mut self, mut at: usize) -> bool {
        let from = at;
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.before(at, parent) {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
        at != from
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut child = left;
            if right < self.items.len() && self.before(right, left) {
                child = right;
            }
            if child >= self.items.len() || !self.before(child, at) {
                return;
            }
            self.swap(at, child);
            at = child;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
        for at in [a, b] {
            self.positions.insert(self.items[at].0.clone(), at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Natural;

    impl Order<(u16, u8)> for Natural {
        fn before(&self, a: &(u16, u8), b: &(u16, u8)) -> bool {
            a < b
        }
    }

    proptest! {
        #[test]
        fn heap_behaves_like_a_sorted_list(steps in prop::collection::vec((0u8..4, 0u8..20, any::<u16>()), 0..200)) {
            let mut heap = IndexedHeap::new(Natural);
            let mut model: Vec<(u16, u8)> = Vec::new();
            for (what, key, value) in steps {
                match what {
                    0 => {
                        heap.push(key, (value, key));
                        model.retain(|(_, k)| *k != key);
                        model.push((value, key));
                    }
                    1 => {
                        let expected = model.iter().position(|(_, k)| *k == key).map(|at| model.remove(at));
                        prop_assert_eq!(heap.remove(&key), expected);
                    }
                    2 => {
                        let changed = |item: (u16, u8)| (item.0 ^ value, item.1);
                        heap.change_all(|_, item| *item = changed(*item));
                        model.iter_mut().for_each(|item| *item = changed(*item));
                    }
                    _ => {
                        model.sort_unstable();
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(heap.pop(), expected);
                    }
                }
                prop_assert_eq!(heap.len(), model.len());
            }
        }
    }
}
