//! Order of pods by importance.

use std::{cmp::Reverse, sync::Arc};

use harbormaster_api::Timestamp;
use harbormaster_framework::pod::PodInfo;

/// Returns the pod's start time, or a time later than any other if it is unknown.
pub(super) fn start_time(pod: &PodInfo) -> Timestamp {
    pod.status.start_time.unwrap_or(Timestamp(i64::MAX))
}

/// Sorts the pods by importance, most important first: by priority, then by earlier start.
///
/// Like kube-scheduler, reverses the order of pods of equal priority without a start time. kube-scheduler does so
/// because it uses the current time for such pods, and each comparison reads the clock for the second pod first.
pub(super) fn sort(pods: &mut [Arc<PodInfo>]) {
    pods.sort_by_key(|pod| (Reverse(pod.priority()), start_time(pod)));
    let same_rank = |a: &Arc<PodInfo>, b: &Arc<PodInfo>| {
        let unknown = |pod: &PodInfo| pod.status.start_time.is_none();
        a.priority() == b.priority() && unknown(a) && unknown(b)
    };
    pods.chunk_by_mut(same_rank).for_each(<[_]>::reverse);
}

#[cfg(test)]
mod tests {
    use harbormaster_testkit::{PodBuilder, pod};

    use super::*;

    fn sorted(pods: Vec<PodBuilder>) -> Vec<String> {
        let mut pods: Vec<_> = pods.into_iter().map(PodBuilder::info).collect();
        sort(&mut pods);
        pods.iter().map(|pod| pod.name.to_string()).collect()
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
    fn pods_that_started_together_keep_their_order() {
        assert_eq!(sorted(vec![at("b", 1), at("a", 1), at("c", 1)]), ["b", "a", "c"]);
    }

    #[test]
    fn a_pod_without_a_start_time_counts_as_started_last() {
        assert_eq!(sorted(vec![pod("x"), at("future", i64::from(i32::MAX))]), ["future", "x"]);
    }

    #[test]
    fn among_pods_without_a_start_time_the_last_comes_first() {
        let pods = vec![pod("a"), pod("b").priority(1), at("s", 1), pod("c"), pod("d").priority(1)];
        assert_eq!(sorted(pods), ["d", "b", "s", "c", "a"]);
    }
}
