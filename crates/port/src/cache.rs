//! A cache of answers that expire.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Maximum number of cached answers, as in kube-scheduler; beyond it, the oldest answer is removed.
const MAX_ANSWERS: usize = 8192;

/// Answers, keyed by question. An answer is returned until it expires, unless newer answers have displaced it.
#[derive(Debug)]
pub(crate) struct Cache<K, V>(Mutex<Inner<K, V>>);

#[derive(Debug)]
struct Inner<K, V> {
    answers: HashMap<K, (V, Instant)>,
    /// Key and expiry time of every answer, and of answers that newer answers have replaced, oldest first.
    order: VecDeque<(K, Instant)>,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Inner { answers: HashMap::new(), order: VecDeque::new() }))
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (value, until) = inner.answers.get(key)?;
        (Instant::now() < *until).then(|| value.clone())
    }

    /// Caches an answer for `time`. Does nothing if `time` is zero.
    pub(crate) fn put(&self, key: K, value: V, time: Duration) {
        if time.is_zero() {
            return;
        }
        let Some(until) = Instant::now().checked_add(time) else { return };
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.answers.insert(key.clone(), (value, until));
        inner.order.push_back((key, until));
        while inner.order.len() > MAX_ANSWERS {
            let Some((oldest, until)) = inner.order.pop_front() else { return };
            // A newer answer to the same question has a different expiry time and is kept.
            if inner.answers.get(&oldest).is_some_and(|(_, kept)| *kept == until) {
                inner.answers.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_until_it_expires() {
        let cache = Cache::default();
        cache.put("long", 1, Duration::from_secs(10));
        cache.put("short", 2, Duration::from_secs(1));
        cache.put("never", 3, Duration::ZERO);
        assert_eq!((cache.get(&"long"), cache.get(&"short"), cache.get(&"never")), (Some(1), Some(2), None));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!((cache.get(&"long"), cache.get(&"short")), (Some(1), None));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_answers_are_removed() {
        let cache = Cache::default();
        let time = Duration::from_secs(10);
        cache.put(0, 0, time);
        for key in 1..=MAX_ANSWERS {
            tokio::time::advance(Duration::from_micros(1)).await;
            cache.put(key, key, time);
        }
        assert_eq!(
            (cache.get(&0), cache.get(&1), cache.get(&MAX_ANSWERS)),
            (None, Some(1), Some(MAX_ANSWERS))
        );
        assert!(cache.0.lock().unwrap().answers.len() <= MAX_ANSWERS);
    }
}
