//! What happens to the replicas and to what they stand on, and when.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::generate::Random;

const MINUTE: u64 = 60;
/// In every minute the leader is killed at this second …
const KILL: u64 = 5;
/// … and something else may happen at this one, when another leads for sure.
const ELSE: u64 = 33;
/// For how many seconds etcd stands still: longer than a leader goes on without a renewal, and than a lease lasts.
const STANDSTILL: u64 = 20;

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// SIGKILL for the replica that leads.
    KillLeader,
    /// kube-apiserver ends, by SIGKILL or gracefully, and starts anew.
    RestartApiServer {
        /// Whether it is asked to end.
        gracefully: bool,
    },
    /// SIGSTOP for etcd.
    StopEtcd,
    /// SIGCONT for etcd.
    ContinueEtcd,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KillLeader => "the leader is killed",
            Self::RestartApiServer { gracefully: true } => "kube-apiserver is asked to end and started again",
            Self::RestartApiServer { gracefully: false } => "kube-apiserver is killed and started again",
            Self::StopEtcd => "etcd stands still",
            Self::ContinueEtcd => "etcd goes on",
        })
    }
}

impl Serialize for Trouble {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The troubles of a run, in order.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// For how many seconds pods come.
    pub lasts_s: u64,
    /// What happens how many seconds after the beginning.
    pub troubles: Vec<(u64, Trouble)>,
    /// By how many seconds the clock of the replica that leads first is wrong.
    pub skew_s: i64,
}

impl Plan {
    /// In every minute the leader is killed. In minutes chosen by `seed` kube-apiserver is restarted, twice, and etcd stands
    /// still for a while, as far as there are minutes enough.
    #[must_use]
    pub fn new(seed: u64, minutes: u32) -> Self {
        let mut random = Random::new(seed);
        let lasts_s = u64::from(minutes) * MINUTE;
        let minutes: Vec<u64> = (0..u64::from(minutes)).map(|number| number * MINUTE).collect();
        let mut troubles: Vec<_> =
            minutes.iter().map(|minute| (minute + KILL, Trouble::KillLeader)).collect();
        let chosen = random.sample(&minutes, 3);
        let others = [
            Trouble::RestartApiServer { gracefully: false },
            Trouble::StopEtcd,
            Trouble::RestartApiServer { gracefully: true },
        ];
        for (minute, trouble) in chosen.into_iter().zip(others) {
            troubles.push((minute + ELSE, trouble));
            if trouble == Trouble::StopEtcd {
                troubles.push((minute + ELSE + STANDSTILL, Trouble::ContinueEtcd));
            }
        }
        troubles.sort_by_key(|(at, _)| *at);
        let skew_s = i64::try_from(random.range(120, 540)).unwrap_or_default();
        let skew_s = if random.chance(50) { skew_s } else { -skew_s };
        Self { lasts_s, troubles, skew_s }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the plan: {} s; the clock of replica-0 is off by {:+} s", self.lasts_s, self.skew_s)?;
        self.troubles.iter().try_for_each(|(at, trouble)| writeln!(f, "{at:>6} s  {trouble}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_of_three_minutes_has_every_trouble_and_room_between_them() {
        for seed in 0..50 {
            let plan = Plan::new(seed, 3);
            let count =
                |wanted: fn(&Trouble) -> bool| plan.troubles.iter().filter(|(_, t)| wanted(t)).count();
            assert_eq!(count(|t| matches!(t, Trouble::KillLeader)), 3, "{plan}");
            assert_eq!(count(|t| matches!(t, Trouble::RestartApiServer { .. })), 2, "{plan}");
            assert_eq!(count(|t| matches!(t, Trouble::StopEtcd)), 1, "{plan}");
            assert!((120..=540).contains(&plan.skew_s.abs()), "{plan}");
            for pair in plan.troubles.windows(2) {
                assert!(pair[1].0 - pair[0].0 >= 12, "{plan}");
            }
            assert!(plan.troubles.iter().all(|(at, _)| *at < plan.lasts_s), "{plan}");
        }
    }

    #[test]
    fn a_seed_stands_for_its_plan() {
        assert_eq!(Plan::new(7, 10), Plan::new(7, 10));
        assert!((0..20).any(|seed| Plan::new(seed, 10) != Plan::new(7, 10)));
        let (one, two) = (Plan::new(1, 1), Plan::new(1, 2));
        assert_eq!((one.troubles.len(), two.troubles.len()), (2, 5));
    }
}
