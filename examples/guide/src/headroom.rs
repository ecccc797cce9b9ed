//! Chapters 2, 3 and 9. Headroom: keeps some memory of every node free for important pods.

use harbormaster::{api::Quantity, prelude::*, serde::Deserialize};

/// `profiles[].pluginConfig[].args`.
#[derive(Debug, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HeadroomArgs {
    /// Memory to keep free on every node.
    pub keep: Quantity,
    /// Pods of this priority or higher may use that memory.
    pub free_for_priority: i32,
}

impl Default for HeadroomArgs {
    fn default() -> Self {
        Self { keep: Quantity::from_units(1 << 30), free_for_priority: 1_000_000 }
    }
}

/// Keeps some memory of every node free for important pods.
pub struct Headroom {
    /// Memory to keep free, in bytes.
    keep: i64,
    free_for_priority: i32,
}

impl Build for Headroom {
    type Args = HeadroomArgs;

    fn build(args: HeadroomArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        let keep = args.keep.value();
        if keep < 0 {
            return Err(format!("keep: must not be negative, but is {}", args.keep).into());
        }
        Ok(Self { keep, free_for_priority: args.free_for_priority })
    }
}

impl Plugin for Headroom {
    const NAME: &'static str = "Headroom";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let more = Action::ADD | Action::UPDATE_NODE_ALLOCATABLE;
        let less = Action::DELETE | Action::UPDATE_POD_SCALE_DOWN;
        Some(vec![
            Registration::hinted(EventResource::Node, more, Self::after_node),
            Registration::hinted(EventResource::Pod, less, Self::after_pod),
        ])
    }

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&self.needed_by(pod));
    }
}

impl Headroom {
    /// Returns the memory that a node must have free for this pod, or `None` if the pod may use all of it.
    fn needed_by(&self, pod: RowPod<'_>) -> Option<i64> {
        let is_important = pod.priority() >= self.free_for_priority;
        (!is_important).then(|| pod.request().memory.saturating_add(self.keep))
    }

    /// Wakes the pod if the node is large enough.
    fn after_node(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Node { new: Some(node), .. } = change else { return Ok(Hint::Queue) };
        let helps = self.needed_by(pod.for_rows()).is_none_or(|needed| node.allocatable.memory >= needed);
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    /// Wakes the pod if another pod on a node is deleted or shrinks, or if the pod itself requests less.
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(old), .. } = change else { return Ok(Hint::Queue) };
        let helps = old.node_name.is_some() || old.uid == pod.uid;
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }
}

const TOO_LITTLE: &str = "node(s) would have too little memory left";

impl Filter<Row> for Headroom {
    fn filter(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let Some(needed) = self.needed_by(cx.pod) else { return Ok(()) };
        let (columns, at) = (cx.nodes.columns(), node.idx().at());
        if columns.memory[at].saturating_sub(columns.used_memory[at]) < needed {
            return Err(Reject::evictable(TOO_LITTLE).into());
        }
        Ok(())
    }

    fn filter_batch(&self, cx: &RowCycle<'_>, (): &(), sweep: &mut Sweep<'_>) -> PluginResult<()> {
        let Some(needed) = self.needed_by(cx.pod) else { return Ok(()) };
        let (memory, used) = (&cx.nodes.columns().memory, &cx.nodes.columns().used_memory);
        let rows = sweep.rows();
        let full = rows.iter().filter(|row| memory[row.at()].saturating_sub(used[row.at()]) < needed);
        sweep.reject_each(full, &Reject::evictable(TOO_LITTLE));
        Ok(())
    }

    fn lacks(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> Option<String> {
        let mib = |bytes: i64| bytes >> 20;
        let free = node.allocatable().memory - node.requested().memory;
        Some(format!("needs {} MiB, {} MiB free", mib(self.needed_by(cx.pod)?), mib(free)))
    }
}

#[cfg(test)]
mod tests {
    use harbormaster::{
        Scheduler,
        framework::ClusterEvent,
        testkit::{
            PodBuilder, Trial, batch_equals_single, cluster, node, pod, random::Dice, reads_are_complete,
            row_scope_holds, what_helps_wakes_anywhere,
        },
    };

    use super::*;

    fn headroom() -> Headroom {
        Headroom { keep: 2 << 30, free_for_priority: 100 }
    }

    fn takes(memory: &str) -> PodBuilder {
        pod("p").memory(memory)
    }

    #[test]
    fn some_memory_stays_free_except_for_important_pods() {
        let nodes = cluster([node("n").allocatable("4", "8Gi", 110)], [pod("there").memory("4Gi").on("n")]);
        let trial = Trial::of(headroom());
        assert_eq!(trial.verdict(&nodes, &takes("2Gi").info(), "n"), Ok(()));
        let rejected = Err(Reject::evictable("node(s) would have too little memory left"));
        assert_eq!(trial.verdict(&nodes, &takes("2049Mi").info(), "n"), rejected);
        assert_eq!(trial.verdict(&nodes, &takes("2049Mi").priority(100).info(), "n"), Ok(()));
    }

    #[test]
    fn a_large_node_wakes_the_pod_and_a_small_one_does_not() {
        let (trial, pod) = (Trial::of(headroom()), takes("3Gi").info());
        for (memory, expected) in [("4Gi", Hint::Skip), ("5Gi", Hint::Queue)] {
            let added = node("n").allocatable("4", memory, 110).build();
            let change = Change::Node { old: None, new: Some(&added) };
            let event = ClusterEvent::new(EventResource::Node, Action::ADD);
            assert_eq!(trial.hint(event, &pod, &change), Some(expected), "{memory}");
        }
    }

    #[test]
    fn a_deleted_pod_and_a_smaller_request_of_the_pod_itself_wake_it() {
        let (trial, waits) = (Trial::of(headroom()), takes("3Gi").info());
        let (there, elsewhere, itself) = (pod("q").on("n").build(), pod("q").build(), pod("p").build());
        let (deleted, smaller) = (Action::DELETE, Action::UPDATE_POD_SCALE_DOWN);
        for (changed, resource, action, expected) in [
            (&there, EventResource::AssignedPod, deleted, Hint::Queue),
            (&elsewhere, EventResource::UnschedulablePod, deleted, Hint::Skip),
            (&itself, EventResource::UnschedulablePod, smaller, Hint::Queue),
        ] {
            let change = Change::Pod { old: Some(changed), new: None };
            assert_eq!(trial.hint(ClusterEvent::new(resource, action), &waits, &change), Some(expected));
        }
    }

    #[test]
    fn it_passes_the_conformance_checks() {
        for seed in 0..10 {
            let mut dice = Dice::new(seed);
            let mut nodes = dice.cluster(6);
            let (pod, elsewhere) = (dice.pod("p").info(), dice.pod("elsewhere").info());
            let trial = Trial::of(headroom());
            batch_equals_single(&trial, &nodes, &pod);
            row_scope_holds(&trial, &mut nodes, &pod, &elsewhere);
            assert!(reads_are_complete(&trial, &nodes, &[pod, elsewhere]) > 0, "no pods were compared");
            assert!(what_helps_wakes_anywhere(&trial, &mut dice, 10, 40) > 0, "no event helped");
        }
    }

    #[test]
    fn arguments_have_defaults() {
        let config = include_str!("../headroom/scheduler.yaml");
        let (without, _) = config.split_once("  pluginConfig").unwrap();
        for config in [config, without] {
            Scheduler::builder().plugin::<Headroom>().config("scheduler.yaml", config).build().unwrap();
        }
        assert_eq!(HeadroomArgs::default().keep.value(), 1 << 30);
    }
}
