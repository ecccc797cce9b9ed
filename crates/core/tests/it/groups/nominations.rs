//! What becomes of the nominations of members that fail.

use harbormaster_api::{Pod, Release, Str, features::Features};
use harbormaster_core::EngineConfig;
use harbormaster_framework::{prelude::*, registry::Registry};
use harbormaster_plugins::gang_scheduling::PodGroupObject;
use harbormaster_testkit::profile_for;

use super::{bound, group, member};
use crate::world::{World, node};

/// Takes back the nodes of the pods with these names.
const REFUSED_BY_RESERVE: &str = "refused-by-reserve";
const REFUSED_BY_PERMIT: &str = "refused-by-permit";

#[derive(Default)]
struct Doorkeeper;

impl Plugin for Doorkeeper {
    const NAME: &'static str = "Doorkeeper";
    implemented_points!();
}

impl Reserve for Doorkeeper {
    type Reserved = ();

    fn reserve(&self, cx: &Cycle<'_>, (): &(), _: NodeRef<'_>, _: &mut Assume) -> Verdict {
        if cx.pod.name == REFUSED_BY_RESERVE { Err(Reject::evictable("not today").into()) } else { Ok(()) }
    }

    fn unreserve(&self, _: &Placement, _: &mut Vec<ApiCall>) {}
}

impl Permit for Doorkeeper {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, _: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        match cx.pod.name == REFUSED_BY_PERMIT {
            true => Err(Reject::evictable("not today").into()),
            false => Ok(Permitted::Allow),
        }
    }
}

fn world() -> World {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Doorkeeper>();
    World::with(EngineConfig::new(vec![profile_for(
        Features::of(Release::V1_37),
        &registry,
        &[
            ("PreEnqueue", &["GangScheduling"]),
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", &["NodeResourcesFit"]),
            ("Filter", &["NodeResourcesFit"]),
            ("Reserve", &["Doorkeeper"]),
            ("Permit", &["Doorkeeper", "GangScheduling"]),
            ("Bind", &["DefaultBinder"]),
        ],
        &[],
    )]))
}

/// A member that is nominated to the node `n`.
fn nominated(name: &str, milli_cpu: i64) -> Pod {
    let mut pod = member(name, "g", milli_cpu);
    pod.status.nominated_node_name = Some("n".into());
    pod
}

/// A group after its first attempt, in which one member is placed and the other one fails.
fn world_with(min_count: u32, failing: Pod) -> World {
    let mut world = world();
    world.set_node(node("n", 4000));
    world.tell::<PodGroupObject>(&group("g", min_count));
    world.add_pod(member("g-0", "g", 1000));
    world.add_pod(failing);
    world.attempt();
    world
}

#[test]
fn a_member_that_loses_its_node_to_reserve_or_permit_loses_its_nomination() {
    for name in [REFUSED_BY_RESERVE, REFUSED_BY_PERMIT] {
        for (min_count, placed) in [(1, &["g-0"][..]), (2, &[])] {
            let mut world = world_with(min_count, nominated(name, 1000));
            assert_eq!(bound(&mut world), placed, "{name}, {min_count}");
            assert_eq!(world.nominations(), [(name.to_owned(), None)], "{name}, {min_count}");
        }
    }
}

#[test]
fn a_member_for_which_there_is_no_node_keeps_its_nomination() {
    for min_count in [1, 2] {
        assert_eq!(world_with(min_count, nominated("large", 5000)).nominations(), []);
    }
}
