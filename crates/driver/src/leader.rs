//! Which of several instances schedules.
//!
//! Replicas elect a leader by a Lease, with the rules of client-go: who holds it renews it, and whoever sees it unchanged
//! for as long as it says that it lasts takes it over. When something was seen is all that counts, by one's own clock; the
//! times that are written in the lease are for people. So clocks may be wrong, as long as they run at about the same pace.
//!
//! Reading order: here (what is asked for), `leadership` (whether this instance may write), `lease` (what a lease
//! says), `elector` (the rules, without I/O), `candidate` (who carries them out).
//!
//! Invariants:
//! - an instance leads no longer than the renew deadline from the moment when its last renewal that came through was sent,
//!   so it has ceased to lead before anybody else may begin;
//! - what has ceased to lead never leads again: its process ends;
//! - a lease is given up only when nothing more can be written.

pub(crate) mod candidate;
mod elector;
mod leadership;
mod lease;

use std::time::Duration;

pub use self::leadership::Leadership;

/// By how much standbys lengthen their pauses at most, in parts of the retry period; client-go's `JitterFactor`.
const JITTER_FACTOR: f64 = 1.2;

/// How this instance comes to be the one that schedules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LeaderElection {
    /// It schedules without asking anybody.
    #[default]
    Off,
    /// It schedules while it holds a Lease.
    Lease(LeaseElection),
}

/// `leaderElection` of the configuration. Its default is kube-scheduler's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseElection {
    /// How long a lease is respected that is not renewed. Leases say it in whole seconds: it is rounded up.
    pub lease_duration: Duration,
    /// How long the leader goes on without a renewal that comes through.
    pub renew_deadline: Duration,
    /// From one try to the next.
    pub retry_period: Duration,
    /// The lease's name.
    pub name: String,
    /// The lease's namespace.
    pub namespace: String,
    /// `delayCacheUntilActive`: nothing is watched before this instance leads.
    pub delay_cache: bool,
}

impl Default for LeaseElection {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            name: "kube-scheduler".to_owned(),
            namespace: "kube-system".to_owned(),
            delay_cache: false,
        }
    }
}

impl LeaderElection {
    /// What is wrong with it, in client-go's words.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Off => Ok(()),
            Self::Lease(lease) => lease.check(),
        }
    }

    /// The name of the lease, if there is one.
    pub(crate) fn lease(&self) -> Option<&str> {
        match self {
            Self::Off => None,
            Self::Lease(lease) => Some(&lease.name),
        }
    }

    /// Whether nothing is watched before this instance leads.
    pub(crate) fn delays_cache(&self) -> bool {
        matches!(self, Self::Lease(LeaseElection { delay_cache: true, .. }))
    }
}

impl LeaseElection {
    fn check(&self) -> Result<(), &'static str> {
        if self.lease_duration <= self.renew_deadline {
            return Err("leaseDuration must be greater than renewDeadline");
        }
        if self.retry_period.is_zero() {
            return Err("retryPeriod must be greater than zero");
        }
        // Not the product of the period itself: it may be too long for a duration.
        if self.renew_deadline.as_secs_f64() <= JITTER_FACTOR * self.retry_period.as_secs_f64() {
            return Err("renewDeadline must be greater than retryPeriod*JitterFactor");
        }
        Ok(())
    }

    /// How long a request about the lease may take.
    fn request_limit(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// The lease as log lines name it.
    fn lock(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
pub(crate) mod tests;
