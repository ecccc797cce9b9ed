//! Chooses the best node for evictions.

use std::cmp::Reverse;

use harbormaster_api::Timestamp;
use harbormaster_framework::prelude::*;

use super::importance::start_time;

/// Cost of a candidate. The criteria are in order of importance, and lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    pub(super) violations: usize,
    pub(super) highest_priority: i32,
    /// Sum of [`Self::of_priority`] over the victims.
    pub(super) sum_of_priorities: i64,
    pub(super) victims: usize,
    /// Earliest start time among the victims of the highest priority; later is better.
    pub(super) start_time: Reverse<Timestamp>,
}

/// Returns the candidate with the lowest cost, or the first such candidate if several are equal.
pub(super) fn best(candidates: Vec<EvictionPlan>) -> Option<EvictionPlan> {
    candidates.into_iter().min_by_key(Cost::of)
}

impl Cost {
    /// A cost higher than that of any candidate.
    pub(super) const WORST: Self = Self {
        violations: usize::MAX,
        highest_priority: i32::MAX,
        sum_of_priorities: i64::MAX,
        victims: usize::MAX,
        start_time: Reverse(Timestamp(i64::MIN)),
    };

    /// Returns a victim's contribution to the sum of priorities. It is measured from the lowest possible priority, so
    /// that it is never negative: an additional victim never lowers the sum.
    pub(super) fn of_priority(priority: i32) -> i64 {
        i64::from(priority) - i64::from(i32::MIN)
    }

    pub(super) fn of(plan: &EvictionPlan) -> Self {
        let highest = plan.victims.iter().map(|pod| pod.priority()).max();
        let most_important = plan.victims.iter().filter(|pod| Some(pod.priority()) == highest);
        Self {
            violations: plan.violations,
            // The first victim's. Others may have a higher one if the priority of their group is lower.
            highest_priority: plan.victims.first().map_or(i32::MIN, |pod| pod.priority()),
            sum_of_priorities: plan.victims.iter().map(|pod| Self::of_priority(pod.priority())).sum(),
            victims: plan.victims.len(),
            start_time: Reverse(most_important.map(|pod| start_time(pod)).min().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_testkit::{PodBuilder, pod};

    use super::*;

    /// Returns a candidate on one node. Each victim is a pair of a priority and a start time in seconds.
    fn candidate(row: usize, violations: usize, victims: &[(i32, Option<i64>)]) -> EvictionPlan {
        let victim = |(priority, second): &(i32, Option<i64>)| {
            let start_time = second.map(Timestamp::from_secs);
            pod("v").priority(*priority).pod(|pod| pod.status.start_time = start_time)
        };
        let victims = victims.iter().map(victim).map(PodBuilder::info).collect();
        EvictionPlan { row: row.into(), victims, violations }
    }

    fn best_of<const N: usize>(candidates: [(usize, &[(i32, Option<i64>)]); N]) -> usize {
        let made = candidates.iter().enumerate();
        let made = made.map(|(row, (violations, victims))| candidate(row, *violations, victims)).collect();
        best(made).unwrap().row.at()
    }

    #[test]
    fn without_candidates_there_is_no_best_one() {
        assert!(best(Vec::new()).is_none());
    }

    #[test]
    fn the_number_of_violations_comes_first() {
        assert_eq!(best_of([(1, &[(0, None)]), (0, &[(9, None), (9, None)]), (2, &[(0, None)])]), 1);
    }

    #[test]
    fn the_priority_of_the_most_important_victim_comes_second() {
        assert_eq!(
            best_of([(0, &[(5, None)]), (0, &[(4, None), (4, None), (4, None)]), (0, &[(5, None)])]),
            1
        );
    }

    #[test]
    fn the_smallest_sum_of_priorities_comes_third() {
        assert_eq!(best_of([(0, &[(5, None), (3, None)]), (0, &[(5, None), (1, None)])]), 1);
    }

    #[test]
    fn one_more_victim_is_worse_even_if_its_priority_is_negative() {
        assert_eq!(best_of([(0, &[(-5, None), (-9, None)]), (0, &[(-5, None)])]), 1);
        let many = [(5, None), (-1000, None), (-1000, None)];
        assert_eq!(best_of([(0, &many), (0, &[(5, None), (4, None)])]), 1);
    }

    #[test]
    fn the_number_of_victims_matters_only_if_the_sums_are_equal() {
        let lowest = (i32::MIN, None);
        assert_eq!(best_of([(0, &[(5, None), lowest, lowest]), (0, &[(5, None), lowest])]), 1);
        assert_eq!(best_of([(0, &[(5, None), (i32::MIN + 1, None)]), (0, &[(5, None), lowest, lowest])]), 1);
    }

    #[test]
    fn the_earliest_start_among_the_most_important_victims_comes_last_and_later_is_better() {
        assert_eq!(best_of([(0, &[(5, Some(1))]), (0, &[(5, Some(3))]), (0, &[(5, Some(2))])]), 1);
        let (first, second) = ([(5, Some(1)), (5, Some(9))], [(5, Some(4)), (5, Some(3))]);
        assert_eq!(best_of([(0, &first), (0, &second)]), 1);
    }

    #[test]
    fn start_times_of_less_important_victims_do_not_matter() {
        let (first, second) = ([(5, Some(2)), (1, Some(9))], [(5, Some(3)), (1, Some(1))]);
        assert_eq!(best_of([(0, &first), (0, &second)]), 1);
    }

    #[test]
    fn a_victim_without_a_start_time_started_last() {
        assert_eq!(best_of([(0, &[(5, Some(i64::from(i32::MAX)))]), (0, &[(5, None)])]), 1);
    }

    #[test]
    fn among_equal_candidates_the_first_one_found_wins() {
        assert_eq!(best_of([(1, &[(0, None)]), (0, &[(5, None)]), (0, &[(5, None)])]), 1);
    }
}
