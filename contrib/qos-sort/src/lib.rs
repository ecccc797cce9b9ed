//! QOSSort: tries pods of equal priority by their quality-of-service class.
//!
//! The plugin has the name of the plugin of [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins),
//! and the same order. `README.md` lists the differences.

use std::cmp::Reverse;

use harbormaster::prelude::*;

/// Tries pods by priority, then by class, then by the time at which they entered the queue. See the
/// [crate's documentation](crate).
#[derive(Clone, Copy, Debug, Default)]
pub struct QOSSort;

impl Plugin for QOSSort {
    const NAME: &'static str = "QOSSort";
    const MAY_BLOCK: bool = false;
    implemented_points!();
}

impl QueueSort for QOSSort {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        let key =
            |queued: &Queued<'_>| (Reverse(queued.priority()), Reverse(queued.pod.derived.qos), queued.since);
        key(&a) < key(&b)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use harbormaster::{
        api::Timestamp,
        testkit::{PodBuilder, Trial, cluster, order_is_strict, pod, random::Dice},
    };

    use super::*;

    fn limited(pod: PodBuilder) -> PodBuilder {
        pod.cpu("1")
            .memory("1Gi")
            .spec(|spec| spec.containers[0].limits = spec.containers[0].requests.clone())
    }

    #[test]
    fn priority_counts_first_then_the_class_then_the_time() {
        let queued: Vec<(Arc<PodInfo>, i64)> = vec![
            (pod("important").priority(1).info(), 9),
            (limited(pod("guaranteed")).info(), 8),
            (limited(pod("guaranteed-later")).info(), 9),
            (pod("burstable").cpu("1").info(), 5),
            (pod("best-effort").info(), 1),
            (pod("best-effort-later").info(), 2),
            (limited(pod("unimportant").priority(-1)).info(), 0),
        ];
        let of = |at: usize| Queued::pod(&queued[at].0, Timestamp::from_secs(queued[at].1));
        for first in 0..queued.len() {
            for second in 0..queued.len() {
                assert_eq!(QOSSort.less(of(first), of(second)), first < second, "{first} {second}");
            }
        }
    }

    #[test]
    fn it_passes_the_conformance_checks() {
        for seed in 0..20 {
            let mut dice = Dice::new(seed);
            let mut random = |at: usize| {
                let pod = dice.pod(&format!("p{at}")).priority(dice.pick(&[0, 0, 1]));
                let pod = if dice.one_in(3) { limited(pod) } else { pod };
                (pod.info(), Timestamp::from_secs(dice.below(4) as i64))
            };
            let pods: Vec<_> = (0..25).map(&mut random).collect();
            let classes: BTreeSet<_> = pods.iter().map(|(pod, _)| pod.derived.qos).collect();
            assert!(classes.len() > 1, "all pods are alike");
            order_is_strict(&Trial::of(QOSSort), &cluster([], []), &pods);
        }
    }
}
