//! Plan of the faults in a run.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::generate::Random;

const MINUTE: u64 = 60;
/// Second of every minute at which the leader is killed.
const KILL: u64 = 5;
/// Second of a minute at which a different fault may happen; by then, another replica certainly leads.
const OTHER: u64 = 33;
/// Number of seconds for which etcd is suspended: longer than the renew deadline and the lease duration.
const SUSPENSION: u64 = 20;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The leader is killed with SIGKILL.
    KillLeader,
    /// kube-apiserver is stopped and restarted.
    RestartApiServer {
        /// True if it is stopped gracefully, false if it is killed.
        gracefully: bool,
    },
    /// etcd is suspended with SIGSTOP.
    StopEtcd,
    /// etcd is resumed with SIGCONT.
    ContinueEtcd,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KillLeader => "the leader is killed",
            Self::RestartApiServer { gracefully: true } => "kube-apiserver is restarted gracefully",
            Self::RestartApiServer { gracefully: false } => "kube-apiserver is killed and restarted",
            Self::StopEtcd => "etcd is suspended",
            Self::ContinueEtcd => "etcd is resumed",
        })
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Faults in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Number of seconds for which pods are created.
    pub duration_s: u64,
    /// Faults in order, with the time in seconds after the start.
    pub faults: Vec<(u64, Fault)>,
    /// Offset of the first leader's clock, in seconds.
    pub skew_s: i64,
}

impl Plan {
    /// Creates a plan. The leader is killed every minute. In minutes chosen by `seed`, kube-apiserver is restarted
    /// twice and etcd is suspended once, if there are enough minutes.
    #[must_use]
    pub fn new(seed: u64, minutes: u32) -> Self {
        let mut random = Random::new(seed);
        let duration_s = u64::from(minutes) * MINUTE;
        let minutes: Vec<u64> = (0..u64::from(minutes)).map(|number| number * MINUTE).collect();
        let mut faults: Vec<_> = minutes.iter().map(|minute| (minute + KILL, Fault::KillLeader)).collect();
        let chosen = random.sample(&minutes, 3);
        let others = [
            Fault::RestartApiServer { gracefully: false },
            Fault::StopEtcd,
            Fault::RestartApiServer { gracefully: true },
        ];
        for (minute, fault) in chosen.into_iter().zip(others) {
            faults.push((minute + OTHER, fault));
            if fault == Fault::StopEtcd {
                faults.push((minute + OTHER + SUSPENSION, Fault::ContinueEtcd));
            }
        }
        faults.sort_by_key(|(at, _)| *at);
        let skew_s = i64::try_from(random.range(120, 540)).unwrap_or_default();
        let skew_s = if random.chance(50) { skew_s } else { -skew_s };
        Self { duration_s, faults, skew_s }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan: {} s; the clock of replica-0 is off by {:+} s", self.duration_s, self.skew_s)?;
        self.faults.iter().try_for_each(|(at, fault)| writeln!(f, "{at:>6} s  {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_of_three_minutes_has_every_fault_with_time_between_them() {
        for seed in 0..50 {
            let plan = Plan::new(seed, 3);
            let count = |wanted: fn(&Fault) -> bool| plan.faults.iter().filter(|(_, t)| wanted(t)).count();
            assert_eq!(count(|t| matches!(t, Fault::KillLeader)), 3, "{plan}");
            assert_eq!(count(|t| matches!(t, Fault::RestartApiServer { .. })), 2, "{plan}");
            assert_eq!(count(|t| matches!(t, Fault::StopEtcd)), 1, "{plan}");
            assert!((120..=540).contains(&plan.skew_s.abs()), "{plan}");
            for pair in plan.faults.windows(2) {
                assert!(pair[1].0 - pair[0].0 >= 12, "{plan}");
            }
            assert!(plan.faults.iter().all(|(at, _)| *at < plan.duration_s), "{plan}");
        }
    }

    #[test]
    fn a_seed_determines_the_plan() {
        assert_eq!(Plan::new(7, 10), Plan::new(7, 10));
        assert!((0..20).any(|seed| Plan::new(seed, 10) != Plan::new(7, 10)));
        let (one, two) = (Plan::new(1, 1), Plan::new(1, 2));
        assert_eq!((one.faults.len(), two.faults.len()), (2, 5));
    }
}
