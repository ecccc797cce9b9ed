//! How many connections there may be, and which gives way when there are too many.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// Connections at a time. Fewer than files that a process may have open where nobody has raised that limit.
pub(crate) const MOST: usize = 512;

/// All connections.
#[derive(Debug)]
pub(crate) struct Crowd {
    most: usize,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    by_age: BTreeMap<u64, Arc<Member>>,
    next: u64,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Member {
    number: u64,
    /// Requests that are being answered.
    busy: AtomicUsize,
    /// Whether a request was answered yet.
    served: AtomicBool,
    /// When the last request began or ended.
    active: Mutex<Instant>,
    leave: Notify,
    end_soon: Notify,
}

impl Crowd {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, members: Mutex::default() }
    }

    /// Takes a connection in. Where there are too many, one gives way: the oldest that has not sent a request yet, then
    /// the oldest that waits for its next one. `None` if all are busy.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Admitted> {
        let mut members = self.members();
        if members.by_age.len() >= self.most && !members.dismiss() {
            return None;
        }
        let number = members.next;
        members.next += 1;
        let member = Arc::new(Member {
            number,
            busy: AtomicUsize::new(0),
            served: AtomicBool::new(false),
            active: Mutex::new(Instant::now()),
            leave: Notify::new(),
            end_soon: Notify::new(),
        });
        members.by_age.insert(number, member.clone());
        Some(Admitted { crowd: self.clone(), member })
    }

    /// Somebody gives way, because the process has too many files open.
    pub(crate) fn dismiss(&self) -> bool {
        self.members().dismiss()
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    fn dismiss(&mut self) -> bool {
        let idle = || self.by_age.values().filter(|member| member.busy.load(Ordering::Relaxed) == 0);
        let silent = idle().find(|member| !member.served.load(Ordering::Relaxed));
        let Some(number) = silent.or_else(|| idle().next()).map(|member| member.number) else { return false };
        if let Some(member) = self.by_age.remove(&number) {
            member.leave.notify_one();
        }
        true
    }
}

/// A connection that belongs to the crowd until this value ends.
#[derive(Debug)]
pub(crate) struct Admitted {
    crowd: Arc<Crowd>,
    pub(crate) member: Arc<Member>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.crowd.members().by_age.remove(&self.member.number);
    }
}

impl Member {
    /// A request is being answered until the value ends.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.touch();
        Busy(self.clone())
    }

    /// No more requests are wanted of this connection.
    pub(crate) fn end_soon(&self) {
        self.end_soon.notify_one();
    }

    /// Resolves when this connection has to give way.
    pub(crate) async fn left(&self) {
        self.leave.notified().await;
    }

    /// Resolves when no more requests are wanted.
    pub(crate) async fn ending(&self) {
        self.end_soon.notified().await;
    }

    /// How long this connection may go on doing nothing, where `first` is the time for its first request and `next` that
    /// for every other.
    pub(crate) fn patience(&self, first: Duration, next: Duration) -> Duration {
        if self.busy.load(Ordering::Relaxed) > 0 {
            return next;
        }
        let limit = if self.served.load(Ordering::Relaxed) { next } else { first };
        let active = *self.active.lock().unwrap_or_else(PoisonError::into_inner);
        limit.saturating_sub(active.elapsed())
    }

    fn touch(&self) {
        *self.active.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Member>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.served.store(true, Ordering::Relaxed);
        self.0.touch();
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn who_has_not_asked_anything_gives_way_first_and_who_is_busy_never() {
        let crowd = Arc::new(Crowd::new(3));
        let asked = crowd.admit().unwrap();
        drop(asked.member.busy());
        let busy = crowd.admit().unwrap();
        let working = busy.member.busy();
        let silent = crowd.admit().unwrap();
        let has_left = |one: &Admitted| one.member.left().now_or_never().is_some();

        let fourth = crowd.admit().unwrap();
        assert!(has_left(&silent) && !has_left(&asked) && !has_left(&busy));
        let at_work = fourth.member.busy();
        let fifth = crowd.admit().unwrap();
        assert!(has_left(&asked) && !has_left(&busy));
        let _at_work_too = fifth.member.busy();
        assert!(crowd.admit().is_none());
        drop(working);
        let sixth = crowd.admit().unwrap();
        assert!(has_left(&busy) && !has_left(&fourth));
        drop((at_work, fourth, sixth));
        assert!(crowd.admit().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_request_has_less_time_than_the_next() {
        let (first, next) = (Duration::from_secs(30), Duration::from_secs(90));
        let crowd = Arc::new(Crowd::new(1));
        let one = crowd.admit().unwrap();
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(one.member.patience(first, next), Duration::from_secs(20));
        let busy = one.member.busy();
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(one.member.patience(first, next), next);
        drop(busy);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(one.member.patience(first, next), Duration::from_secs(80));
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(one.member.patience(first, next), Duration::ZERO);
    }
}
