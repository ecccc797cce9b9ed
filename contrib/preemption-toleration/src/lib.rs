//! PreemptionToleration: preemption that spares pods whose priority class tolerates it for a while.
//!
//! The plugin has the name, the arguments and the annotations of the plugin of
//! [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins). `README.md` lists the differences.
//!
//! Reading order: [`policy`] (which pods are protected), then this file.

pub mod policy;

use std::cell::Cell;

use harbormaster::{
    api::{Str, Timestamp},
    preemption::{DefaultPreemption, DefaultPreemptionArgs, EvictionTerms},
    prelude::*,
};

use policy::{NEVER, PriorityClass};

/// Preempts pods, but none that its priority class protects. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct PreemptionToleration(DefaultPreemption);

impl Plugin for PreemptionToleration {
    const NAME: &'static str = "PreemptionToleration";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        // Pods that leave their nodes are the reason why PreEnqueue is called again. The plugins that rejected a pod
        // wake it.
        Some(vec![Registration::hinted(EventResource::AssignedPod, Action::DELETE, Self::after_pod)])
    }
}

impl Build for PreemptionToleration {
    type Args = DefaultPreemptionArgs;

    fn build(args: DefaultPreemptionArgs, cx: &BuildCycle) -> Result<Self, PluginError> {
        let (percentage, absolute) = (args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute);
        let (share, number) = ("minCandidateNodesPercentage", "minCandidateNodesAbsolute");
        if !(0..=100).contains(&percentage) {
            return Err(format!("{share}: Invalid value: {percentage}: not in valid range [0, 100]").into());
        }
        if absolute < 0 {
            return Err(format!("{number}: Invalid value: {absolute}: not in valid range [0, inf)").into());
        }
        if (percentage, absolute) == (0, 0) {
            return Err(
                format!("{share}: Invalid value: 0: cannot be zero at the same time as {number}").into()
            );
        }
        DefaultPreemption::build(args, cx).map(Self)
    }
}

impl Watches for PreemptionToleration {
    type Resources = PriorityClass;
}

/// Keeps pods out of the queue while pods are being evicted for them, as DefaultPreemption does.
impl PreEnqueue for PreemptionToleration {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        self.0.pre_enqueue(cx)
    }
}

impl PostFilter for PreemptionToleration {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, (): &()) -> PluginResult<PostFiltered> {
        let classes = self.watched(cx.what_if.objects());
        // The classes are copied, because the search changes the cluster.
        let classes = classes.all().map(|class| (class.metadata.name.clone(), class.object)).collect();
        let (preemptor, now) = (cx.pod.priority(), cx.what_if.now());
        let mut terms = Tolerations { classes, preemptor, now, first_end: Cell::new(NEVER) };
        let answer = self.0.post_filter_with(cx, &mut terms)?;
        let first_end = terms.first_end.get();
        if first_end < NEVER && !matches!(answer, PostFiltered::Nominate { .. }) {
            cx.try_again_at(first_end);
        }
        Ok(answer)
    }
}

/// Spares the pods that their priority classes protect.
struct Tolerations {
    classes: Vec<(Str, PriorityClass)>,
    preemptor: i32,
    now: Timestamp,
    /// Earliest end of the protection of a pod that was spared.
    first_end: Cell<Timestamp>,
}

impl EvictionTerms for Tolerations {
    fn ceiling(&self) -> i32 {
        self.preemptor
    }

    fn spares(&self, pod: &PodInfo) -> bool {
        let class = pod.spec.priority_class.as_ref();
        let class = class.and_then(|name| self.classes.iter().find(|(other, _)| other == name));
        let end = class.and_then(|(_, class)| class.protected_until(pod, self.preemptor, self.now));
        let Some(end) = end else { return false };
        self.first_end.set(self.first_end.get().min(end));
        true
    }
}

impl PreemptionToleration {
    /// Never wakes the pod.
    fn after_pod(&self, _: &PodInfo, _: &Change<'_>) -> PluginResult<Hint> {
        Ok(Hint::Skip)
    }
}

#[cfg(test)]
mod tests;
