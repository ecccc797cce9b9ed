//! Connections are trusted together and given up together.
//!
//! A proxy or a firewall can swallow packets while sockets stay open: nothing breaks, and nothing comes any more. Who
//! notices gives up the whole age of connections, since those made over the same path are as dead; the next request
//! makes new ones. How long it takes until somebody notices:
//!
//! | what | noticed | by |
//! |---|---|---|
//! | watches over HTTP/2 | after 25 s at most | pings of the connection ([`crate::client`]) |
//! | watches over HTTP/1.1 | after 35 s at most | the end that they were asked to have ([`crate::watch`]) |
//! | a watch that is opened anew | after 15 s | its limit, the same |
//! | another request | after 30 s ([`crate::http::REQUEST_LIMIT`]), or 5 s ([`LAST_CHANCE`]) after a watch was found dead | its limit |
//! | a new connection | after 10 s | the limit for making one ([`crate::client`]) |
//!
//! A request whose fate is unknown then is sent again by those who may do that, so a pod is bound some 36 s after the
//! packets began to vanish at the latest, as soon as new connections come through.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::Duration,
};

use tokio::{sync::watch, time::sleep};

use crate::client::Pools;

/// How long a request may still take after a watch of its age was found dead. One that lives is answered by then.
pub(crate) const LAST_CHANCE: Duration = Duration::from_secs(5);

/// The age that new requests belong to. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ages(Arc<Mutex<Arc<Age>>>);

/// Connections that were made in the same span of time.
#[derive(Debug)]
pub(crate) struct Age {
    /// Made by the first request.
    pub(crate) pools: OnceLock<Pools>,
    /// Whether a watch was found dead.
    lost: watch::Sender<bool>,
}

impl Default for Age {
    fn default() -> Self {
        Self { pools: OnceLock::new(), lost: watch::Sender::new(false) }
    }
}

impl Age {
    /// Waits until there is no more reason to wait for a reply.
    pub(crate) async fn is_over(&self) {
        let mut lost = self.lost.subscribe();
        // The sender is in `self`.
        let _ = lost.wait_for(|lost| *lost).await;
        sleep(LAST_CHANCE).await;
    }
}

impl Ages {
    pub(crate) fn current(&self) -> Arc<Age> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// New requests use new connections, if they have not before. Returns whether that is news.
    pub(crate) fn give_up(&self, age: &Arc<Age>) -> bool {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let news = Arc::ptr_eq(&current, age);
        if news {
            *current = Arc::default();
        }
        news
    }

    /// [`Self::give_up`], and requests under way are waited for no longer than [`LAST_CHANCE`].
    pub(crate) fn lose(&self, age: &Weak<Age>) -> bool {
        // Nothing is under way in an age that nobody holds.
        let Some(age) = age.upgrade() else { return false };
        age.lost.send_replace(true);
        self.give_up(&age)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn an_age_is_given_up_once() {
        let ages = Ages::default();
        let first = ages.current();
        assert!(ages.give_up(&first));
        let second = ages.current();
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(!ages.give_up(&first), "what is late says nothing about newer connections");
        assert!(Arc::ptr_eq(&second, &ages.current()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_when_a_watch_is_lost_has_a_last_chance() {
        let ages = Ages::default();
        let age = ages.current();
        let begun = Instant::now();
        let waiting = tokio::spawn({
            let age = age.clone();
            async move { age.is_over().await }
        });
        sleep(Duration::from_secs(3)).await;
        assert!(ages.lose(&Arc::downgrade(&age)));
        waiting.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(3) + LAST_CHANCE);
        assert!(!ages.lose(&Weak::new()));
    }
}
