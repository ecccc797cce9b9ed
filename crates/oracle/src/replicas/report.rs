//! Report of a run.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use serde::Serialize;

use super::plan::Plan;
use super::violation::Violation;

/// Maximum number of violations of each kind in the text.
const SHOWN: usize = 10;

/// Progress of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Seconds since the start.
    pub at_s: f64,
    /// Number of pods created.
    pub created: usize,
    /// Number of pods bound.
    pub bound: usize,
    /// Number of pods deleted.
    pub deleted: usize,
    /// Number of pods without a node.
    pub pending: usize,
    /// Number of pods with a node, as a fraction of the number of pods that fit on all nodes.
    pub full: f64,
    /// Longest wait of a pod bound since the last report, in seconds.
    pub longest_wait_s: f64,
    /// Total number of rejected bindings.
    pub refused_bindings: usize,
    /// Name of the current or last leader.
    pub leader: String,
    /// Events since the last report.
    pub events: Vec<String>,
}

/// Failover after a leader was killed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failover {
    /// Replica that was killed.
    pub killed: String,
    /// Time at which the replica was killed.
    pub at: String,
    /// Replica that became the next leader, if any.
    pub by: Option<String>,
    /// Seconds from the kill to the answer that granted the lease to that replica.
    pub seconds: Option<f64>,
}

/// Time that pods waited for their node, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitTimes {
    /// Median.
    pub median_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// Maximum.
    pub longest_s: f64,
}

impl WaitTimes {
    pub(super) fn of(waits: &[Duration]) -> Self {
        let mut sorted = waits.to_vec();
        sorted.sort_unstable();
        let at = |hundredths: usize| {
            let index = (sorted.len() * hundredths / 100).min(sorted.len().saturating_sub(1));
            sorted.get(index).map_or(0.0, Duration::as_secs_f64)
        };
        Self { median_s: at(50), p99_s: at(99), longest_s: at(100) }
    }
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The faults.
    pub plan: Plan,
    /// Number of pods created per second.
    pub rate: u32,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of pods created, according to etcd.
    pub created: usize,
    /// Number of pods bound, according to etcd.
    pub bound: usize,
    /// Number of pods deleted.
    pub deleted: usize,
    /// Highest utilization of any resource on any node, as a fraction of its capacity.
    pub fullest_node: f64,
    /// Number of successful bindings in the audit log. Excludes requests that kube-apiserver had not yet answered when
    /// it was killed.
    pub bindings: usize,
    /// Number of rejected bindings by status code. A new leader may repeat a binding that its predecessor has already
    /// made.
    pub refused_bindings: BTreeMap<u16, usize>,
    /// Number of times that the lease got a new holder, including the first one.
    pub terms: usize,
    /// Number of terms that ended because the leader could not renew its lease.
    pub leases_lost: usize,
    /// Failovers after a leader was killed.
    pub failovers: Vec<Failover>,
    /// Time limit for a failover: the lease duration and some slack, plus twice a standby's longest pause between
    /// attempts, because one pause may pass before the standby reads the last renewal, and another before it notices
    /// that the lease has expired.
    pub failover_limit_s: f64,
    /// Times from the creation of a pod to its binding.
    pub waits: WaitTimes,
    /// Difference between each replica's clock and kube-apiserver's, according to the leases that the replica wrote.
    pub clock_offsets_s: BTreeMap<String, f64>,
    /// Violations.
    pub violations: Vec<Violation>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} pods created, {} bound, {} deleted; the highest utilization of a resource on a node was {:.0} %",
            self.created,
            self.bound,
            self.deleted,
            self.fullest_node * 100.0
        )?;
        let refused: usize = self.refused_bindings.values().sum();
        writeln!(f, "{} successful bindings, {refused} rejected {:?}", self.bindings, self.refused_bindings)?;
        let WaitTimes { median_s, p99_s, longest_s } = self.waits;
        writeln!(
            f,
            "from creation to binding: median {median_s:.3} s, 99 % within {p99_s:.2} s, all within {longest_s:.1} s"
        )?;
        writeln!(f, "the lease had {} holders; {} leaders lost it and exited", self.terms, self.leases_lost)?;
        for Failover { killed, at, by, seconds } in &self.failovers {
            let by = by.as_deref().unwrap_or("no replica");
            let seconds = seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1} s"));
            writeln!(
                f,
                "{killed} killed at {at}: {by} led after {seconds} (at most {:.1} s)",
                self.failover_limit_s
            )?;
        }
        for (replica, offset) in &self.clock_offsets_s {
            writeln!(f, "the clock of {replica} was off by {offset:+.1} s")?;
        }
        write!(f, "{} violations", self.violations.len())?;
        let mut shown: HashMap<Discriminant<Violation>, usize> = HashMap::new();
        for violation in &self.violations {
            let count = shown.entry(discriminant(violation)).or_default();
            *count += 1;
            match *count {
                ..=SHOWN => write!(f, "\n  {violation}")?,
                count if count == SHOWN + 1 => write!(f, "\n  … and more like this")?,
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_times_are_percentiles() {
        let waits: Vec<_> = (1..=200).rev().map(Duration::from_secs).collect();
        assert_eq!(WaitTimes::of(&waits), WaitTimes { median_s: 101.0, p99_s: 199.0, longest_s: 200.0 });
        assert_eq!(WaitTimes::of(&[]), WaitTimes::default());
    }
}
