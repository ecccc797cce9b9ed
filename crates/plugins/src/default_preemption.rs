//! DefaultPreemption: evicts pods of lower priority if a pod fits no node.
//!
//! # What it does
//! PreEnqueue, PostFilter. PostFilter finds the node where evicting the least important pods makes room, and nominates
//! the pod to it; the engine evicts the victims. There are four steps, each in its own file: whether the pod may
//! preempt (`eligibility`), on which nodes evictions help (`search`, with `bound` and `quota`), which pods to evict
//! (`victims`, with `importance` and `budgets`), and which node is best (`choice`).
//!
//! The search considers every node that evictions might open up. It computes a lower bound of each node's cost, tries
//! the most promising node first, and ends when no other node can be better. If the bounds are too optimistic, because
//! something other than requests prevents scheduling, it ends after 1,000 nodes or a tenth of them, whichever is more.
//! With `--parity`, or with arguments other than the defaults, it tries one node after another until it has enough
//! candidates.
//!
//! # Rejects when
//! PreEnqueue: victims are being evicted for this pod: `waiting for the preemption for this pod to be finished`.
//! PostFilter nominates a node or gives a reason, always after `preemption: `:
//! - `not eligible due to preemptionPolicy=Never.`
//! - `not eligible due to a terminating pod on the nominated node.`: an earlier preemption is still in progress.
//! - `not eligible due to workload aware preemption enabled`: with that gate, for pods of a group.
//! - `no candidate node for preemption`: extenders accept no eviction.
//! - `0/N nodes are available: …`: no eviction helps. Nodes without pods of lower priority are counted as `No
//!   preemption victims found for incoming pod`; nodes that a filter rejects even after all evictions, with that
//!   filter's reasons; and nodes that no eviction opens up, as `Preemption is not helpful for scheduling`. Only this
//!   answer clears the pod's nomination.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! The end of a pod, so that a pod held back by PreEnqueue is checked again. Whether the pod is tried is left to the
//! plugins that rejected it.
//!
//! # Differs from kube-scheduler
//! - A missing `status.startTime` means "now" in kube-scheduler. Here there is no clock: such a pod counts as started
//!   later than all others. Among such pods of equal priority on one node, the last to join is the most important,
//!   which is the result of kube-scheduler's sorting; across nodes they are equal.
//! - Among equally good nodes the first one found wins; kube-scheduler's choice is random.
//! - The default search considers all nodes. It starts at a pseudo-random node that is the same in every run, and a
//!   search that stops early stops exactly when it has seen enough nodes.
//! - Evictions never block the scheduler, so PreEnqueue holds pods back regardless of the gate
//!   `SchedulerAsyncPreemption`.
//! - Scheduling constraints of pod groups are not supported.

mod bound;
mod budgets;
mod choice;
mod eligibility;
mod importance;
mod quota;
mod search;
mod victims;

use std::borrow::Cow;

use harbormaster_api::{args::DefaultPreemptionArgs, features::Feature};
use harbormaster_framework::prelude::*;

use search::Search;

const REASON_WAITS: &str = "waiting for the preemption for this pod to be finished";
const REASON_NO_CANDIDATE: &str = "no candidate node for preemption";

/// Evicts pods of lower priority. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct DefaultPreemption {
    args: DefaultPreemptionArgs,
    /// True if pod groups are preempted for as a whole, not pod by pod.
    workload_aware: bool,
}

impl Plugin for DefaultPreemption {
    const NAME: &'static str = "DefaultPreemption";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::hinted(EventResource::Pod, Action::DELETE, Self::after_pod)])
    }
}

impl Build for DefaultPreemption {
    type Args = DefaultPreemptionArgs;

    fn build(args: Self::Args, cx: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { args, workload_aware: cx.features.enabled(Feature::WorkloadAwarePreemption) })
    }
}

impl PreEnqueue for DefaultPreemption {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        if cx.awaits_eviction { Err(Reject::unresolvable(REASON_WAITS).into()) } else { Ok(()) }
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, _: &()) -> PluginResult<PostFiltered> {
        if let Some(why) = eligibility::ineligible_reason(cx, self.workload_aware) {
            return Ok(no_help(why, Nomination::Keep));
        }
        let mut search = Search::default();
        search.run(&self.args, cx.pod, cx.what_if);
        if search.candidates.is_empty() {
            if let Some(error) = search.error() {
                return Err(prefixed(&error).into());
            }
            return Ok(no_help(&search.message(cx.what_if.nodes().node_count()), Nomination::Clear));
        }
        // If extenders reject all candidates, the nomination stays.
        let agreed = cx.what_if.agreed(search.candidates).map_err(|error| prefixed(&error.to_string()))?;
        let Some(best) = choice::best(agreed) else {
            return Ok(no_help(REASON_NO_CANDIDATE, Nomination::Keep));
        };
        let node = cx.what_if.nodes().node(best.row).name().clone();
        Ok(PostFiltered::Nominate { node, victims: best.victims })
    }
}

impl DefaultPreemption {
    /// Never wakes the pod: a pod that is held back was rejected by other plugins, and their hints decide.
    fn after_pod(&self, _: &PodInfo, _: &Change<'_>) -> PluginResult<Hint> {
        Ok(Hint::Skip)
    }
}

fn no_help(why: &str, nomination: Nomination) -> PostFiltered {
    PostFiltered::NoHelp { reasons: vec![Cow::Owned(prefixed(why))], nomination }
}

fn prefixed(text: &str) -> String {
    format!("preemption: {text}")
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
