//! Leader election: only one of several instances schedules pods.
//!
//! Replicas elect a leader with a Lease, by the rules of client-go: the holder renews the lease, and a replica acquires
//! the lease once it has seen no renewal for the lease duration. Each replica measures this duration with its own
//! clock; the times in the lease are for human readers only. Clocks may therefore be wrong, provided that they run at
//! about the same rate.
//!
//! Reading order: this file (configuration), `leadership` (permission to write), `lease` (the object), `elector` (the
//! rules, without I/O), `candidate` (the requests).
//!
//! Invariants:
//! - an instance leads at most for the renew deadline after it sent its last successful renewal, so it stops before
//!   another instance may lead;
//! - an instance that stops leading never leads again: its process ends;
//! - a lease is released only when the instance can no longer write anything.

pub(crate) mod candidate;
mod elector;
mod leadership;
mod lease;

use std::time::Duration;

pub use self::leadership::Leadership;

/// Maximum random addition to a standby's pauses, as a multiple of the retry period; client-go's `JitterFactor`.
const JITTER_FACTOR: f64 = 1.2;

/// Leader election settings of this instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LeaderElection {
    /// This instance always leads.
    #[default]
    Off,
    /// This instance leads while it holds a Lease.
    Lease(LeaseElection),
}

/// `leaderElection` of the configuration. The default is the same as kube-scheduler's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseElection {
    /// Time after which an unrenewed lease expires; rounded up to whole seconds.
    pub lease_duration: Duration,
    /// Time for which the leader continues to lead without a successful renewal.
    pub renew_deadline: Duration,
    /// Interval between tries to acquire or renew the lease.
    pub retry_period: Duration,
    /// Name of the lease.
    pub name: String,
    /// Namespace of the lease.
    pub namespace: String,
    /// `delayCacheUntilActive`: nothing is watched before this instance is the leader.
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
    /// Checks the configuration, with client-go's messages.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Off => Ok(()),
            Self::Lease(lease) => lease.check(),
        }
    }

    /// Returns the name of the lease, if there is one.
    pub(crate) fn lease(&self) -> Option<&str> {
        match self {
            Self::Off => None,
            Self::Lease(lease) => Some(&lease.name),
        }
    }

    /// Returns true if nothing is watched before this instance is the leader.
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
        // The comparison uses floats, since the product may be too long for a `Duration`.
        if self.renew_deadline.as_secs_f64() <= JITTER_FACTOR * self.retry_period.as_secs_f64() {
            return Err("renewDeadline must be greater than retryPeriod*JitterFactor");
        }
        Ok(())
    }

    /// Returns the time limit for requests for the lease.
    fn request_limit(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// Returns the lease's namespace and name, for log lines.
    fn lock(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
pub(crate) mod tests;
