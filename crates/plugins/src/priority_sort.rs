//! PrioritySort: orders the queue by priority, then by waiting time.
//!
//! # What it does
//! Extension point: QueueSort. Orders by `spec.priority` of the pod or its group, higher first, then by the time at which
//! the pod or group entered the queue, earlier first.
//!
//! # Rejects when
//! Never.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! Nothing.
//!
//! # Differs from kube-scheduler
//! No differences.

use harbormaster_framework::prelude::*;

/// Orders the queue by priority. See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct PrioritySort;

impl Plugin for PrioritySort {
    const NAME: &'static str = "PrioritySort";
    const MAY_BLOCK: bool = false;
    implemented_points!();
}

impl QueueSort for PrioritySort {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        let (first, second) = (a.priority(), b.priority());
        first > second || (first == second && a.since < b.since)
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Timestamp;
    use harbormaster_testkit::pod;

    use super::*;

    #[test]
    fn priority_decides_before_time_and_no_pod_is_less_than_an_equal_one() {
        let (low, high) = (pod("low").priority(10).info(), pod("high").priority(100).info());
        let at = |pod, since| Queued::pod(pod, Timestamp(since));
        for (a, b, less) in [
            (at(&high, 2), at(&low, 1), true),
            (at(&low, 1), at(&high, 2), false),
            (at(&low, 1), at(&low, 2), true),
            (at(&low, 2), at(&low, 1), false),
            (at(&low, 1), at(&low, 1), false),
        ] {
            assert_eq!(PrioritySort.less(a, b), less, "{a:?} {b:?}");
        }
    }
}
