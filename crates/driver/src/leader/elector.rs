//! The rules of leader election, as a state machine.
//!
//! This module has no I/O and no clock. The host calls [`Elector::step`] for the next step, carries it out, and passes
//! the outcome to [`Elector::answered`]. A try consists of one or more requests. The leader begins a try by updating
//! the lease without reading it first. If this update fails, the leader reads the lease. All other instances begin a
//! try by reading the lease.

use harbormaster_api::Timestamp;
use harbormaster_client::Jitter;
use tokio::time::Instant;

use super::{
    JITTER_FACTOR, LeaseElection,
    lease::{Claim, Lease},
};

/// Duration of a released lease in seconds, as in client-go.
const GIVEN_UP_SECONDS: u64 = 1;

/// A candidate or leader.
#[derive(Debug)]
pub(super) struct Elector {
    election: LeaseElection,
    identity: String,
    seen: Option<ObservedLease>,
    /// Time until which this instance leads; renewals extend it.
    leads_until: Option<Instant>,
    /// True if the lease may name this instance: it did when it was last read, or a write was sent and the lease has
    /// not been read since.
    may_hold: bool,
    next: Next,
    /// Start of the last try.
    tried: Option<Instant>,
    jitter: Jitter,
}

/// The lease as it was last read or written.
#[derive(Debug)]
struct ObservedLease {
    lease: Lease,
    /// Time when this instance first read or wrote this version of the lease's spec.
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    /// Start a try at this time.
    Try(Instant),
    /// Continue the try with this request.
    Send(Purpose),
    /// Wait for the outcome of a request.
    Await {
        purpose: Purpose,
        sent: Instant,
    },
    Lost,
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Read the lease.
    Read,
    /// Create the lease, since it does not exist.
    Create,
    /// Renew the lease without reading it first.
    Prolong,
    /// Renew the lease after reading it.
    Renew,
    /// Acquire the lease, which is free or expired.
    TakeOver,
}

/// The next step for the host.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Send a request and report its outcome.
    Send(Purpose, Request),
    /// Wait until this time.
    Wait(Instant),
    /// Stop, since this instance was the leader but no longer is.
    Lost,
}

/// A request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    Read,
    Create(Lease),
    Update(Lease),
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// The current lease.
    Lease(Lease),
    /// The lease does not exist.
    Absent,
    /// The request was refused, or its response was lost.
    Failed,
}

impl Elector {
    pub(super) fn new(election: LeaseElection, identity: String, now: Instant) -> Self {
        Self {
            election,
            identity,
            seen: None,
            leads_until: None,
            may_hold: false,
            next: Next::Try(now),
            tried: None,
            jitter: Jitter::default(),
        }
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the time until which this instance leads, if it is the leader. Renewals extend this period.
    pub(super) fn leads_until(&self) -> Option<Instant> {
        self.leads_until
    }

    /// Returns the lease as it was last read or written.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.seen.as_ref().map(|seen| &seen.lease)
    }

    /// Returns the last known holder of the lease, unless it is this instance.
    pub(super) fn other_holder(&self) -> Option<&str> {
        self.lease().map(Lease::holder).filter(|holder| !holder.is_empty() && *holder != self.identity)
    }

    /// Returns the next step. `wall` is the time to write into the lease.
    pub(super) fn step(&mut self, now: Instant, wall: Timestamp) -> Step {
        if self.leads_until.is_some_and(|end| end <= now) {
            self.lose();
        }
        let purpose = match self.next {
            Next::Lost => return Step::Lost,
            Next::Try(at) if now < at => return Step::Wait(self.leads_until.map_or(at, |end| end.min(at))),
            Next::Send(purpose) => purpose,
            // A try is due, or the outcome of the last request was not reported.
            Next::Try(_) | Next::Await { .. } => {
                self.tried = Some(now);
                if self.leads_until.is_some() { Purpose::Prolong } else { Purpose::Read }
            }
        };
        self.next = Next::Await { purpose, sent: now };
        let request = self.request(purpose, wall);
        self.may_hold |= request != Request::Read;
        Step::Send(purpose, request)
    }

    /// Processes the outcome of the last request.
    pub(super) fn answered(&mut self, answer: Answer, now: Instant) {
        let Next::Await { purpose, sent } = self.next else { return };
        if self.leads_until.is_some_and(|end| end <= now) {
            return self.lose();
        }
        match (purpose, answer) {
            (Purpose::Read, Answer::Lease(lease)) => self.decide(lease, now),
            (Purpose::Read, Answer::Absent) => {
                self.seen = None;
                self.may_hold = false;
                self.next = Next::Send(Purpose::Create);
            }
            (Purpose::Read, Answer::Failed) => self.pause(now),
            (_, Answer::Lease(lease)) => self.hold(lease, sent, now),
            (Purpose::Prolong, _) => self.next = Next::Send(Purpose::Read),
            (Purpose::Create | Purpose::Renew | Purpose::TakeOver, _) => self.pause(now),
        }
    }

    /// Returns true if the lease may name this instance, and this instance has not lost it.
    pub(super) fn may_hold(&self) -> bool {
        self.may_hold && !matches!(self.next, Next::Lost)
    }

    /// Returns the lease in its released form; `None` if another instance holds it.
    pub(super) fn given_up(&self, lease: &Lease, wall: Timestamp) -> Option<Lease> {
        (lease.holder() == self.identity).then(|| {
            lease.with_claim(&Claim {
                holder: "",
                seconds: GIVEN_UP_SECONDS,
                acquired: wall.to_rfc3339_micro(),
                renewed: wall,
                transitions: lease.transitions(),
            })
        })
    }

    fn request(&self, purpose: Purpose, wall: Timestamp) -> Request {
        let new = |transitions| self.claim(None, wall, transitions);
        match (purpose, self.lease()) {
            (Purpose::Create, _) => {
                Request::Create(Lease::new(&self.election.namespace, &self.election.name, &new(0)))
            }
            (Purpose::TakeOver, Some(lease)) => {
                Request::Update(lease.with_claim(&new(lease.transitions() + 1)))
            }
            (Purpose::Prolong | Purpose::Renew, Some(lease)) => {
                let claim = self.claim(lease.acquired(), wall, lease.transitions());
                Request::Update(lease.with_claim(&claim))
            }
            (Purpose::Read, _) | (_, None) => Request::Read,
        }
    }

    fn claim(&self, acquired: Option<&str>, wall: Timestamp, transitions: i64) -> Claim<'_> {
        let lasts = self.election.lease_duration;
        Claim {
            holder: &self.identity,
            seconds: lasts.as_secs() + u64::from(lasts.subsec_nanos() > 0),
            acquired: acquired.map_or_else(|| wall.to_rfc3339_micro(), str::to_owned),
            renewed: wall,
            transitions,
        }
    }

    /// Decides what to do about a lease that has been read.
    fn decide(&mut self, lease: Lease, now: Instant) {
        let since = match self.seen.take() {
            Some(seen) if seen.lease.has_spec_of(&lease) => seen.since,
            _ => now,
        };
        let (is_free, is_mine) = (lease.holder().is_empty(), lease.holder() == self.identity);
        let is_over = now.saturating_duration_since(since) >= lease.lasts();
        self.seen = Some(ObservedLease { lease, since });
        self.may_hold = is_mine;
        if is_mine {
            // The last update failed, or the response to an earlier write was lost.
            self.next = Next::Send(Purpose::Renew);
        } else if !is_free && self.leads_until.is_some() {
            // The other instance may have started scheduling.
            self.lose();
        } else if is_free || is_over {
            self.next = Next::Send(Purpose::TakeOver);
        } else {
            self.pause(now);
        }
    }

    /// Handles a lease that has been written. Other instances may have seen the new lease as soon as the request was
    /// sent, so the renew deadline counts from `sent`.
    fn hold(&mut self, lease: Lease, sent: Instant, now: Instant) {
        self.seen = Some(ObservedLease { lease, since: now });
        let end = sent + self.election.renew_deadline;
        if end <= now {
            return self.pause(now);
        }
        self.leads_until = Some(end);
        self.next = Next::Try(now + self.election.retry_period);
    }

    /// Sets the time of the next try after a try that neither acquired nor renewed the lease.
    fn pause(&mut self, now: Instant) {
        let period = self.election.retry_period;
        self.next = Next::Try(match (self.leads_until, self.tried) {
            (Some(_), Some(tried)) => (tried + period).max(now),
            _ => now + period + period.mul_f64(JITTER_FACTOR * self.jitter.fraction()),
        });
    }

    fn lose(&mut self) {
        self.leads_until = None;
        self.next = Next::Lost;
    }
}

#[cfg(test)]
mod tests;
