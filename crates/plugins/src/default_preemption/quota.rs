//! Number of candidates that kube-scheduler collects before it chooses one.

use harbormaster_api::args::DefaultPreemptionArgs;

/// Returns the number of candidates that suffice if `rows` nodes are potential candidates.
pub(super) fn wanted(args: &DefaultPreemptionArgs, rows: usize) -> usize {
    let number = |number: i32| usize::try_from(number).unwrap_or(0);
    let share = rows * number(args.min_candidate_nodes_percentage) / 100;
    share.max(number(args.min_candidate_nodes_absolute)).min(rows)
}

/// Number of candidates found so far, of two kinds: those that violate no disruption budget (`clean`), and those that
/// do (`violating`). At most `wanted` of each kind are kept.
pub(super) struct Quota {
    wanted: usize,
    clean: usize,
    violating: usize,
}

impl Quota {
    pub(super) fn new(wanted: usize) -> Self {
        Self { wanted, clean: 0, violating: 0 }
    }

    /// Counts a candidate. Returns false if there are already enough of its kind.
    pub(super) fn admits(&mut self, violations: usize) -> bool {
        let kind = if violations == 0 { &mut self.clean } else { &mut self.violating };
        let admitted = *kind < self.wanted;
        *kind += usize::from(admitted);
        admitted
    }

    /// Returns true if there are enough candidates. Candidates that violate a disruption budget never suffice on their
    /// own.
    pub(super) fn is_met(&self) -> bool {
        self.clean > 0 && self.clean + self.violating >= self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wanted_number_is_a_share_of_the_nodes_within_the_limits() {
        for (percentage, absolute, rows, expected) in [
            (10, 100, 5000, 500),
            (10, 100, 1000, 100),
            (10, 100, 999, 100),
            (10, 100, 60, 60),
            (10, 0, 19, 1),
            (10, 0, 9, 0),
            (100, 0, 7, 7),
            (0, 1, 7, 1),
            (0, 10, 7, 7),
        ] {
            let args = DefaultPreemptionArgs {
                min_candidate_nodes_percentage: percentage,
                min_candidate_nodes_absolute: absolute,
            };
            assert_eq!(wanted(&args, rows), expected, "{args:?} of {rows}");
        }
    }

    #[test]
    fn the_quota_is_met_by_one_clean_candidate_and_enough_in_total() {
        let mut quota = Quota::new(2);
        assert!(quota.admits(1) && quota.admits(3));
        assert!(!quota.is_met());
        assert!(!quota.admits(1));
        assert!(quota.admits(0));
        assert!(quota.is_met());
    }
}
