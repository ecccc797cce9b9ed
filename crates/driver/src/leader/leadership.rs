//! The leadership of this instance, and its end.

use std::{
    future::{pending, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use harbormaster_client::WriteGate;
use tokio::{sync::watch, time::Instant};

/// The leadership of this instance. Clones share it.
///
/// Leadership is the [`WriteGate`] of the clients: requests that write are sent only while this instance is the leader,
/// and they are canceled when its term ends.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<watch::Sender<Term>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    /// Not the leader yet.
    Standby,
    /// Always the leader, without leader election.
    Always,
    /// The leader until this time; renewals extend it.
    Until(Instant),
    /// No longer the leader, permanently.
    Over,
}

impl Term {
    fn lasts(self) -> bool {
        match self {
            Self::Always => true,
            Self::Until(end) => Instant::now() < end,
            Self::Standby | Self::Over => false,
        }
    }
}

impl Default for Leadership {
    /// Returns the leadership of a standby.
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Term::Standby)))
    }
}

impl Leadership {
    /// Returns a leadership that never ends, for use without leader election.
    pub fn always() -> Self {
        Self(Arc::new(watch::Sender::new(Term::Always)))
    }

    /// Returns true if this instance is the leader, which is the value of the metric `leader_election_master_status`.
    pub fn is_leading(&self) -> bool {
        self.0.borrow().lasts()
    }

    /// Begins a leadership that never ends.
    pub(crate) fn begin_for_good(&self) {
        self.enter(Term::Always);
    }

    /// Begins or extends the leadership.
    pub(crate) fn lead_until(&self, end: Instant) {
        self.enter(Term::Until(end));
    }

    /// Ends the leadership.
    pub(crate) fn end(&self) {
        self.enter(Term::Over);
    }

    fn enter(&self, next: Term) {
        self.0.send_if_modified(|term| {
            let changes = *term != Term::Over && *term != next;
            if changes {
                *term = next;
            }
            changes
        });
    }

    /// Waits until this instance is the leader.
    pub(crate) async fn begins(&self) {
        let mut term = self.0.subscribe();
        // The sender is in `self`, so this cannot fail.
        let _ = term.wait_for(|term| term.lasts()).await;
    }

    /// Waits until this instance is not the leader; resolves immediately if it is not the leader yet. Reads the clock
    /// at each poll, since timers fire late in a process that was paused for a while.
    pub(crate) async fn is_over(&self) {
        if *self.0.borrow() == Term::Always {
            return pending().await;
        }
        let mut term = self.0.subscribe();
        let mut ends = pin!(term.wait_for(|term| !term.lasts()));
        poll_fn(|cx| match self.is_leading() {
            true => ends.as_mut().poll(cx).map(drop),
            false => Poll::Ready(()),
        })
        .await;
    }
}

impl WriteGate for Leadership {
    fn is_open(&self) -> bool {
        self.is_leading()
    }

    fn closed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.is_over())
    }

    fn reason(&self) -> &'static str {
        "this instance is not the leader"
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use harbormaster_client::{
        ApiClient, ApiError, RateLimiter,
        body::RequestBody,
        fake_server::{FakeServer, reply},
    };
    use http::Request;
    use http_body_util::BodyExt;
    use tokio::time::{advance, sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_term_ends_by_the_clock_unless_it_is_extended() {
        let leadership = Leadership::default();
        assert!(!leadership.is_leading());
        leadership.lead_until(Instant::now() + 3 * SECOND);
        advance(2 * SECOND).await;
        assert!(leadership.is_leading());
        leadership.lead_until(Instant::now() + 3 * SECOND);
        advance(2 * SECOND).await;
        assert!(leadership.is_leading());
        advance(SECOND).await;
        assert!(!leadership.is_leading());
        timeout(SECOND, leadership.is_over()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_leadership_that_has_ended_does_not_begin_again() {
        let leadership = Leadership::default();
        leadership.lead_until(Instant::now() + SECOND);
        leadership.end();
        leadership.lead_until(Instant::now() + SECOND);
        leadership.begin_for_good();
        assert!(!leadership.is_leading());
    }

    #[tokio::test(start_paused = true)]
    async fn the_beginning_and_end_of_a_leadership_can_be_awaited() {
        let leadership = Leadership::default();
        assert!(timeout(SECOND, leadership.begins()).await.is_err());
        timeout(SECOND, leadership.is_over()).await.unwrap();
        let waiting = tokio::spawn({
            let leadership = leadership.clone();
            async move {
                leadership.begins().await;
                leadership.is_over().await;
            }
        });
        leadership.lead_until(Instant::now() + 10 * SECOND);
        advance(SECOND).await;
        assert!(!waiting.is_finished());
        leadership.end();
        timeout(SECOND, waiting).await.unwrap().unwrap();
        assert!(timeout(SECOND, Leadership::always().is_over()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_that_is_not_the_leader_may_read_but_not_write() {
        let server = FakeServer::always(|_| reply(200, "{}"));
        let leadership = Leadership::default();
        let client = server.client().with_gate(Arc::new(leadership.clone()));
        let error = client.post("/x?y", Bytes::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "POST /x: this instance is not the leader");
        assert!(!error.is_passing() && error.code().is_none());
        client.get("/x").await.unwrap();
        leadership.lead_until(Instant::now() + Duration::from_secs(10));
        client.post("/x", Bytes::new()).await.unwrap();
        leadership.end();
        assert!(client.delete("/x", Bytes::new()).await.is_err());
        let methods: Vec<_> = server.requests().into_iter().map(|request| request.method).collect();
        assert_eq!(methods, ["GET", "POST"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_waits_for_the_limiter_when_leadership_ends_is_not_sent() {
        let server = FakeServer::always(|_| reply(200, "{}"));
        let leadership = Leadership::default();
        leadership.lead_until(Instant::now() + Duration::from_secs(2));
        let limited =
            server.client().with_limiter(RateLimiter::new(1.0, 1)).with_gate(Arc::new(leadership.clone()));
        let writes = (0..6).map(|_| limited.post("/x", Bytes::new()));
        let outcomes = futures_util::future::join_all(writes).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 2);
        assert_eq!(server.requests().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_whose_body_is_read_after_leadership_has_ended_is_not_sent() {
        let leadership = Leadership::default();
        leadership.lead_until(Instant::now() + Duration::from_secs(10));
        let ending = leadership.clone();
        let client = ApiClient::over(tower::service_fn(move |request: Request<RequestBody>| {
            ending.end();
            async { request.into_body().collect().await.map(|_| reply(200, "{}")) }
        }));
        let client = client.with_gate(Arc::new(leadership));
        let error = client.post("/x", Bytes::from_static(b"{}")).await.unwrap_err();
        assert!(error.to_string().ends_with("this instance is not the leader"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_in_progress_is_canceled_when_leadership_ends() {
        let client = ApiClient::over(tower::service_fn(|_| async { std::future::pending().await }));
        let leadership = Leadership::default();
        leadership.lead_until(Instant::now() + Duration::from_secs(10));
        let (client, begun) = (client.with_gate(Arc::new(leadership.clone())), Instant::now());
        let (outcome, ()) = tokio::join!(client.post("/x", Bytes::new()), async {
            sleep(Duration::from_secs(3)).await;
            leadership.end();
        });
        assert!(matches!(outcome, Err(ApiError::GateClosed(_))));
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
    }
}
