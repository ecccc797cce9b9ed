//! What came of a run.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use serde::Serialize;

use super::plan::Plan;
use super::violation::Violation;

/// How many violations of a kind are shown to people.
const SHOWN: usize = 10;

/// How it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Seconds since the beginning.
    pub at_s: f64,
    /// Pods that came.
    pub created: usize,
    /// Pods that got a node.
    pub bound: usize,
    /// Pods that went.
    pub deleted: usize,
    /// Pods without a node now.
    pub pending: usize,
    /// Which part of all places is taken.
    pub full: f64,
    /// How long somebody waited who got a node since the row before.
    pub longest_wait_s: f64,
    /// Bindings that were refused, in all.
    pub refused_bindings: usize,
    /// Who leads, or led last.
    pub leader: String,
    /// What has happened since the row before.
    pub happened: Vec<String>,
}

/// A leader that was killed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TakeOver {
    /// Who was killed.
    pub killed: String,
    /// When.
    pub at: String,
    /// Who led next.
    pub by: Option<String>,
    /// From the kill to the answer that gave it the lease.
    pub seconds: Option<f64>,
}

/// How long pods waited for their node, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// Half waited no longer.
    pub median_s: f64,
    /// 99 of a hundred waited no longer.
    pub p99_s: f64,
    /// None waited longer.
    pub longest_s: f64,
}

impl Waits {
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

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What happened.
    pub plan: Plan,
    /// Pods per second.
    pub rate: u32,
    /// Nodes.
    pub nodes: usize,
    /// Pods that came, as etcd has it.
    pub created: usize,
    /// Pods that got a node, as etcd has it.
    pub bound: usize,
    /// Pods that went.
    pub deleted: usize,
    /// The most that any node ever had of anything, as a part of what it can hold.
    pub fullest_node: f64,
    /// Bindings that were answered with success, as the audit log has it. An answer that was under way when kube-apiserver
    /// was killed is not there.
    pub bindings: usize,
    /// Bindings that were refused, by code. A new leader may try what the one before it has just done.
    pub refused_bindings: BTreeMap<u16, usize>,
    /// How often the lease had another holder, the first one included.
    pub terms: usize,
    /// Leaders that ended because they could not renew their lease.
    pub leases_lost: usize,
    /// What became of the lease of those that were killed.
    pub take_overs: Vec<TakeOver>,
    /// How long a take-over may take: a standby sees the last renewal after one pause, respects it for as long as a lease
    /// lasts, and looks again after another pause.
    pub take_over_limit_s: f64,
    /// From the creation of a pod to its binding.
    pub waits: Waits,
    /// How far the replicas' clocks were from kube-apiserver's, by what they wrote in their leases.
    pub clock_offsets_s: BTreeMap<String, f64>,
    /// What must not have happened.
    pub violations: Vec<Violation>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} pods created, {} bound, {} deleted; the fullest node had {:.0} % of something",
            self.created,
            self.bound,
            self.deleted,
            self.fullest_node * 100.0
        )?;
        let refused: usize = self.refused_bindings.values().sum();
        writeln!(
            f,
            "{} bindings answered with success, {refused} refused {:?}",
            self.bindings, self.refused_bindings
        )?;
        let Waits { median_s, p99_s, longest_s } = self.waits;
        writeln!(
            f,
            "from creation to binding: median {median_s:.3} s, 99 % within {p99_s:.2} s, all within {longest_s:.1} s"
        )?;
        writeln!(f, "the lease had {} holders; {} leaders lost it and ended", self.terms, self.leases_lost)?;
        for TakeOver { killed, at, by, seconds } in &self.take_overs {
            let by = by.as_deref().unwrap_or("nobody");
            let seconds = seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1} s"));
            writeln!(
                f,
                "{killed} killed at {at}: {by} led after {seconds} (at most {:.1} s)",
                self.take_over_limit_s
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
    fn waits_are_told_by_their_ranks() {
        let waits: Vec<_> = (1..=200).rev().map(Duration::from_secs).collect();
        assert_eq!(Waits::of(&waits), Waits { median_s: 101.0, p99_s: 199.0, longest_s: 200.0 });
        assert_eq!(Waits::of(&[]), Waits::default());
    }
}
