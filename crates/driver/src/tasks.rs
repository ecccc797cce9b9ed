//! Tasks that run concurrently, except that tasks with the same key run in order.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::BoxFuture;
use harbormaster_api::Str;
use rustc_hash::FxHashMap;
use tokio::sync::{Semaphore, mpsc};

/// Starts tasks whose completion can be awaited.
#[derive(Clone, Debug)]
pub struct Tasks {
    alive: mpsc::Sender<()>,
}

/// A handle that waits until all [`Tasks`] handles are gone and all tasks have ended.
#[derive(Debug)]
pub struct AllDone(mpsc::Receiver<()>);

impl Tasks {
    /// Returns a spawner and a handle that waits for all of the spawner's tasks.
    pub fn new() -> (Self, AllDone) {
        let (alive, done) = mpsc::channel(1);
        (Self { alive }, AllDone(done))
    }

    /// Runs `work` as a task.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let alive = self.alive.clone();
        tokio::spawn(async move {
            work.await;
            drop(alive);
        });
    }
}

impl AllDone {
    /// Waits for all tasks.
    pub async fn wait(mut self) {
        while self.0.recv().await.is_some() {}
    }
}

type Job = BoxFuture<'static, ()>;

/// Runs jobs as tasks: jobs with the same key in order, jobs with different keys concurrently, and at most `width` jobs
/// at the same time.
pub struct KeyedTaskQueue {
    tasks: Tasks,
    width: Semaphore,
    /// Maps each key with a running job to the jobs that wait for it.
    queues: Mutex<FxHashMap<Str, VecDeque<Job>>>,
}

impl KeyedTaskQueue {
    /// Returns a queue that runs at most `width` jobs at the same time.
    pub fn new(tasks: Tasks, width: usize) -> Arc<Self> {
        Arc::new(Self { tasks, width: Semaphore::new(width), queues: Mutex::default() })
    }

    /// Runs `job` after all earlier jobs with the same `key`.
    pub fn run(self: &Arc<Self>, key: &Str, job: impl Future<Output = ()> + Send + 'static) {
        let job: Job = Box::pin(job);
        let mut queues = self.queues();
        if let Some(queue) = queues.get_mut(key) {
            queue.push_back(job);
            return;
        }
        queues.insert(key.clone(), VecDeque::new());
        drop(queues);
        self.tasks.spawn(self.clone().drain(key.clone(), job));
    }

    async fn drain(self: Arc<Self>, key: Str, first: Job) {
        let mut next = Some(first);
        while let Some(job) = next {
            // The semaphore is never closed, so acquiring a permit cannot fail.
            let permit = self.width.acquire().await;
            job.await;
            drop(permit);
            next = self.next(&key);
        }
    }

    fn next(&self, key: &Str) -> Option<Job> {
        let mut queues = self.queues();
        let next = queues.get_mut(key).and_then(VecDeque::pop_front);
        if next.is_none() {
            queues.remove(key);
        }
        next
    }

    fn queues(&self) -> MutexGuard<'_, FxHashMap<Str, VecDeque<Job>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn jobs_with_one_key_keep_their_order_and_other_jobs_do_not_wait_for_them() {
        let (tasks, done) = Tasks::new();
        let queue = KeyedTaskQueue::new(tasks, 8);
        let log = Arc::new(Mutex::new(Vec::new()));
        for (key, name, millis) in [("a", "a1", 50), ("a", "a2", 1), ("b", "b1", 10)] {
            let log = log.clone();
            queue.run(&key.into(), async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                log.lock().unwrap().push(name);
            });
        }
        drop(queue);
        done.wait().await;
        assert_eq!(*log.lock().unwrap(), ["b1", "a1", "a2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_concurrent_jobs_is_limited_to_the_width() {
        let (tasks, done) = Tasks::new();
        let queue = KeyedTaskQueue::new(tasks, 2);
        let begun = tokio::time::Instant::now();
        for key in ["a", "b", "c", "d"] {
            queue.run(&key.into(), async { tokio::time::sleep(Duration::from_secs(1)).await });
        }
        drop(queue);
        done.wait().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(2));
    }
}
