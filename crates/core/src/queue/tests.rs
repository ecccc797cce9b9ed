//! Compares the queue with a naive model, and the queue's index of rejectors with a newly computed one.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use harbormaster_api::{Pod, PodSpec, Str, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    events::{Action, ClusterEvent, EventResource},
    pod::PodInfo,
    prelude::*,
    profile::{Profile, ProfileSpec},
    registry::Registry,
};
use proptest::prelude::*;

use super::{Backoff, Entity, Moment, OwnedChange, Queue, QueuedPod};
use crate::groups::Groups;

/// A moment without any objects.
fn at(now: Timestamp) -> Moment<'static> {
    static NOTHING: LazyLock<Objects> = LazyLock::new(Objects::default);
    static NO_GROUPS: LazyLock<Groups> = LazyLock::new(Groups::default);
    Moment { now, objects: &NOTHING, groups: &NO_GROUPS }
}

/// First come, first served.
struct Fifo;

impl Plugin for Fifo {
    const NAME: &'static str = "Fifo";
    implemented_points!();
}

impl QueueSort for Fifo {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        a.since < b.since
    }
}

/// Listens to all events of one kind of object; its hint wakes only pods whose priority is an even number.
struct Listener<const WHICH: u8>;

impl<const WHICH: u8> Plugin for Listener<WHICH> {
    const NAME: &'static str = if WHICH == 0 { "HearsNodes" } else { "HearsPods" };
    implemented_points!();
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let resource = if WHICH == 0 { EventResource::Node } else { EventResource::Pod };
        Some(vec![Registration::hinted(resource, Action::ALL, |_, pod, _| {
            Ok(if pod.priority() % 2 == 0 { Hint::Queue } else { Hint::Skip })
        })])
    }
}

impl<const WHICH: u8> Filter for Listener<WHICH> {
    fn filter(&self, _: &Cycle<'_>, _: &(), _: NodeRef<'_>) -> Verdict {
        Ok(())
    }
}

macro_rules! without_args {
    ($($plugin:ty => $make:expr;)*) => {
        $(impl Build for $plugin {
            type Args = NoArgs;
            fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
                Ok($make)
            }
        })*
    };
}
without_args! {
    Fifo => Fifo;
    Listener<0> => Listener;
    Listener<1> => Listener;
}

fn queue() -> Queue {
    let mut registry = Registry::default();
    registry.register::<Fifo>().register::<Listener<0>>().register::<Listener<1>>();
    let spec = ProfileSpec {
        name: "s".into(),
        points: vec![
            (ExtensionPoint::QueueSort, vec![("Fifo".into(), 0)]),
            (ExtensionPoint::Filter, vec![("HearsNodes".into(), 0), ("HearsPods".into(), 0)]),
        ],
        ..ProfileSpec::default()
    };
    let profile = Profile::build(&spec, &registry, &BuildCycle::default()).unwrap();
    Queue::new(vec![Arc::new(profile)], Backoff::default(), Duration::from_secs(300))
}

fn pod(name: u8) -> Arc<PodInfo> {
    let spec = PodSpec { priority: i32::from(name), ..PodSpec::default() };
    let name = format!("p{name}");
    PodInfo::standalone(Pod {
        uid: name.as_str().into(),
        name: name.into(),
        spec: Arc::new(spec),
        ..Pod::default()
    })
}

/// Takes the next pod; all pods are on their own.
fn pop(queue: &mut Queue) -> Option<QueuedPod> {
    match queue.pop(TurnCycle::new(&Cluster::default()))? {
        Entity::Pod(entry) => Some(entry),
        Entity::Group(group) => panic!("{:?} is a group", group.group.id),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelState {
    Ready,
    Waiting(u8),
    Out,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_queue_behaves_like_the_model_and_its_index_equals_a_recount(
        steps in prop::collection::vec((0u8..6, 0u8..12, 0u8..3), 1..120)
    ) {
        let mut queue = queue();
        let mut model: BTreeMap<u8, ModelState> = BTreeMap::new();
        // The pods in flight, each with flags that show for which listeners it has missed an event.
        let mut out: Vec<(QueuedPod, [bool; 2])> = Vec::new();
        let mut now = Timestamp::from_secs(100);
        for (what, name, extra) in steps {
            now.0 += 10_000_000;
            match what {
                0 => {
                    if let std::collections::btree_map::Entry::Vacant(new) = model.entry(name) {
                        new.insert(ModelState::Ready);
                        queue.add(pod(name), 0, at(now));
                    }
                }
                1 => {
                    if let Some(entry) = pop(&mut queue) {
                        let name = entry.pod.priority() as u8;
                        prop_assert_eq!(model.insert(name, ModelState::Out), Some(ModelState::Ready));
                        out.push((entry, [false; 2]));
                    } else {
                        // Only pods whose attempt failed with an error may remain; they back off.
                        let ready = model.values().filter(|p| **p == ModelState::Ready).count();
                        prop_assert_eq!(ready, queue.lengths().backoff);
                    }
                }
                2 => {
                    if let Some((entry, missed)) = out.pop() {
                        let name = entry.pod.priority() as u8;
                        let rejectors = match extra {
                            0 => vec!["HearsNodes"],
                            1 => vec!["HearsPods"],
                            _ => vec![],
                        };
                        let woken = extra == 2 || (missed[usize::from(extra)] && name.is_multiple_of(2));
                        model.insert(name, if woken { ModelState::Ready } else { ModelState::Waiting(extra) });
                        queue.give_back(entry, rejectors, vec![], at(now));
                    }
                }
                3 => {
                    let resource = if extra == 0 { EventResource::Node } else { EventResource::AssignedPod };
                    let heard_by = u8::from(extra != 0);
                    queue.on_event(ClusterEvent::new(resource, Action::ADD), &OwnedChange::Other, at(now));
                    out.iter_mut().for_each(|(_, missed)| missed[usize::from(heard_by)] = true);
                    for (name, state) in &mut model {
                        if *state == ModelState::Waiting(heard_by) && name.is_multiple_of(2) {
                            *state = ModelState::Ready;
                        }
                    }
                }
                4 => {
                    if model.get(&name).is_some_and(|p| *p != ModelState::Out) {
                        model.remove(&name);
                        queue.delete(&pod(name), at(now));
                    }
                }
                _ => {
                    now = now + Duration::from_secs(u64::from(name));
                    queue.flush_backoff(at(now));
                }
            }
            check(&queue, &model)?;
        }
    }
}

fn check(queue: &Queue, model: &BTreeMap<u8, ModelState>) -> Result<(), TestCaseError> {
    for (name, state) in model {
        let uid: Str = format!("p{name}").into();
        let waiting = queue.parts.get_unschedulable(&uid).is_some();
        prop_assert_eq!(queue.get(&uid).is_some(), *state != ModelState::Out);
        prop_assert_eq!(waiting, matches!(state, ModelState::Waiting(_)), "{}", name);
    }
    let lengths = queue.lengths();
    let inside = model.values().filter(|p| **p != ModelState::Out).count();
    prop_assert_eq!(lengths.active + lengths.backoff + lengths.unschedulable + lengths.gated, inside);
    let indexed: usize = queue.parts.by_rejector().map(|(_, waiting)| waiting.len()).sum();
    let recount: usize = queue.unschedulable().map(|e| e.all_rejectors().count()).sum();
    prop_assert_eq!(indexed, recount);
    prop_assert_eq!(lengths.gated, queue.unschedulable().filter(|e| e.gated_by.is_some()).count());
    for (plugin, waiting) in queue.parts.by_rejector() {
        for (_, uid) in waiting {
            let entity = queue.parts.get_unschedulable(uid);
            prop_assert!(entity.is_some_and(|entity| entity.all_rejectors().any(|p| p == plugin)));
        }
    }
    Ok(())
}

#[test]
fn backoff_doubles_up_to_its_limit_and_ends_on_whole_seconds() {
    let mut queue = queue();
    let mut now = Timestamp(100_700_000_000);
    queue.add(pod(1), 0, at(now));
    let mut waits = Vec::new();
    for _ in 0..6 {
        let entry = pop(&mut queue).unwrap();
        queue.give_back(entry, vec![], vec![], at(now));
        let end = queue.next_backoff_end().unwrap();
        waits.push(end.since(now).as_millis());
        queue.flush_backoff(at(Timestamp(end.0 - 1)));
        assert!(!queue.has_work());
        now = Timestamp(end.0);
        queue.flush_backoff(at(now));
    }
    assert_eq!(waits, [1300, 3000, 5000, 9000, 11_000, 11_000]);
}

#[test]
fn a_rejected_pod_is_tried_before_its_backoff_ends_if_no_other_pod_is_ready() {
    let mut queue = queue();
    let now = Timestamp::from_secs(100);
    queue.add(pod(2), 0, at(now));
    let entry = pop(&mut queue).unwrap();
    queue.give_back(entry, vec!["HearsNodes"], vec![], at(now));
    assert!(!queue.has_work());
    queue.on_event(ClusterEvent::new(EventResource::Node, Action::ADD), &OwnedChange::Other, at(now));
    assert_eq!(queue.lengths().backoff, 1);
    assert!(pop(&mut queue).is_some());
}

#[test]
fn events_while_a_pod_is_in_flight_are_not_missed() {
    let mut queue = queue();
    let now = Timestamp::from_secs(100);
    queue.add(pod(2), 0, at(now));
    let entry = pop(&mut queue).unwrap();
    queue.on_event(ClusterEvent::new(EventResource::Node, Action::ADD), &OwnedChange::Other, at(now));
    queue.give_back(entry, vec!["HearsNodes"], vec![], at(now));
    assert_eq!((queue.lengths().backoff, queue.lengths().unschedulable), (1, 0));
}
