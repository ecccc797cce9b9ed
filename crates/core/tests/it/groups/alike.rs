//! Members that are like one that has just failed fail in the same way without an attempt.

use std::cell::RefCell;

use harbormaster_api::{Release, features::Features};
use harbormaster_core::EngineConfig;
use harbormaster_framework::{prelude::*, registry::Registry};
use harbormaster_plugins::gang_scheduling::PodGroupObject;
use harbormaster_testkit::profile_for;

use super::{bound, group, member};
use crate::world::{World, node};

thread_local! {
    static TRIED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes which pods are tried. Pods with the same label `kind` are alike.
#[derive(Default)]
struct Tally;

impl Plugin for Tally {
    const NAME: &'static str = "Tally";
    implemented_points!();

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        let kind = pod.labels.get("kind").ok_or(Unsignable)?;
        Ok(vec![SignFragment { key: "kind", value: kind.to_string() }])
    }
}

impl PreFilter for Tally {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<()>, Stop> {
        TRIED.with_borrow_mut(|tried| tried.push(cx.pod.name.to_string()));
        Ok(PreFiltered::state(()))
    }
}

fn world() -> World {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Tally>();
    World::with(EngineConfig::new(vec![profile_for(
        Features::of(Release::V1_37),
        &registry,
        &[
            ("PreEnqueue", &["GangScheduling"]),
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", &["Tally", "NodeResourcesFit"]),
            ("Filter", &["NodeResourcesFit"]),
            ("Permit", &["GangScheduling"]),
            ("Bind", &["DefaultBinder"]),
        ],
        &[],
    )]))
}

/// Tries a group of these members once: their names, values of the label `kind`, and requests. Returns the names of those that
/// were tried, and of those that were bound.
fn tried(members: &[(&str, Option<&str>, i64)]) -> (Vec<String>, Vec<String>) {
    let mut world = world();
    world.set_node(node("n", 2000));
    world.tell::<PodGroupObject>(&group("g", 0));
    for (name, kind, milli_cpu) in members {
        let mut pod = member(name, "g", *milli_cpu);
        pod.labels = kind.map(|kind| ("kind", kind)).into_iter().collect();
        world.add_pod(pod);
    }
    TRIED.take();
    world.attempt();
    (TRIED.take(), bound(&mut world))
}

#[test]
fn only_the_first_of_many_equal_members_is_tried_in_vain() {
    let equal = ["a", "b", "c", "d", "e"].map(|name| (name, Some("x"), 1000));
    assert_eq!(tried(&equal).0, ["a", "b", "c"]);
}

#[test]
fn members_that_differ_or_cannot_be_compared_are_tried() {
    let large = |name: &'static str, kind| (name, kind, 3000);
    for others in [
        [large("b", Some("y")), large("c", Some("x"))],
        [("b", Some("x"), 4000), ("c", Some("x"), 5000)],
        [large("b", None), large("c", None)],
    ] {
        let members = [&[large("a", Some("x"))][..], &others].concat();
        assert_eq!(tried(&members).0, ["a", "b", "c"]);
    }
}

#[test]
fn a_member_is_tried_if_another_one_has_got_a_node_since() {
    let members = [("a", Some("x"), 3000), ("b", Some("x"), 1000), ("c", Some("x"), 3000)];
    assert_eq!(tried(&members), (vec!["a".into(), "b".into(), "c".into()], vec!["b".into()]));
}
