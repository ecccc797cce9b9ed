//! Order of units by importance.

use std::cmp::Reverse;

use harbormaster_api::Timestamp;
use harbormaster_framework::pod::PodInfo;

use super::unit::Unit;

/// Start time of pods whose start time is unknown.
const UNKNOWN: Timestamp = Timestamp(i64::MAX);

/// Returns the pod's start time, or a time later than any other if it is unknown.
pub(super) fn start_time(pod: &PodInfo) -> Timestamp {
    pod.status.start_time.unwrap_or(UNKNOWN)
}

/// Sorts the units by importance, most important first: by priority, then groups before single pods, then by size, then
/// by earlier start.
///
/// Units that have not started keep the order in which they were collected. In Kubernetes 1.36 (`reverses_unstarted`),
/// they change places with each other. kube-scheduler takes the current time for such pods: 1.37 when it collects them,
/// and 1.36 in each comparison, for the second pod first.
pub(super) fn sort(units: &mut [Unit], reverses_unstarted: bool) {
    units.sort_by_key(|unit| {
        let started = started(unit);
        let at = if started == UNKNOWN && !reverses_unstarted { unit.at } else { 0 };
        (Reverse(unit.priority), Reverse(unit.is_grouped), Reverse(unit.pods.len()), started, at)
    });
    if reverses_unstarted {
        let same_rank = |a: &Unit, b: &Unit| {
            let rank = |unit: &Unit| (unit.priority, unit.is_grouped, unit.pods.len());
            rank(a) == rank(b) && started(a) == UNKNOWN && started(b) == UNKNOWN
        };
        units.chunk_by_mut(same_rank).for_each(<[_]>::reverse);
    }
}

fn started(unit: &Unit) -> Timestamp {
    unit.pods.iter().map(|(_, pod)| start_time(pod)).min().unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use harbormaster_testkit::{PodBuilder, pod};

    use super::{
        super::unit::tests::{names, singles},
        *,
    };

    fn sorted_by(reverses_unstarted: bool, pods: Vec<PodBuilder>) -> Vec<String> {
        let mut units = singles(pods);
        sort(&mut units, reverses_unstarted);
        names(&units)
    }

    fn sorted(pods: Vec<PodBuilder>) -> Vec<String> {
        sorted_by(true, pods)
    }

    fn at(name: &str, second: i64) -> PodBuilder {
        pod(name).pod(|pod| pod.status.start_time = Some(Timestamp::from_secs(second)))
    }

    #[test]
    fn higher_priority_comes_first_then_the_earlier_start() {
        let pods = vec![at("young", 9), at("high", 9).priority(5), at("low", 1).priority(-1), at("old", 2)];
        assert_eq!(sorted(pods), ["high", "old", "young", "low"]);
    }

    #[test]
    fn groups_come_before_single_pods_and_larger_units_before_smaller_ones() {
        let mut units = singles([at("single", 1), at("small", 2), at("large", 3), at("high", 4).priority(1)]);
        let [_, small, large, _] = units.as_mut_slice() else { panic!("{units:?}") };
        (small.is_grouped, large.is_grouped) = (true, true);
        let again = large.pods[0].clone();
        large.pods.push(again);
        sort(&mut units, false);
        assert_eq!(names(&units), ["high", "large", "large", "small", "single"]);
    }

    #[test]
    fn a_unit_started_with_the_first_of_its_pods() {
        let mut units = singles([at("a", 2), at("late", 3), at("early", 1)]);
        let early = units.remove(2).pods.remove(0);
        units[1].pods.push(early);
        let again = units[0].pods[0].clone();
        units[0].pods.push(again);
        sort(&mut units, false);
        assert_eq!(names(&units), ["late", "early", "a", "a"]);
    }

    #[test]
    fn pods_that_started_together_keep_their_order() {
        assert_eq!(sorted(vec![at("b", 1), at("a", 1), at("c", 1)]), ["b", "a", "c"]);
    }

    #[test]
    fn a_pod_without_a_start_time_counts_as_started_last() {
        assert_eq!(sorted(vec![pod("x"), at("future", i64::from(i32::MAX))]), ["future", "x"]);
    }

    #[test]
    fn among_pods_without_a_start_time_the_last_comes_first_until_1_36() {
        let pods = vec![pod("a"), pod("b").priority(1), at("s", 1), pod("c"), pod("d").priority(1)];
        assert_eq!(sorted_by(true, pods.clone()), ["d", "b", "s", "c", "a"]);
        assert_eq!(sorted_by(false, pods), ["b", "d", "s", "a", "c"]);
    }

    #[test]
    fn from_1_37_pods_without_a_start_time_return_to_their_order() {
        let mut units = singles([pod("a"), pod("b"), pod("c")]);
        units.rotate_left(1);
        sort(&mut units, false);
        assert_eq!(names(&units), ["a", "b", "c"]);
    }
}
