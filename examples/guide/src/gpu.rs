//! Chapter 1. Gpu: places pods by GPU memory and clock speed, as given by labels on pods and nodes.

use harbormaster::{api::Labels, prelude::*};

/// Pod label: pods with a higher number are tried first.
const URGENCY: &str = "example.com/urgency";
/// Pod and node label: GPU memory in GiB that a pod needs, or that a node has.
const MEMORY: &str = "example.com/gpu-memory";
/// Node label: clock speed in MHz.
const CLOCK: &str = "example.com/gpu-clock";

/// Returns the number in a label, or 0 if it is missing or not a number.
fn number(labels: &Labels, key: &str) -> i64 {
    labels.get(key).and_then(|text| text.parse::<u32>().ok()).map_or(0, i64::from)
}

fn number_of(node: NodeRef<'_>, key: &str) -> i64 {
    node.labels().map_or(0, |labels| number(labels, key))
}

/// Places pods by GPU memory and clock speed.
#[derive(Default)]
pub struct Gpu;

/// The largest values among the candidate nodes. PreScore computes them for Score.
#[derive(Default)]
pub struct Best {
    memory: i64,
    clock: i64,
}

impl Plugin for Gpu {
    const NAME: &'static str = "Gpu";
    implemented_points!();
}

impl QueueSort for Gpu {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        let (first, second) = (number(&a.pod.labels, URGENCY), number(&b.pod.labels, URGENCY));
        first > second || (first == second && a.since < b.since)
    }
}

impl Filter for Gpu {
    fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        if number_of(node, MEMORY) < number(&cx.pod.labels, MEMORY) {
            return Err(Reject::unresolvable("node(s) have too little GPU memory").into());
        }
        Ok(())
    }
}

impl PreScore<WholeCluster, (), Best> for Gpu {
    fn pre_score(&self, cx: &Cycle<'_>, (): &(), candidates: &NodeSet) -> PluginResult<PreScored<Best>> {
        if number(&cx.pod.labels, MEMORY) == 0 {
            return Ok(PreScored::Skip);
        }
        let mut best = Best::default();
        for node in candidates.iter().map(|row| cx.nodes.node(row)) {
            best.memory = best.memory.max(number_of(node, MEMORY));
            best.clock = best.clock.max(number_of(node, CLOCK));
        }
        Ok(PreScored::Continue(best))
    }
}

impl Score<WholeCluster, Best> for Gpu {
    const NORMALIZE: Normalize = Normalize::Proportional { reverse: false };

    fn score(&self, _: &Cycle<'_>, best: &Best, node: NodeRef<'_>) -> PluginResult<i64> {
        let share = |key, best: i64| 100 * number_of(node, key) / best.max(1);
        Ok(share(MEMORY, best.memory) + share(CLOCK, best.clock))
    }
}

#[cfg(test)]
mod tests {
    use harbormaster::{
        api::Timestamp,
        testkit::{NodeBuilder, Trial, cluster, node, pod},
    };

    use super::*;

    fn gpu(name: &str, memory: &str, clock: &str) -> NodeBuilder {
        node(name).label(MEMORY, memory).label(CLOCK, clock)
    }

    #[test]
    fn a_pod_fits_where_there_is_enough_gpu_memory() {
        let nodes = cluster([gpu("small", "8", "1500"), gpu("large", "24", "1500"), node("none")], []);
        let trial = Trial::of(Gpu);
        let too_little = Err(Reject::unresolvable("node(s) have too little GPU memory"));
        let pod = pod("p").label(MEMORY, "16").info();
        assert_eq!(trial.verdict(&nodes, &pod, "large"), Ok(()));
        assert_eq!(trial.verdict(&nodes, &pod, "small"), too_little);
        assert_eq!(trial.verdict(&nodes, &pod, "none"), too_little);
    }

    #[test]
    fn the_best_node_scores_100_and_the_others_proportionally() {
        let nodes = cluster([gpu("a", "24", "1500"), gpu("b", "12", "1500"), gpu("c", "12", "750")], []);
        let trial = Trial::of(Gpu);
        assert_eq!(
            trial.raw_scores(&nodes, &pod("p").label(MEMORY, "8").info()).unwrap(),
            Some(vec![200, 150, 100])
        );
        assert_eq!(
            trial.scores(&nodes, &pod("p").label(MEMORY, "8").info()).unwrap(),
            Some(vec![100, 75, 50])
        );
        assert_eq!(trial.scores(&nodes, &pod("plain").info()).unwrap(), None);
    }

    #[test]
    fn urgent_pods_go_first_and_then_those_that_have_waited_longest() {
        let (urgent, plain) =
            (pod("urgent").label(URGENCY, "9").info(), pod("plain").label(URGENCY, "?").info());
        let at = |pod, since| Queued::pod(pod, Timestamp(since));
        assert!(Gpu.less(at(&urgent, 2), at(&plain, 1)) && !Gpu.less(at(&plain, 1), at(&urgent, 2)));
        assert!(Gpu.less(at(&plain, 1), at(&plain, 2)) && !Gpu.less(at(&plain, 1), at(&plain, 1)));
    }
}
