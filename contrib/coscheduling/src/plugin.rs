//! Extension points of the plugin, and the changes after which a group is tried again.

use std::time::Duration;

use harbormaster::{
    api::{Pod, Str},
    prelude::*,
};

use crate::{
    args::Args,
    pod_group::{self, PodGroup, are_members},
};

/// Places the pods of a group together. See the [crate's documentation](crate).
#[derive(Clone, Copy, Debug)]
pub struct Coscheduling {
    permit_wait: Duration,
}

impl Plugin for Coscheduling {
    const NAME: &'static str = "Coscheduling";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![
            Registration::hinted(EventResource::Pod, Action::ADD, Self::after_pod),
            Registration::on(Action::ADD | Action::UPDATE, Self::after_group),
        ])
    }
}

impl Build for Coscheduling {
    type Args = Args;

    fn build(args: Args, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { permit_wait: args.permit_wait()? })
    }
}

impl Groups for Coscheduling {
    type Object = PodGroup;

    fn group_of(&self, pod: &Pod) -> Option<Str> {
        pod_group::group_of(pod).cloned()
    }

    fn describe(&self, group: &Custom<PodGroup>) -> GroupSpec {
        let min_count = group.spec.min_member.max(1) as usize;
        GroupSpec { policy: GroupPolicy::Gang { min_count }, ..GroupSpec::default() }
    }
}

/// Older configurations name the plugin in `queueSort`.
impl QueueSort for Coscheduling {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        let (first, second) = (a.priority(), b.priority());
        first > second || (first == second && a.since < b.since)
    }
}

impl PreEnqueue for Coscheduling {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        let Some(group) = cx.group.filter(|group| group.pods < group.min_count()) else { return Ok(()) };
        let (pod, pods, min_count) = (&cx.pod.name, group.pods, group.min_count());
        Err(Reject::unresolvable(format!(
            "pre-filter pod {pod} cannot find enough sibling pods, current pods number: {pods}, \
             minMember of group: {min_count}"
        ))
        .into())
    }
}

/// Existing configurations name the plugin in `preFilter`. There is nothing to do: a group is placed as a whole.
impl PreFilter for Coscheduling {
    fn pre_filter(&self, _: &Cycle<'_>) -> Result<PreFiltered<()>, Stop> {
        Ok(PreFiltered::Skip)
    }
}

/// Existing configurations name the plugin in `postFilter`. There is nothing to do: a group that fits nowhere holds no
/// nodes that it would have to give up.
impl PostFilter for Coscheduling {
    fn post_filter(&self, _: &mut PostFilterCycle<'_>, _: &()) -> PluginResult<PostFiltered> {
        Ok(PostFiltered::NoHelp { reasons: Vec::new(), nomination: Nomination::Keep })
    }
}

/// Existing configurations name the plugin in `reserve`. There is nothing to reserve.
impl Reserve for Coscheduling {
    type Reserved = ();

    fn reserve(&self, _: &Cycle<'_>, (): &(), _: NodeRef<'_>, _: &mut Assume) -> Result<(), Stop> {
        Ok(())
    }

    fn unreserve(&self, _: &Placement, _: &mut Vec<ApiCall>) {}
}

impl Permit for Coscheduling {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, waiting: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        let Some(group) = cx.group else { return Ok(Permitted::Allow) };
        if group.scheduled < group.min_count() {
            return Ok(Permitted::Wait(self.permit_wait));
        }
        for (pod, _) in waiting.list() {
            if are_members(&pod, cx.pod) {
                waiting.allow(&pod.uid);
            }
        }
        Ok(Permitted::Allow)
    }
}

impl Coscheduling {
    /// A new member may complete its group.
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        Ok(match change {
            Change::Pod { new: Some(new), .. } if are_members(new, pod) => Hint::Queue,
            _ => Hint::Skip,
        })
    }

    /// A group that needs fewer members may be complete.
    fn after_group(&self, pod: &PodInfo, change: Changed<'_, PodGroup>) -> PluginResult<Hint> {
        let Some(new) = change.new else { return Ok(Hint::Skip) };
        let metadata = &new.metadata;
        let is_own = pod_group::group_of(pod) == Some(&metadata.name) && pod.namespace == metadata.namespace;
        let needs_fewer = change.old.is_none_or(|old| new.spec.min_member < old.spec.min_member);
        Ok(if is_own && needs_fewer { Hint::Queue } else { Hint::Skip })
    }
}

#[cfg(test)]
mod tests {
    use harbormaster::testkit::{custom, pod};

    use super::*;

    fn plugin() -> Coscheduling {
        Coscheduling { permit_wait: Duration::from_secs(60) }
    }

    fn group(min_member: u32) -> Custom<PodGroup> {
        let metadata = harbormaster::serde_json::json!({"name": "g", "namespace": "default"});
        let spec = harbormaster::serde_json::json!({ "minMember": min_member });
        custom(&harbormaster::serde_json::json!({ "metadata": metadata, "spec": spec }))
    }

    #[test]
    fn the_label_names_the_group_and_the_object_its_minimum() {
        let member = pod("a").label(pod_group::LABEL, "g").info();
        assert_eq!(plugin().group_of(&member).as_deref(), Some("g"));
        assert_eq!(plugin().group_of(&pod("b").info()), None);
        assert_eq!(plugin().describe(&group(3)).min_count(), 3);
        assert_eq!(plugin().describe(&group(0)).min_count(), 1);
    }

    #[test]
    fn new_members_and_smaller_minimums_wake_a_group() {
        let member = |name| pod(name).label(pod_group::LABEL, "g").info();
        let after = |new: &PodInfo| {
            plugin().after_pod(&member("a"), &Change::Pod { old: None, new: Some(&new.pod) }).unwrap()
        };
        assert_eq!((after(&member("b")), after(&pod("c").info())), (Hint::Queue, Hint::Skip));
        for (old, new, expected) in [(3, 2, Hint::Queue), (2, 3, Hint::Skip), (2, 2, Hint::Skip)] {
            let (old, new) = (group(old), group(new));
            let change = Changed { old: Some(&old), new: Some(&new) };
            assert_eq!(plugin().after_group(&member("a"), change).unwrap(), expected);
        }
    }

    #[test]
    fn arguments_out_of_range_are_refused() {
        for (args, error) in [
            (
                Args { permit_waiting_time_seconds: -1, ..Args::default() },
                "permitWaitingTimeSeconds: Invalid value: -1: must be greater than 0",
            ),
            (
                Args { pod_group_reject_percentage: 101, ..Args::default() },
                "podGroupRejectPercentage: Invalid value: 101: must be between 0 and 100",
            ),
        ] {
            assert_eq!(args.permit_wait().unwrap_err().to_string(), error);
        }
        assert_eq!(Args::default().permit_wait().unwrap(), Duration::from_secs(60));
    }
}
