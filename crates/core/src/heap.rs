//! A binary heap whose elements can be found, replaced and removed by key.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Elements ordered by a function that is handed in with every call; the smallest is on top.
#[derive(Debug)]
pub struct IndexedHeap<K, T> {
    items: Vec<(K, T)>,
    places: FxHashMap<K, usize>,
}

impl<K, T> Default for IndexedHeap<K, T> {
    fn default() -> Self {
        Self { items: Vec::new(), places: FxHashMap::default() }
    }
}

impl<K: Clone + Eq + Hash, T> IndexedHeap<K, T> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The element under `key`.
    pub fn get(&self, key: &K) -> Option<&T> {
        self.places.get(key).map(|at| &self.items[*at].1)
    }

    /// The smallest element.
    pub fn peek(&self) -> Option<&T> {
        self.items.first().map(|(_, item)| item)
    }

    /// All elements, in no useful order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|(_, item)| item)
    }

    /// Adds an element, or replaces the one under the same key.
    pub fn push(&mut self, key: K, item: T, less: impl Fn(&T, &T) -> bool) {
        match self.places.get(&key).copied() {
            Some(at) => {
                self.items[at].1 = item;
                self.restore(at, less);
            }
            None => {
                let at = self.items.len();
                self.places.insert(key.clone(), at);
                self.items.push((key, item));
                self.up(at, &less);
            }
        }
    }

    /// Takes the smallest element.
    pub fn pop(&mut self, less: impl Fn(&T, &T) -> bool) -> Option<T> {
        let key = self.items.first()?.0.clone();
        self.remove(&key, less)
    }

    /// Takes the element under `key`.
    pub fn remove(&mut self, key: &K, less: impl Fn(&T, &T) -> bool) -> Option<T> {
        let at = self.places.remove(key)?;
        let (_, item) = self.items.swap_remove(at);
        if at < self.items.len() {
            self.places.insert(self.items[at].0.clone(), at);
            self.restore(at, less);
        }
        Some(item)
    }

    fn restore(&mut self, at: usize, less: impl Fn(&T, &T) -> bool) {
        if !self.up(at, &less) {
            self.down(at, &less);
        }
    }

    fn up(&mut self, mut at: usize, less: &impl Fn(&T, &T) -> bool) -> bool {
        let from = at;
        while at > 0 {
            let parent = (at - 1) / 2;
            if !less(&self.items[at].1, &self.items[parent].1) {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
        at != from
    }

    fn down(&mut self, mut at: usize, less: &impl Fn(&T, &T) -> bool) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut child = left;
            if right < self.items.len() && less(&self.items[right].1, &self.items[left].1) {
                child = right;
            }
            if child >= self.items.len() || !less(&self.items[child].1, &self.items[at].1) {
                return;
            }
            self.swap(at, child);
            at = child;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
        for at in [a, b] {
            self.places.insert(self.items[at].0.clone(), at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_behaves_like_a_sorted_list(steps in prop::collection::vec((0u8..3, 0u8..20, any::<u16>()), 0..200)) {
            let less = |a: &(u16, u8), b: &(u16, u8)| a < b;
            let mut heap = IndexedHeap::default();
            let mut model: Vec<(u16, u8)> = Vec::new();
            for (what, key, value) in steps {
                match what {
                    0 => {
                        heap.push(key, (value, key), less);
                        model.retain(|(_, k)| *k != key);
                        model.push((value, key));
                    }
                    1 => {
                        let expected = model.iter().position(|(_, k)| *k == key).map(|at| model.remove(at));
                        prop_assert_eq!(heap.remove(&key, less), expected);
                    }
                    _ => {
                        model.sort_unstable();
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(heap.pop(less), expected);
                    }
                }
                prop_assert_eq!(heap.len(), model.len());
            }
        }
    }
}
