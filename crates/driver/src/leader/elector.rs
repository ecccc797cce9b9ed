//! The rules of an election: what was seen and when, what to write next, and when this instance has ceased to lead.
//!
//! No I/O and no clock. The host asks [`Elector::step`] what to do, does it, and tells [`Elector::answered`] what came of
//! it. A try is one or several requests: whoever leads updates the lease as it was last seen; where that fails, and for
//! everybody else, it is read first.

use harbormaster_api::Timestamp;
use harbormaster_client::Jitter;
use tokio::time::Instant;

use super::{
    JITTER_FACTOR, LeaseElection,
    lease::{Claim, Lease},
};

/// How long a lease lasts that is given up: nobody is to wait for it.
const GIVEN_UP_SECONDS: u64 = 1;

/// One who stands for election, or leads.
#[derive(Debug)]
pub(super) struct Elector {
    election: LeaseElection,
    identity: String,
    seen: Option<Seen>,
    /// Unless it is prolonged.
    leads_until: Option<Instant>,
    /// Whether the lease may bear this identity: a write was sent, and nothing else has been read since.
    may_hold: bool,
    next: Next,
    /// When the last try began.
    tried: Option<Instant>,
    jitter: Jitter,
}

/// The lease as it was last seen.
#[derive(Debug)]
struct Seen {
    lease: Lease,
    /// When it was first seen to say this.
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    /// Begin a try.
    Try(Instant),
    /// Go on with it.
    Send(Ask),
    /// Hear what came of it.
    Hear {
        ask: Ask,
        sent: Instant,
    },
    Lost,
}

/// A request, and why it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// What does the lease say?
    Read,
    /// There is none.
    Create,
    /// It says that this instance holds it, as far as is known.
    Prolong,
    /// It was just read, and says so.
    Renew,
    /// Nobody holds it, or somebody who has not renewed it.
    TakeOver,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Send this, and tell what came of it.
    Send(Ask, Request),
    /// Nothing before that time.
    Wait(Instant),
    /// Nothing, ever: this instance led, and does not any more.
    Lost,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    Read,
    Create(Lease),
    Update(Lease),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// The lease as it is now.
    Lease(Lease),
    /// There is no lease.
    Absent,
    /// Nothing, as far as is known: it was refused, or the answer was lost.
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

    /// Until when this instance leads, if it does; unless that is prolonged.
    pub(super) fn leads_until(&self) -> Option<Instant> {
        self.leads_until
    }

    /// The lease as it was last seen.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.seen.as_ref().map(|seen| &seen.lease)
    }

    /// Who else holds the lease, as far as is known.
    pub(super) fn other_holder(&self) -> Option<&str> {
        self.lease().map(Lease::holder).filter(|holder| !holder.is_empty() && *holder != self.identity)
    }

    /// What to do now; `wall` is what the lease is to say about the time.
    pub(super) fn step(&mut self, now: Instant, wall: Timestamp) -> Step {
        if self.leads_until.is_some_and(|end| end <= now) {
            self.lose();
        }
        let ask = match self.next {
            Next::Lost => return Step::Lost,
            Next::Try(at) if now < at => return Step::Wait(self.leads_until.map_or(at, |end| end.min(at))),
            Next::Send(ask) => ask,
            // Nobody told what came of the last request.
            Next::Try(_) | Next::Hear { .. } => {
                self.tried = Some(now);
                if self.leads_until.is_some() { Ask::Prolong } else { Ask::Read }
            }
        };
        self.next = Next::Hear { ask, sent: now };
        let request = self.request(ask, wall);
        self.may_hold |= request != Request::Read;
        Step::Send(ask, request)
    }

    /// The last request has this answer.
    pub(super) fn answered(&mut self, answer: Answer, now: Instant) {
        let Next::Hear { ask, sent } = self.next else { return };
        if self.leads_until.is_some_and(|end| end <= now) {
            return self.lose();
        }
        match (ask, answer) {
            (Ask::Read, Answer::Lease(lease)) => self.decide(lease, now),
            (Ask::Read, Answer::Absent) => {
                self.seen = None;
                self.may_hold = false;
                self.next = Next::Send(Ask::Create);
            }
            (Ask::Read, Answer::Failed) => self.pause(now),
            (_, Answer::Lease(lease)) => self.hold(lease, sent, now),
            (Ask::Prolong, _) => self.next = Next::Send(Ask::Read),
            (Ask::Create | Ask::Renew | Ask::TakeOver, _) => self.pause(now),
        }
    }

    /// Whether the lease may bear this identity.
    pub(super) fn may_hold(&self) -> bool {
        self.may_hold && !matches!(self.next, Next::Lost)
    }

    /// How the lease says that it is given up; `None` if it is somebody else's.
    pub(super) fn given_up(&self, lease: &Lease, wall: Timestamp) -> Option<Lease> {
        (lease.holder() == self.identity).then(|| {
            lease.saying(&Claim {
                holder: "",
                seconds: GIVEN_UP_SECONDS,
                acquired: wall.to_rfc3339_micro(),
                renewed: wall,
                transitions: lease.transitions(),
            })
        })
    }

    fn request(&self, ask: Ask, wall: Timestamp) -> Request {
        let new = |transitions| self.claim(None, wall, transitions);
        match (ask, self.lease()) {
            (Ask::Create, _) => {
                Request::Create(Lease::new(&self.election.namespace, &self.election.name, &new(0)))
            }
            (Ask::TakeOver, Some(lease)) => Request::Update(lease.saying(&new(lease.transitions() + 1))),
            (Ask::Prolong | Ask::Renew, Some(lease)) => {
                let claim = self.claim(lease.acquired(), wall, lease.transitions());
                Request::Update(lease.saying(&claim))
            }
            (Ask::Read, _) | (_, None) => Request::Read,
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

    /// The lease was read.
    fn decide(&mut self, lease: Lease, now: Instant) {
        let since = match self.seen.take() {
            Some(seen) if seen.lease.says_the_same_as(&lease) => seen.since,
            _ => now,
        };
        let (is_free, is_mine) = (lease.holder().is_empty(), lease.holder() == self.identity);
        let is_over = now.saturating_duration_since(since) >= lease.lasts();
        self.seen = Some(Seen { lease, since });
        self.may_hold = is_mine;
        if is_mine {
            // An answer was lost.
            self.next = Next::Send(Ask::Renew);
        } else if !is_free && self.leads_until.is_some() {
            // Whoever took it away may have begun already.
            self.lose();
        } else if is_free || is_over {
            self.next = Next::Send(Ask::TakeOver);
        } else {
            self.pause(now);
        }
    }

    /// The lease was written. Others may have seen that when it was sent: the time counts from then on.
    fn hold(&mut self, lease: Lease, sent: Instant, now: Instant) {
        self.seen = Some(Seen { lease, since: now });
        let end = sent + self.election.renew_deadline;
        if end <= now {
            return self.pause(now);
        }
        self.leads_until = Some(end);
        self.next = Next::Try(now + self.election.retry_period);
    }

    /// The try has failed.
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
