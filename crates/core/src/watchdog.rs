//! What the engine remembers of pods that wait although nothing would wake them, or whose attempt does not end.
//!
//! None of this should ever happen, apart from plugins that wait for no event. The check exists because the alternative
//! is a pod that waits for ever, and nobody notices.

use std::time::Duration;

use harbormaster_api::{Str, Timestamp};
use rustc_hash::FxHashMap;

/// Reason why a pod would wait for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stuck {
    /// The pod is neither queued nor being scheduled or bound, or the queue has lost track of it.
    Lost,
    /// A plugin gates the pod and listens to no event.
    Unheard,
    /// The end of the pod's backoff or wait has passed.
    Overdue,
    /// Extenders do not answer.
    Unanswered,
    /// The end of the pod's binding, or of the evictions for the pod, is not reported.
    Unreported,
    /// The pod is bound, but the API server does not show that.
    Unconfirmed,
}

impl Stuck {
    /// All reasons.
    pub const ALL: [Self; 6] =
        [Self::Lost, Self::Unheard, Self::Overdue, Self::Unanswered, Self::Unreported, Self::Unconfirmed];

    /// Value of the metric's label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Unheard => "unheard",
            Self::Overdue => "overdue",
            Self::Unanswered => "unanswered",
            Self::Unreported => "unreported",
            Self::Unconfirmed => "unconfirmed",
        }
    }

    /// Time for which the reason must last. Volumes and devices may legitimately take ten minutes for a binding.
    const fn patience(self) -> Duration {
        match self {
            Self::Lost | Self::Overdue => Duration::from_secs(30),
            Self::Unheard => Duration::from_secs(5 * 60),
            Self::Unanswered | Self::Unreported | Self::Unconfirmed => Duration::from_secs(30 * 60),
        }
    }
}

/// A pod that seems to be stuck.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Suspect {
    pub(crate) uid: Str,
    pub(crate) why: Stuck,
    /// Number of the pod's attempts. A new attempt is a new suspicion.
    pub(crate) attempts: u32,
}

/// The suspects, each with the time at which it was first seen.
#[derive(Debug, Default)]
pub(crate) struct Watchdog(FxHashMap<Str, (Suspect, Timestamp)>);

impl Watchdog {
    /// Takes note of all suspects that exist now. Returns those that have been suspects for long enough, in order. They
    /// then count as new.
    pub(crate) fn check(&mut self, current: Vec<Suspect>, now: Timestamp) -> Vec<Suspect> {
        let (mut known, mut lasting) = (std::mem::take(&mut self.0), Vec::new());
        for suspect in current {
            let before = known.remove(&suspect.uid).filter(|(before, _)| *before == suspect);
            let since = before.map_or(now, |(_, since)| since);
            if since + suspect.why.patience() <= now {
                lasting.push(suspect);
            } else {
                self.0.insert(suspect.uid.clone(), (suspect, since));
            }
        }
        lasting.sort();
        lasting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspicion_must_last_and_begins_again_with_another_attempt_or_reason() {
        let suspect = |why, attempts| Suspect { uid: "p".into(), why, attempts };
        let mut watchdog = Watchdog::default();
        for (at, current, is_reported) in [
            (0, vec![suspect(Stuck::Lost, 0)], false),
            (29, vec![suspect(Stuck::Lost, 0)], false),
            (30, vec![suspect(Stuck::Lost, 0)], true),
            (31, vec![suspect(Stuck::Lost, 0)], false),
            (40, vec![], false),
            (62, vec![suspect(Stuck::Lost, 0)], false),
            (70, vec![suspect(Stuck::Unreported, 1)], false),
            (1869, vec![suspect(Stuck::Unreported, 1)], false),
            (1870, vec![suspect(Stuck::Unreported, 2)], false),
            (3670, vec![suspect(Stuck::Unreported, 2)], true),
        ] {
            let lasting = watchdog.check(current.clone(), Timestamp::from_secs(at));
            assert_eq!(lasting, if is_reported { current } else { Vec::new() }, "at {at} s");
        }
    }
}
