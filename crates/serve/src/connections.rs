//! Open connections: the limit on their number, and the choice of a connection to close when there are too many.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// Limit on the number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// No limit.
    Unlimited,
    /// At most this many connections. Further clients wait until a connection is closed.
    Wait(usize),
    /// At most this many connections. To admit a further client, an idle connection is closed: the oldest connection
    /// that has not had a request or, if there is none, the oldest connection between two requests. If all connections
    /// are busy, the new client is turned away.
    CloseIdle(usize),
}

/// All open connections.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    /// Number of open connections at which a further client causes an idle connection to be closed.
    most: usize,
    /// Permits of [`Admission::Wait`].
    places: Arc<Semaphore>,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    by_age: BTreeMap<u64, Arc<Connection>>,
    next: u64,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    number: u64,
    /// Number of requests in progress.
    busy: AtomicUsize,
    /// True if a request has been answered.
    served: AtomicBool,
    /// Time when the last request began or ended.
    active: Mutex<Instant>,
    close: Notify,
    close_soon: Notify,
}

impl ConnectionTable {
    pub(crate) fn new(admission: Admission) -> Self {
        let (most, places) = match admission {
            Admission::Unlimited => (usize::MAX, Semaphore::MAX_PERMITS),
            Admission::Wait(places) => (usize::MAX, places),
            Admission::CloseIdle(most) => (most, Semaphore::MAX_PERMITS),
        };
        Self { most, places: Arc::new(Semaphore::new(places)), open: Mutex::default() }
    }

    /// Waits until a connection may be accepted.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.places.clone().acquire_owned().await.ok()
    }

    /// Adds a connection; returns `None` if there are too many connections and all are busy.
    pub(crate) fn admit(self: &Arc<Self>, place: Option<OwnedSemaphorePermit>) -> Option<Admitted> {
        let mut open = self.open();
        if open.by_age.len() >= self.most && !open.close_idle() {
            return None;
        }
        let number = open.next;
        open.next += 1;
        let connection = Arc::new(Connection {
            number,
            busy: AtomicUsize::new(0),
            served: AtomicBool::new(false),
            active: Mutex::new(Instant::now()),
            close: Notify::new(),
            close_soon: Notify::new(),
        });
        open.by_age.insert(number, connection.clone());
        Some(Admitted { table: self.clone(), connection, _place: place })
    }

    /// Closes an idle connection if [`Admission::CloseIdle`] allows it. Called when no connection can be accepted,
    /// for example because the process has too many open files.
    pub(crate) fn relieve(&self) {
        if self.most < usize::MAX {
            self.open().close_idle();
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    /// Closes an idle connection. Returns false if there is none.
    fn close_idle(&mut self) -> bool {
        let idle = || self.by_age.values().filter(|one| one.busy.load(Ordering::Relaxed) == 0);
        let silent = idle().find(|one| !one.served.load(Ordering::Relaxed));
        let Some(number) = silent.or_else(|| idle().next()).map(|one| one.number) else { return false };
        if let Some(connection) = self.by_age.remove(&number) {
            connection.close.notify_one();
        }
        true
    }
}

/// A connection that remains in the table until this guard is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    table: Arc<ConnectionTable>,
    pub(crate) connection: Arc<Connection>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.table.open().by_age.remove(&self.connection.number);
    }
}

impl Connection {
    /// Marks a request as in progress until the returned guard is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.touch();
        Busy(self.clone())
    }

    /// Closes the connection as soon as the requests in progress are answered. New requests are refused.
    pub fn close_soon(&self) {
        self.close_soon.notify_one();
    }

    /// Resolves when this connection must be closed immediately.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }

    /// Resolves after [`Self::close_soon`].
    pub(crate) async fn closing(&self) {
        self.close_soon.notified().await;
    }

    /// Returns the time for which this connection may stay idle, given the time limits for its first request and for
    /// each later request.
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

/// A request in progress.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Connection>);

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
    async fn the_oldest_connection_without_a_request_is_closed_first_and_a_busy_one_never() {
        let table = Arc::new(ConnectionTable::new(Admission::CloseIdle(3)));
        let asked = table.admit(None).unwrap();
        drop(asked.connection.busy());
        let busy = table.admit(None).unwrap();
        let working = busy.connection.busy();
        let silent = table.admit(None).unwrap();
        let is_closed = |one: &Admitted| one.connection.closed().now_or_never().is_some();

        let fourth = table.admit(None).unwrap();
        assert!(is_closed(&silent) && !is_closed(&asked) && !is_closed(&busy));
        let at_work = fourth.connection.busy();
        let fifth = table.admit(None).unwrap();
        assert!(is_closed(&asked) && !is_closed(&busy));
        let _at_work_too = fifth.connection.busy();
        assert!(table.admit(None).is_none());
        drop(working);
        let sixth = table.admit(None).unwrap();
        assert!(is_closed(&busy) && !is_closed(&fourth));
        drop((at_work, fourth, sixth));
        assert!(table.admit(None).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_request_has_less_time_than_later_ones() {
        let (first, next) = (Duration::from_secs(30), Duration::from_secs(90));
        let table = Arc::new(ConnectionTable::new(Admission::CloseIdle(1)));
        let one = table.admit(None).unwrap();
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(one.connection.patience(first, next), Duration::from_secs(20));
        let busy = one.connection.busy();
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(one.connection.patience(first, next), next);
        drop(busy);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(one.connection.patience(first, next), Duration::from_secs(80));
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(one.connection.patience(first, next), Duration::ZERO);
    }
}
