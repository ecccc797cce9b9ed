//! Connections are trusted together and given up together.
//!
//! A proxy or a firewall can swallow packets while sockets stay open: no error occurs, and no data arrives. When one request
//! notices, all connections of that time are given up, since those over the same path are dead, too; the next request
//! makes new ones. The longest time until a dead connection is noticed:
//!
//! | request | time | noticed by |
//! |---|---|---|
//! | watch over HTTP/2 | 25 s | pings of the connection ([`crate::network`]) |
//! | watch over HTTP/1.1 | 35 s | its agreed end, which the caller must set |
//! | watch that is being reopened | 15 s | its time limit, which the caller must set |
//! | other request | 30 s ([`REQUEST_LIMIT`](crate::client::REQUEST_LIMIT)), or 5 s after a watch was found dead | its time limit |
//! | new connection | 10 s | the limit for connecting ([`crate::network`]) |
//!
//! Callers that may repeat a request whose fate is unknown do so, so a pod is bound at most some 36 s after packets began to
//! vanish, as soon as new connections come through.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::Duration,
};

use tokio::{sync::watch, time::sleep};

use crate::network::Pools;

/// Time that a request may still take after a watch over the same connections was found dead. A live one is answered by then.
pub(crate) const LAST_CHANCE: Duration = Duration::from_secs(5);

/// The connections that new requests use. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections(Arc<Mutex<Arc<ConnectionSet>>>);

/// Connections that were made in the same span of time.
#[derive(Debug)]
pub struct ConnectionSet {
    /// Made by the first request.
    pub(crate) pools: OnceLock<Pools>,
    /// True once a watch was found dead.
    lost: watch::Sender<bool>,
}

impl Default for ConnectionSet {
    fn default() -> Self {
        Self { pools: OnceLock::new(), lost: watch::Sender::new(false) }
    }
}

impl ConnectionSet {
    /// Waits until there is no more reason to wait for a response.
    pub(crate) async fn are_lost(&self) {
        let mut lost = self.lost.subscribe();
        // The sender is in `self`.
        let _ = lost.wait_for(|lost| *lost).await;
        sleep(LAST_CHANCE).await;
    }
}

impl Connections {
    pub(crate) fn current(&self) -> Arc<ConnectionSet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes new requests use new connections. Returns false if they do already.
    pub(crate) fn give_up(&self, set: &Arc<ConnectionSet>) -> bool {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = Arc::ptr_eq(&current, set);
        if is_current {
            *current = Arc::default();
        }
        is_current
    }

    /// Does the same, and limits the time of requests under way to [`LAST_CHANCE`].
    pub(crate) fn lose(&self, set: &Weak<ConnectionSet>) -> bool {
        // No request is under way on connections that are gone.
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
    fn connections_are_given_up_once() {
        let connections = Connections::default();
        let first = connections.current();
        assert!(connections.give_up(&first));
        let second = connections.current();
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(!connections.give_up(&first), "what is late says nothing about newer connections");
        assert!(Arc::ptr_eq(&second, &connections.current()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_when_a_watch_is_lost_has_a_last_chance() {
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
