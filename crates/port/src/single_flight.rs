//! Calls shared by concurrent callers that ask the same question.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::OnceCell;

/// The calls in progress, keyed by question.
#[derive(Debug)]
pub(crate) struct SingleFlight<K: Eq + Hash, V>(Mutex<HashMap<K, Arc<OnceCell<V>>>>);

impl<K: Eq + Hash, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, V: Clone> SingleFlight<K, V> {
    /// Returns the answer of `ask`, or the answer of a call in progress for the same question. If that call is dropped
    /// before it has an answer, the next waiting caller makes its own call.
    pub(crate) async fn answer(&self, key: K, ask: impl Future<Output = V>) -> V {
        let cell = self.lock().entry(key.clone()).or_default().clone();
        let waiting = Waiter { all: self, key, cell };
        waiting.cell.get_or_init(|| ask).await.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<K, Arc<OnceCell<V>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that waits for an answer. The last waiter to be dropped removes the question.
struct Waiter<'a, K: Clone + Eq + Hash, V: Clone> {
    all: &'a SingleFlight<K, V>,
    key: K,
    cell: Arc<OnceCell<V>>,
}

impl<K: Clone + Eq + Hash, V: Clone> Drop for Waiter<'_, K, V> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        // One reference is in the map, and the waiter itself holds the other.
        if Arc::strong_count(&self.cell) <= 2 {
            all.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_with_the_same_question_share_an_answer_and_nothing_is_left_behind() {
        let (together, asked) = (SingleFlight::default(), AtomicUsize::new(0));
        let ask = async |key: &'static str| {
            let ask = async {
                sleep(Duration::from_secs(1)).await;
                asked.fetch_add(1, Ordering::Relaxed)
            };
            together.answer(key, ask).await
        };
        let (first, second, other, third) = tokio::join!(ask("a"), ask("a"), ask("b"), ask("a"));
        assert!(first == second && second == third && third != other);
        assert_eq!(ask("a").await, 2, "the question is asked again later");
        assert!(together.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_caller_asks_when_the_first_gives_up() {
        let together = SingleFlight::default();
        let ask = async |answer: u32| {
            let ask = async {
                sleep(Duration::from_secs(10)).await;
                answer
            };
            together.answer("a", ask).await
        };
        let (first, second) = tokio::join!(timeout(Duration::from_secs(1), ask(1)), ask(2));
        assert_eq!((first.ok(), second), (None, 2));
        assert!(together.lock().is_empty());
    }
}
