//! Sets of connections that are used together and abandoned together.
//!
//! A proxy or a firewall can swallow packets while sockets stay open: no error occurs, and no data arrives. When one
//! request detects this, all connections in its set are abandoned, since connections over the same path die together.
//! The next request makes new connections. The table shows the longest time until a dead connection is detected:
//!
//! | request | time | detected by |
//! |---|---|---|
//! | any over HTTP/2 | 25 s | pings of the connection |
//! | watch over HTTP/1.1 | 35 s | the watch's requested timeout, which the caller must set |
//! | request for a new watch | 15 s | its time limit, which the caller must set |
//! | other request over HTTP/1.1 | 30 s ([`REQUEST_LIMIT`](crate::client::REQUEST_LIMIT)), or 5 s after a watch is found dead | its time limit |
//! | new connection | 10 s | the limit for connecting ([`crate::network`]) |
//!
//! Callers retry a request with an unknown outcome if the request may be repeated. If new connections succeed, a pod is
//! therefore bound at most about 36 s after the first packet was lost.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::Duration,
};

use tokio::{sync::watch, time::sleep};

use crate::network::Pool;

/// Time that a request may still take after a watch in the same set of connections is found dead. This is long enough
/// for an answer over a live connection.
pub(crate) const LAST_CHANCE: Duration = Duration::from_secs(5);

/// The connections that new requests use. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections(Arc<Mutex<Arc<ConnectionSet>>>);

/// Connections that are abandoned together.
#[derive(Debug)]
pub struct ConnectionSet {
    /// Created by the first request.
    pub(crate) pool: OnceLock<Pool>,
    /// True once a watch has been found dead.
    lost: watch::Sender<bool>,
}

impl Default for ConnectionSet {
    fn default() -> Self {
        Self { pool: OnceLock::new(), lost: watch::Sender::new(false) }
    }
}

impl ConnectionSet {
    /// Waits until a watch over these connections is found dead, then for [`LAST_CHANCE`].
    pub(crate) async fn are_lost(&self) {
        let mut lost = self.lost.subscribe();
        // The sender is in `self`, so this cannot fail.
        let _ = lost.wait_for(|lost| *lost).await;
        sleep(LAST_CHANCE).await;
    }
}

impl Connections {
    pub(crate) fn current(&self) -> Arc<ConnectionSet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes new requests use new connections instead of `set`. Returns false if new requests already use other
    /// connections.
    pub(crate) fn give_up(&self, set: &Arc<ConnectionSet>) -> bool {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = Arc::ptr_eq(&current, set);
        if is_current {
            *current = Arc::default();
        }
        is_current
    }

    /// Same as [`Self::give_up`], but also limits the time of requests in progress to [`LAST_CHANCE`].
    pub(crate) fn lose(&self, set: &Weak<ConnectionSet>) -> bool {
        // No request is in progress on connections that no longer exist.
        let Some(set) = set.upgrade() else { return false };
        set.lost.send_replace(true);
        self.give_up(&set)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn connections_are_abandoned_once() {
        let connections = Connections::default();
        let first = connections.current();
        assert!(connections.give_up(&first));
        let second = connections.current();
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(!connections.give_up(&first), "a late failure does not affect newer connections");
        assert!(Arc::ptr_eq(&second, &connections.current()));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_in_progress_have_a_last_chance_when_a_watch_is_lost() {
        let connections = Connections::default();
        let set = connections.current();
        let begun = Instant::now();
        let waiting = tokio::spawn({
            let set = set.clone();
            async move { set.are_lost().await }
        });
        sleep(Duration::from_secs(3)).await;
        assert!(connections.lose(&Arc::downgrade(&set)));
        waiting.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(3) + LAST_CHANCE);
        assert!(!connections.lose(&Weak::new()));
    }
}
