//! Compares the order of a queue whose QueueSort plugin ranks by objects with a naive model, which sorts the waiting
//! pods anew for every question.

use std::{sync::Arc, sync::LazyLock, time::Duration};

use harbormaster_api::{Pod, Str, Timestamp, points::ExtensionPoint};
use harbormaster_framework::{
    cluster::Cluster,
    pod::PodInfo,
    prelude::*,
    profile::{Profile, ProfileSpec},
    registry::Registry,
    resource::{CustomKey, RawObject, ResourceKind, ResourceName},
};
use proptest::prelude::*;

use super::{Backoff, Entity, Moment, Queue};
use crate::groups::Groups;

/// The turn of a team.
#[derive(serde::Deserialize)]
struct Turn {
    turn: i64,
}

impl Resource for Turn {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Turn";
    const PLURAL: &'static str = "turns";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// Tries pods by the turn of the team that their namespace names. Panics at the turn 13.
#[derive(Default)]
struct ByTurn;

impl Plugin for ByTurn {
    const NAME: &'static str = "ByTurn";
    implemented_points!();
}

impl Watches for ByTurn {
    type Resources = Turn;
}

impl QueueSort for ByTurn {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        a.rank < b.rank
    }

    fn rank(&self, queued: Queued<'_>, objects: &Objects) -> Rank {
        let turn = self.watched(objects).get("", &queued.pod.namespace).map_or(0, |team| team.turn);
        assert_ne!(turn, 13, "an unlucky turn");
        [turn, 0, 0, 0]
    }
}

/// Rejects pods, so that they may be in backoff.
#[derive(Default)]
struct Never;

impl Plugin for Never {
    const NAME: &'static str = "Never";
    implemented_points!();
}

impl Filter for Never {
    fn filter(&self, _: &Cycle<'_>, (): &(), _: NodeRef<'_>) -> Verdict {
        Ok(())
    }
}

fn queue() -> Queue {
    let mut registry = Registry::default();
    registry.register::<ByTurn>().register::<Never>();
    let points = vec![
        (ExtensionPoint::QueueSort, vec![("ByTurn".into(), 0)]),
        (ExtensionPoint::Filter, vec![("Never".into(), 0)]),
    ];
    let spec = ProfileSpec { name: "s".into(), points, ..ProfileSpec::default() };
    let profile = Profile::build(&spec, &registry, &BuildCycle::default()).unwrap();
    Queue::new(vec![Arc::new(profile)], Backoff::default(), Duration::from_secs(300))
}

fn pod(name: &str, team: u8) -> Arc<PodInfo> {
    let namespace = format!("team-{team}").into();
    PodInfo::standalone(Pod { uid: name.into(), name: name.into(), namespace, ..Pod::default() })
}

fn key(team: u8) -> CustomKey {
    let resource = ResourceName::of::<Turn>().to_string().into();
    CustomKey { resource, namespace: Str::default(), name: format!("team-{team}").into() }
}

fn set_turn(cluster: &mut Cluster, team: u8, turn: i64) {
    let json = serde_json::json!({"metadata": {"name": format!("team-{team}")}, "turn": turn});
    cluster.set_custom(&RawObject::from_json(key(team), json.to_string()));
}

fn at(cluster: &Cluster, now: i64) -> Moment<'_> {
    static NO_GROUPS: LazyLock<Groups> = LazyLock::new(Groups::default);
    Moment { now: Timestamp::from_secs(now), objects: cluster.objects(), groups: &NO_GROUPS }
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.add_resource(ResourceKind::of::<Turn>());
    cluster
}

/// Pods of the model: name, team, order of arrival, and the second in which its backoff is over.
type Waiting = Vec<(String, u8, usize, i64)>;

/// Name of the pod that comes next: the first of those that are due or, if none is due, of those in backoff.
fn next(waiting: &Waiting, turns: &[i64; 4], now: i64) -> Option<String> {
    let rank = |(_, team, arrived, _): &&(String, u8, usize, i64)| (turns[usize::from(*team)], *arrived);
    let due = waiting.iter().filter(|(.., due)| *due <= now).min_by_key(rank);
    let early = || waiting.iter().min_by_key(|pod| (pod.3, rank(pod)));
    due.or_else(early).map(|pod| pod.0.clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn pods_leave_in_the_order_of_the_ranks_that_objects_give_them_now(
        steps in prop::collection::vec((0u8..8, 0u8..4, -3i64..4), 1..120)
    ) {
        let (mut queue, mut cluster) = (queue(), cluster());
        let mut turns = [0; 4];
        let mut waiting = Waiting::new();
        let mut now = 1_000;
        for (number, (what, team, turn)) in steps.into_iter().enumerate() {
            match what {
                0..3 => {
                    let name = format!("p{number}");
                    queue.add(pod(&name, team), 0, at(&cluster, now));
                    waiting.push((name, team, number, 0));
                }
                3 => {
                    turns[usize::from(team)] = turn;
                    set_turn(&mut cluster, team, turn);
                    queue.on_ranking_change(ResourceName::of::<Turn>(), cluster.objects());
                }
                4 => {
                    turns[usize::from(team)] = 0;
                    cluster.remove_custom(&key(team));
                    queue.on_ranking_change(ResourceName::of::<Turn>(), cluster.objects());
                }
                5 => {
                    let found = waiting.iter().position(|(.., due)| *due == 0);
                    if let Some((name, team, ..)) = found.map(|found| waiting.remove(found)) {
                        queue.delete(&pod(&name, team), at(&cluster, now));
                    }
                }
                6 => {
                    now += 5;
                    queue.flush_backoff(at(&cluster, now));
                }
                _ => {
                    let expected = next(&waiting, &turns, now);
                    let popped = queue.pop(TurnCycle::new(&cluster));
                    let name = popped.as_ref().map(|entity| entity.pods()[0].pod.name.to_string());
                    prop_assert_eq!(&name, &expected);
                    let Some(Entity::Pod(entry)) = popped else { continue };
                    let found = waiting.iter().position(|(other, ..)| Some(other) == name.as_ref());
                    let mut pod = waiting.remove(found.unwrap());
                    if turn > 0 && entry.rejections == 0 {
                        queue.give_back(entry, vec!["Never"], Vec::new(), at(&cluster, now));
                        queue.activate_rejected(&pod.0, at(&cluster, now));
                        // The backoff is one second, and its end is part of it.
                        pod.3 = now + 2;
                        waiting.push(pod);
                    } else {
                        queue.done(entry.uid());
                    }
                }
            }
        }
    }
}

impl Queue {
    /// Moves a rejected pod into backoff, as an event does.
    fn activate_rejected(&mut self, uid: &str, at: Moment<'_>) {
        self.wake(&uid.into(), super::Requeue::AfterBackoff, super::Cause::Timeout, at);
    }
}

#[test]
fn a_pod_that_cannot_be_ranked_backs_off_and_harms_no_other_pod() {
    let (mut queue, mut cluster) = (queue(), cluster());
    set_turn(&mut cluster, 0, 13);
    queue.add(pod("unlucky", 0), 0, at(&cluster, 0));
    queue.add(pod("other", 1), 0, at(&cluster, 0));
    let failed = queue.take_failed();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].error.to_string().contains("an unlucky turn"), "{}", failed[0].error);
    assert_eq!(queue.pop(TurnCycle::new(&cluster)).unwrap().pods()[0].pod.name, "other");
    set_turn(&mut cluster, 0, 1);
    queue.flush_backoff(at(&cluster, 10));
    assert_eq!(queue.pop(TurnCycle::new(&cluster)).unwrap().pods()[0].pod.name, "unlucky");
    assert!(!queue.has_failures());
}

#[test]
fn objects_of_other_kinds_do_not_rank() {
    let queue = queue();
    let other = ResourceName { plural: "turns", version: "v2", group: "example.com" };
    assert!(queue.profiles[0].ranks_by(ResourceName::of::<Turn>()) && !queue.profiles[0].ranks_by(other));
}
