//! DefaultPreemption: evicts pods of lower priority if a pod does not fit on any node.
//!
//! # What it does
//! Extension points: PreEnqueue, PostFilter, PodGroupPostFilter. PostFilter finds the node where evicting the least important pods makes
//! room, and nominates the pod to that node; the engine evicts the victims. Each of its four steps has its own file:
//! checking that the pod may preempt (`eligibility`), searching for nodes where evictions help (`search`, with `bound`
//! and `quota`), choosing the victims on a node (`victims`, with `importance`, `budgets` and `terms`), and choosing the best
//! node (`choice`). PodGroupPostFilter evicts pods from any number of nodes so that a group can be placed (`group`).
//!
//! Victims are units (`unit`): a pod or, if a group is disrupted as a whole, all of its pods on all nodes. The priority
//! of a unit is that of the group, and groups are more important than single pods of equal priority.
//!
//! The search considers every node where evictions might make room. It computes a lower bound on the cost of the
//! evictions on each node, tries the most promising node first, and stops when no other node can be better. The bounds
//! are too optimistic if something other than resource requests prevents scheduling. The search therefore also stops
//! after 1,000 nodes, or a tenth of the nodes considered if that is more, once it has a candidate that violates no
//! disruption budget. With `--parity`, or with arguments other than the defaults, it tries the nodes in order until it
//! has enough candidates.
//!
//! # Rejects when
//! PreEnqueue rejects the pod while victims are being evicted for it: `waiting for the preemption for this pod to be
//! finished`. PostFilter nominates a node (from Kubernetes 1.37, with the reason `preemption: found a potential
//! placement for pod on node N, preempting K victims`) or gives one of these reasons, prefixed with `preemption: `:
//! - `not eligible due to preemptionPolicy=Never.`
//! - `not eligible due to a terminating pod on the nominated node.`: an earlier preemption is still in progress.
//! - `not eligible due to workload aware preemption enabled`: for pods of a group, if the feature gate for
//!   workload-aware preemption is enabled.
//! - `no candidate node for preemption`: the extenders reject every candidate.
//! - `0/N nodes are available: …`: no eviction helps. A node without pods of lower priority is counted under `No
//!   preemption victims found for incoming pod`. A node that a filter rejects even after all evictions is counted under
//!   that filter's reasons, and a node on which evictions cannot help is counted under `Preemption is not helpful for
//!   scheduling`. Only this outcome clears the pod's nomination.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! The deletion or termination of a pod, so that a pod held back by PreEnqueue is checked again. Whether the pod is
//! then retried is up to the plugins that rejected it.
//!
//! # Differs from kube-scheduler
//! - A missing `status.startTime` means "now" in kube-scheduler. This plugin has no clock: it treats a pod without a
//!   start time as having started after all others. Among pods of equal priority without a start time, the last one
//!   to join a node (from Kubernetes 1.37, the first one) is the most important on that node, as in kube-scheduler. Across
//!   nodes, such pods are equally important.
//! - Among equally good nodes, the first one found wins; kube-scheduler's choice is random.
//! - The default search considers all nodes. It starts at a pseudo-random node that is the same in every run. A
//!   search that stops early tries no further node, whereas kube-scheduler searches in parallel and may try more
//!   nodes than it needs.
//! - Evictions never block the scheduler, so PreEnqueue holds pods back whether or not the `SchedulerAsyncPreemption`
//!   feature gate is enabled.

mod bound;
mod budgets;
mod choice;
mod eligibility;
mod group;
mod importance;
mod quota;
mod search;
mod terms;
mod unit;
mod victims;

use std::borrow::Cow;

use harbormaster_api::{Release, args::DefaultPreemptionArgs, features::Feature};
use harbormaster_framework::prelude::*;

use search::Search;
use terms::ByPriority;
pub use terms::EvictionTerms;

const REASON_WAITS: &str = "waiting for the preemption for this pod to be finished";
const REASON_GROUP_WAITS: &str = "waiting for the preemption for this pod group to be finished";
const REASON_NO_CANDIDATE: &str = "no candidate node for preemption";

/// Evicts pods of lower priority. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct DefaultPreemption {
    args: DefaultPreemptionArgs,
    /// True if preemption treats a pod group as a whole, not pod by pod.
    workload_aware: bool,
    /// True if the pod's message tells that victims were found.
    reports_success: bool,
    rules: Rules,
}

/// Rules that differ between the releases of Kubernetes.
#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    /// True if an eviction uses up no further budget after the first that it violates.
    stops_at_violation: bool,
    /// True if pods that have not started change places when they are sorted; see [`importance::sort`].
    reverses_unstarted: bool,
}

impl Plugin for DefaultPreemption {
    const NAME: &'static str = "DefaultPreemption";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::hinted(EventResource::AssignedPod, Action::DELETE, Self::after_pod)])
    }
}

impl Build for DefaultPreemption {
    type Args = DefaultPreemptionArgs;

    fn build(args: Self::Args, cx: &BuildCycle) -> Result<Self, PluginError> {
        let newer = cx.features.release() >= Release::V1_37;
        Ok(Self {
            args,
            workload_aware: cx.features.enabled(Feature::WorkloadAwarePreemption),
            reports_success: newer,
            rules: Rules { stops_at_violation: newer, reverses_unstarted: !newer },
        })
    }
}

impl PreEnqueue for DefaultPreemption {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        let why = if cx.group.is_some() { REASON_GROUP_WAITS } else { REASON_WAITS };
        if cx.awaits_eviction { Err(Reject::unresolvable(why).into()) } else { Ok(()) }
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, _: &()) -> PluginResult<PostFiltered> {
        self.post_filter_with(cx, &mut ByPriority(cx.pod.priority()))
    }
}

impl DefaultPreemption {
    /// Like PostFilter, but on other terms. For plugins that protect some pods, or that share the cluster by other rules
    /// than priority.
    ///
    /// # Errors
    /// If an extender or a Filter plugin fails.
    pub fn post_filter_with<T: EvictionTerms>(
        &self,
        cx: &mut PostFilterCycle<'_>,
        terms: &mut T,
    ) -> PluginResult<PostFiltered> {
        if let Some(why) = eligibility::ineligible_reason(cx, self.workload_aware, terms) {
            return Ok(no_help(why, Nomination::Keep));
        }
        let mut search = Search::new(self.rules);
        search.run(&self.args, cx.pod, cx.what_if, terms);
        if search.candidates.is_empty() {
            if let Some(error) = search.error() {
                return Err(prefixed(&error).into());
            }
            return Ok(no_help(&search.message(cx.what_if.nodes().node_count()), Nomination::Clear));
        }
        // If the extenders reject all candidates, the pod keeps its nomination.
        let agreed = cx.what_if.agreed(search.candidates).map_err(|error| prefixed(&error.to_string()))?;
        let Some(best) = choice::best(agreed) else {
            return Ok(no_help(REASON_NO_CANDIDATE, Nomination::Keep));
        };
        let node = cx.what_if.nodes().node(best.row).name().clone();
        let found = || {
            let victims = best.victims.len();
            prefixed(&format!(
                "found a potential placement for pod on node {node}, preempting {victims} victims"
            ))
        };
        let reasons = self.reports_success.then(found).into_iter().map(Cow::Owned).collect();
        let EvictionPlan { victims, violations, .. } = best;
        Ok(PostFiltered::Nominate { node, victims, violations, reasons })
    }
}

impl DefaultPreemption {
    /// Like PodGroupPostFilter, but on other terms.
    ///
    /// # Errors
    /// If a plugin fails.
    pub fn group_post_filter_with<T: EvictionTerms>(
        &self,
        cx: &mut GroupPostFilterCycle<'_>,
        terms: &mut T,
    ) -> PluginResult<GroupPostFiltered> {
        group::preempt(cx, self.rules, terms)
    }
}

impl PodGroupPostFilter for DefaultPreemption {
    fn group_post_filter(
        &self,
        cx: &mut GroupPostFilterCycle<'_>,
        _: &[Option<&()>],
    ) -> PluginResult<GroupPostFiltered> {
        let priority = group::priority(cx).unwrap_or_default();
        self.group_post_filter_with(cx, &mut ByPriority(priority))
    }
}

impl DefaultPreemption {
    /// Never wakes the pod. A pod that is held back was rejected by other plugins, whose hints decide whether to wake
    /// it.
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
