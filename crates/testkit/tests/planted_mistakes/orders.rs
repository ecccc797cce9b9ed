//! QueueSort plugins whose `less` is no order.

use harbormaster_api::Timestamp;
use harbormaster_framework::prelude::*;
use harbormaster_testkit::{Trial, cluster, order_is_strict, pod};

use super::Planted;

#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    PutsEqualsFirst,
    PutsAllOthersLater,
    MixesTwoRules,
    IgnoresSmallDifferences,
}

/// Tries pods by the time at which they entered the queue.
struct Waiting(Wrong);

impl Plugin for Waiting {
    const NAME: &'static str = "Waiting";
    implemented_points!();
}

impl QueueSort for Waiting {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        let (first, second) = (a.since, b.since);
        match self.0 {
            Wrong::Nothing => first < second,
            Wrong::PutsEqualsFirst => first <= second,
            Wrong::PutsAllOthersLater => a.pod.uid != b.pod.uid,
            Wrong::MixesTwoRules if a.pod.namespace == b.pod.namespace => a.pod.name < b.pod.name,
            Wrong::MixesTwoRules => first < second,
            Wrong::IgnoresSmallDifferences => first.0 + 2_000_000_000 <= second.0,
        }
    }
}

fn check(wrong: Wrong) {
    let pods = [("b", "blue"), ("c", "green"), ("a", "blue"), ("d", "green")];
    let queued = (1..).zip(pods);
    let queued: Vec<_> = queued
        .map(|(at, (name, namespace))| (pod(name).namespace(namespace).info(), Timestamp::from_secs(at)))
        .collect();
    order_is_strict(&Trial::of(Waiting(wrong)), &cluster([], []), &queued);
}

pub(super) fn right() {
    check(Wrong::Nothing);
}

pub(super) const MISTAKES: &[Planted] = &[
    Planted {
        wrong: "a pod comes before itself",
        said: "before itself",
        check: || check(Wrong::PutsEqualsFirst),
    },
    Planted {
        wrong: "a pod comes before all others",
        said: "before each other",
        check: || check(Wrong::PutsAllOthersLater),
    },
    Planted {
        wrong: "pods of a namespace are ordered by another rule",
        said: "neither after the first nor before the second",
        check: || check(Wrong::MixesTwoRules),
    },
    Planted {
        wrong: "times that differ little are equal",
        said: "neither after the first nor before the second",
        check: || check(Wrong::IgnoresSmallDifferences),
    },
];
