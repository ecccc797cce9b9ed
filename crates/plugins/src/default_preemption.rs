//! DefaultPreemption: a pod that fits nowhere may take the place of pods of lower priority.
//!
//! # What it does
//! PreEnqueue, PostFilter. PostFilter looks for the node on which evicting the least important pods would make room,
//! and nominates the pod to it; the engine evicts the victims. Four steps, one file each: may the pod preempt at all
//! (`eligibility`), on which nodes evictions would help (`search`, with `bound` and `quota`) and of which pods (`victims`,
//! with `importance` and `budgets`), and which node is best (`choice`).
//!
//! The search looks at every node that evictions might open up. It works out the least that each can cost, tries the most
//! promising first, and ends when no other node can be better. If promises are not kept, because it is not requests that
//! stand in the way, it ends after 1,000 nodes, or a tenth of them if that is more. With `--parity`, or with arguments
//! other than the defaults, it tries one node after the other until there are enough candidates.
//!
//! # Rejects when
//! PreEnqueue: victims are being evicted for this pod: `waiting for the preemption for this pod to be finished`.
//! PostFilter helps or says why not, always after `preemption: `:
//! - `not eligible due to preemptionPolicy=Never.`
//! - `not eligible due to a terminating pod on the nominated node.`: an earlier preemption is not over.
//! - `not eligible due to workload aware preemption enabled`, with that gate, for pods of a group.
//! - `no candidate node for preemption`: extenders agree to no eviction.
//! - `0/N nodes are available: …`: no node can be helped. Nodes without pods of lower priority count as `No preemption
//!   victims found for incoming pod`, nodes on which a filter rejects even so with that filter's reasons, and nodes
//!   that no eviction opens up as `Preemption is not helpful for scheduling`. Only this answer clears the pod's
//!   nomination.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! Nothing of its own: it listens to the end of pods, so that a pod held back by PreEnqueue is looked at again, and
//! leaves it to the plugins that rejected the pod whether it is tried.
//!
//! # Differs from kube-scheduler
//! A missing `status.startTime` means "now" to kube-scheduler. There is no clock here: a pod without one counts as
//! started later than any pod with one. Of such pods of equal priority on one node the last to join counts as most
//! important, which is what kube-scheduler's sorting makes of them; between nodes they are equal. Equal nodes: the
//! first one found is taken, where kube-scheduler's choice is random. By default the search looks at all nodes. It begins
//! at a pseudo-random node that is the same in every run, and a search that stops early stops exactly when it has seen
//! enough nodes. Eviction never blocks the scheduler, hence PreEnqueue holds pods back whatever the gate `SchedulerAsyncPreemption` says. Scheduling
//! constraints of pod groups are not known.

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

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct DefaultPreemption {
    args: DefaultPreemptionArgs,
    /// Groups of pods are preempted for as a whole, not pod by pod.
    workload_aware: bool,
}

impl Plugin for DefaultPreemption {
    const NAME: &'static str = "DefaultPreemption";
    type FilterState = ();
    type ScoreState = ();

    fn points(points: &mut Points<Self>) {
        points.pre_enqueue().post_filter();
    }

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
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, _: &Self::FilterState) -> PluginResult<PostFiltered> {
        if let Some(why) = eligibility::obstacle(cx, self.workload_aware) {
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
        // When extenders leave none, the nomination stays.
        let agreed = cx.what_if.agreed(search.candidates).map_err(|error| prefixed(&error.to_string()))?;
        let Some(best) = choice::best(agreed) else {
            return Ok(no_help(REASON_NO_CANDIDATE, Nomination::Keep));
        };
        let node = cx.what_if.nodes().node(best.row).name().clone();
        Ok(PostFiltered::Nominate { node, victims: best.victims })
    }
}

impl DefaultPreemption {
    /// Pods that are held back always have other plugins that rejected them: those decide.
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
