//! Tests of a running engine, in which the test takes the place of the driver.

use std::time::Instant;

use harbormaster_api::Str;
use harbormaster_core::{BindOutcome, EvictOutcome, Input, queue::Backoff};
use harbormaster_framework::{prelude::*, registry::Registry};
use harbormaster_testkit::{node, pod, profile};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc::{Receiver as EffectReceiver, channel},
};

use super::*;
use crate::{engine_loop::BATCH, message::ToEngine, run::tests::first_fit, status};

struct Hands {
    /// Runs the engine.
    _runtime: Runtime,
    inbox: ToEngine,
    effects: EffectReceiver<Vec<Effect>>,
    end: oneshot::Receiver<EngineEnd>,
    synced: oneshot::Receiver<()>,
}

fn started(unsynced: usize) -> Hands {
    started_with(EngineConfig::new(vec![first_fit()]), unsynced)
}

fn started_with(config: EngineConfig, unsynced: usize) -> Hands {
    let hands = standing_by(config, unsynced);
    hands.inbox.send(EngineMessage::Lead).unwrap();
    hands
}

fn standing_by(config: EngineConfig, unsynced: usize) -> Hands {
    let (inbox, messages) = unbounded_channel();
    let (out, effects) = channel(64);
    let (notify, synced) = oneshot::channel();
    let (metrics, health, traces, pace) = Default::default();
    let sinks = EngineSinks { metrics, health, synced: notify, traces, raw: None, recording: None, pace };
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let end = {
        let _entered = runtime.enter();
        spawn(config, unsynced, messages, out, sinks).unwrap()
    };
    Hands { _runtime: runtime, inbox, effects, end, synced }
}

impl Hands {
    fn send(&self, inputs: Vec<Input>) {
        self.inbox.send(EngineMessage::Inputs(inputs)).unwrap();
    }

    /// Waits for the next effects, for at most five seconds.
    fn effects(&mut self) -> Vec<Effect> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            if let Ok(effects) = self.effects.try_recv() {
                return effects;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("no effects");
    }

    /// Waits for the next effects and returns the pods whose status they patch.
    fn patched(&mut self) -> Vec<Str> {
        let patches = self.effects().into_iter().filter_map(|effect| match effect {
            Effect::PatchStatus(patch) => Some(patch.pod.name.clone()),
            _ => None,
        });
        patches.collect()
    }

    fn ended(mut self) -> EngineEnd {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            if let Ok(end) = self.end.try_recv() {
                return end;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("the thread did not end");
    }
}

fn one_pod_one_node() -> Vec<Input> {
    vec![Input::Pod(pod("p").build()), Input::Node(node("n1").build())]
}

#[test]
fn no_pod_is_tried_before_all_watches_have_synced() {
    let mut hands = started(2);
    hands.send(one_pod_one_node());
    hands.inbox.send(EngineMessage::Synced).unwrap();
    thread::sleep(Duration::from_millis(50));
    assert!(hands.effects.try_recv().is_err());
    hands.inbox.send(EngineMessage::Synced).unwrap();
    let effects = hands.effects();
    assert!(matches!(&effects[..], [Effect::Bind(task)] if task.node() == "n1"), "{effects:?}");
}

#[test]
fn a_standby_takes_inputs_and_reports_that_it_has_synced_but_tries_pods_only_when_it_leads() {
    let mut hands = standing_by(EngineConfig::new(vec![first_fit()]), 1);
    hands.send(one_pod_one_node());
    thread::sleep(Duration::from_millis(50));
    assert!(hands.synced.try_recv().is_err());
    hands.inbox.send(EngineMessage::Synced).unwrap();
    let begun = Instant::now();
    while hands.synced.try_recv().is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5), "the thread did not report that it has synced");
        thread::sleep(Duration::from_millis(1));
    }
    // The leader has bound this pod.
    hands.send(vec![Input::Pod(pod("other").build()), Input::Pod(pod("other").on("n1").build())]);
    thread::sleep(Duration::from_millis(50));
    assert!(hands.effects.try_recv().is_err());
    hands.inbox.send(EngineMessage::Lead).unwrap();
    let effects = hands.effects();
    assert!(matches!(&effects[..], [Effect::Bind(task)] if &*task.pod().name == "p"), "{effects:?}");
    thread::sleep(Duration::from_millis(50));
    assert!(hands.effects.try_recv().is_err());
}

#[test]
fn a_standby_stops_immediately() {
    let hands = standing_by(EngineConfig::new(vec![first_fit()]), 0);
    hands.send(one_pod_one_node());
    hands.inbox.send(EngineMessage::Stop).unwrap();
    assert_eq!(hands.ended(), Ok(()));
}

#[test]
fn stopping_waits_for_bindings_and_tries_no_more_pods() {
    let mut hands = started(0);
    hands.send(one_pod_one_node());
    let effects = hands.effects();
    assert!(matches!(&effects[..], [Effect::Bind(_)]), "{effects:?}");
    hands.inbox.send(EngineMessage::Stop).unwrap();
    hands.send(vec![Input::Pod(pod("late").build())]);
    thread::sleep(Duration::from_millis(50));
    assert!(hands.effects.try_recv().is_err() && hands.end.try_recv().is_err());
    let bound = Input::BindFinished { uid: "uid-p".into(), outcome: BindOutcome::Bound };
    hands.send(vec![bound]);
    let effects = hands.effects();
    assert!(matches!(&effects[..], [Effect::Event(event)] if event.reason == "Scheduled"), "{effects:?}");
    assert_eq!(hands.ended(), Ok(()));
}

/// Rejects every node, and evicts all pods of the first node with evictable pods.
#[derive(Default)]
struct Jealous;

impl Plugin for Jealous {
    const NAME: &'static str = "Jealous";
    implemented_points!();
}

impl QueueSort for Jealous {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        a.since < b.since
    }
}

impl Bind for Jealous {
    async fn bind(&self, _: &BindCycle) -> Result<Bound, Stop> {
        Ok(Bound::NotMine)
    }
}

impl Filter for Jealous {
    fn filter(&self, _: &Cycle<'_>, _: &(), _: NodeRef<'_>) -> Verdict {
        Err(Reject::evictable("node(s) have other pods").into())
    }
}

impl PostFilter for Jealous {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, _: &()) -> PluginResult<PostFiltered> {
        let there = cx.what_if.evictable_rows().first().map(|row| cx.what_if.nodes().node(*row));
        let there = there.ok_or("no node")?;
        Ok(PostFiltered::Nominate {
            node: there.name().clone(),
            victims: there.pods().to_vec(),
            violations: 0,
            reasons: Vec::new(),
        })
    }
}

/// The plugins of an extension point at which only `Jealous` runs.
const JEALOUS: &[&str] = &["Jealous"];

#[test]
fn pods_that_are_not_due_are_tried_when_there_is_room_for_their_statuses() {
    let mut registry = Registry::default();
    registry.register::<Jealous>();
    let points = [("QueueSort", JEALOUS), ("Filter", JEALOUS), ("Bind", JEALOUS)];
    let minute = Duration::from_secs(60);
    let backoff = Backoff { initial: minute, max: minute };
    let config = EngineConfig { backoff, ..EngineConfig::new(vec![profile(&registry, &points)]) };
    let mut hands = started_with(config, 0);
    hands.send(vec![Input::Node(node("n1").build())]);
    for at in 0..status::AT_ONCE {
        let name = format!("p{at}");
        hands.send(vec![Input::Pod(pod(&name).build())]);
        assert_eq!(hands.patched(), [name.as_str()]);
    }
    // The pods are woken during their backoff, and the conditions that explain their wait have not been written yet.
    hands.send(vec![Input::Node(node("n2").build())]);
    thread::sleep(Duration::from_millis(50));
    assert!(hands.effects.try_recv().is_err());
    // New pods do not wait until the conditions have been written.
    hands.send(vec![Input::Pod(pod("new").build())]);
    assert_eq!(hands.patched(), ["new"]);
    assert!(hands.effects.try_recv().is_err());
    hands.inbox.send(EngineMessage::StatusesWritten(1)).unwrap();
    thread::sleep(Duration::from_millis(50));
    assert!(hands.effects.try_recv().is_err(), "the unwritten statuses still leave no room");
    hands.inbox.send(EngineMessage::StatusesWritten(2)).unwrap();
    assert_eq!((hands.patched().len(), hands.patched().len()), (1, 1));
    thread::sleep(Duration::from_millis(50));
    assert!(hands.effects.try_recv().is_err(), "two more statuses have filled the room");
}

/// A plugin that fails to determine whether a pod may be tried, unless the pod's name is `sure`.
#[derive(Default)]
struct Unsure;

impl Plugin for Unsure {
    const NAME: &'static str = "Unsure";
    implemented_points!();
}

impl PreEnqueue for Unsure {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        if cx.pod.name == "sure" { Ok(()) } else { Err("who knows".into()) }
    }
}

#[test]
fn statuses_that_a_standby_did_not_write_take_no_room_when_it_leads() {
    let mut registry = Registry::default();
    registry.register::<Jealous>();
    registry.register::<Unsure>();
    let points =
        [("PreEnqueue", &["Unsure"][..]), ("QueueSort", JEALOUS), ("Filter", JEALOUS), ("Bind", JEALOUS)];
    for leads in [false, true] {
        let mut hands = standing_by(EngineConfig::new(vec![profile(&registry, &points)]), 0);
        if leads {
            hands.inbox.send(EngineMessage::Lead).unwrap();
        }
        let unsure = (0..status::AT_ONCE).map(|at| Input::Pod(pod(&format!("p{at}")).build()));
        hands.send(unsure.chain([Input::Node(node("n1").build())]).collect());
        if leads {
            assert_eq!(hands.patched().len(), status::AT_ONCE);
        } else {
            thread::sleep(Duration::from_millis(50));
            hands.inbox.send(EngineMessage::Lead).unwrap();
        }
        hands.send(vec![Input::Pod(pod("sure").build())]);
        assert_eq!(hands.patched(), ["sure"]);
        hands.send(vec![Input::Node(node("n2").build())]);
        if leads {
            thread::sleep(Duration::from_millis(50));
            assert!(hands.effects.try_recv().is_err());
        } else {
            assert_eq!(hands.patched(), ["sure"]);
        }
    }
}

#[test]
fn stopping_waits_for_evictions() {
    let mut registry = Registry::default();
    registry.register::<Jealous>();
    let it = &["Jealous"][..];
    let points = [("QueueSort", it), ("Filter", it), ("PostFilter", it), ("Bind", it)];
    let mut hands = started_with(EngineConfig::new(vec![profile(&registry, &points)]), 0);
    let bound = ["v", "w"].map(|name| Input::Pod(pod(name).on("n1").build()));
    hands.send([vec![Input::Node(node("n1").build())], bound.into(), one_pod_one_node()].concat());
    let evictions = |effects: Vec<Effect>| {
        let tasks = effects.into_iter().filter_map(|effect| match effect {
            Effect::Evict(task) => Some(task),
            _ => None,
        });
        tasks.collect::<Vec<_>>()
    };
    let [first] = evictions(hands.effects()).try_into().unwrap();
    hands.inbox.send(EngineMessage::Stop).unwrap();
    thread::sleep(Duration::from_millis(50));
    assert!(hands.end.try_recv().is_err());
    hands.send(vec![Input::EvictFinished { task: first, outcome: EvictOutcome::Evicted }]);
    let [last] = evictions(hands.effects()).try_into().unwrap();
    hands.send(vec![Input::EvictFinished { task: last, outcome: EvictOutcome::Gone }]);
    assert_eq!(hands.ended(), Ok(()));
}

#[test]
fn a_pod_that_fits_nowhere_gets_an_explanation() {
    let mut hands = started(0);
    hands.send(vec![Input::Node(node("full").build()), Input::Pod(pod("p").build())]);
    let effects = hands.effects();
    let mut notes = effects.iter().filter_map(|e| match e {
        Effect::Event(event) => Some(event.note.as_str()),
        _ => None,
    });
    assert_eq!(notes.next(), Some("0/1 nodes are available: 1 node(s) are full."), "{effects:?}");
}

#[test]
fn a_panic_in_a_plugin_fails_the_pod_and_the_thread_continues() {
    let mut hands = started(0);
    hands.send(vec![Input::Node(node("cursed").build()), Input::Pod(pod("p").build())]);
    let effects = hands.effects();
    let names_it =
        |e: &Effect| matches!(e, Effect::Event(event) if event.note.contains("the node is cursed"));
    assert!(effects.iter().any(names_it), "{effects:?}");
    hands.inbox.send(EngineMessage::Stop).unwrap();
    assert_eq!(hands.ended(), Ok(()));
}

#[test]
fn a_panic_elsewhere_ends_the_thread_with_its_message() {
    let hands = started(0);
    hands.send(vec![Input::Node(node("haunted").build()), Input::Pod(pod("p").build())]);
    assert_eq!(hands.ended(), Err("the node is haunted".to_owned()));
}

/// Rejects every pod with the name of the thread, and takes a second for the pod named `slow`. Sorts pods by priority, highest first.
#[derive(Default)]
struct Slow<const MAY_BLOCK: bool>;

impl<const MAY_BLOCK: bool> Plugin for Slow<MAY_BLOCK> {
    const NAME: &'static str = "Slow";
    const MAY_BLOCK: bool = MAY_BLOCK;
    implemented_points!();
}

impl<const MAY_BLOCK: bool> QueueSort for Slow<MAY_BLOCK> {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        a.pod.priority() > b.pod.priority()
    }
}

impl<const MAY_BLOCK: bool> Bind for Slow<MAY_BLOCK> {
    async fn bind(&self, _: &BindCycle) -> Result<Bound, Stop> {
        Ok(Bound::NotMine)
    }
}

impl<const MAY_BLOCK: bool> Filter for Slow<MAY_BLOCK> {
    fn filter(&self, cx: &Cycle<'_>, _: &(), _: NodeRef<'_>) -> Verdict {
        if cx.pod.name == "slow" {
            thread::sleep(Duration::from_secs(1));
        }
        let thread = thread::current().name().unwrap_or("nameless").to_owned();
        Err(Reject::evictable(format!("tried on the thread {thread}")).into())
    }
}

fn slow<const MAY_BLOCK: bool>() -> Hands {
    let mut registry = Registry::default();
    registry.register::<Slow<MAY_BLOCK>>();
    let it = &["Slow"][..];
    let points = [("QueueSort", it), ("Filter", it), ("Bind", it)];
    started_with(EngineConfig::new(vec![profile(&registry, &points)]), 0)
}

/// Sends a pod that is rejected, and returns the name of the thread on which it was tried.
fn thread_of(pod_name: &str, hands: &mut Hands) -> String {
    hands.send(vec![Input::Pod(pod(pod_name).build())]);
    let messages = hands.effects().into_iter().filter_map(|effect| match effect {
        Effect::PatchStatus(patch) => patch.condition.as_ref().map(|condition| condition.message.to_string()),
        _ => None,
    });
    let messages: Vec<String> = messages.collect();
    let (_, thread) = messages[0].split_once("tried on the thread ").unwrap();
    thread.split('.').next().unwrap().to_owned()
}

#[test]
fn pods_are_tried_on_the_engines_thread_if_a_plugin_may_block() {
    let mut hands = slow::<true>();
    hands.send(vec![Input::Node(node("n").build())]);
    assert_eq!(thread_of("p", &mut hands), "engine");
}

#[test]
fn pods_are_tried_on_the_runtimes_thread_while_attempts_are_quick() {
    let mut hands = slow::<false>();
    hands.send(vec![Input::Node(node("n").build())]);
    let threads = ["p", "slow", "q", "r"].map(|pod| thread_of(pod, &mut hands));
    assert_eq!(threads, ["tokio-rt-worker", "tokio-rt-worker", "engine", "tokio-rt-worker"]);
}

#[test]
fn many_inputs_are_handled_in_the_order_in_which_they_were_sent() {
    let mut hands = started(0);
    let nodes = (0..3 * FEW).map(|at| Input::Node(node(&format!("n{at}")).build()));
    hands.send(nodes.chain(one_pod_one_node()).collect());
    for at in 0..3 * FEW {
        hands.send(vec![Input::NodeGone(format!("n{at}").into())]);
    }
    hands.send(vec![Input::Node(node("last").build()), Input::Pod(pod("q").on("last").build())]);
    let (answer, mut answered) = oneshot::channel();
    hands.inbox.send(EngineMessage::ListPods(answer)).unwrap();
    let begun = Instant::now();
    let pods = loop {
        if let Ok(pods) = answered.try_recv() {
            break pods;
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "no answer");
        thread::sleep(Duration::from_millis(1));
    };
    let mut names: Vec<_> = pods.iter().map(|pod| pod.name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["p", "q"]);
    assert!(matches!(&hands.effects()[..], [Effect::Bind(_)]));
}

#[test]
fn inputs_that_arrive_during_a_slow_attempt_are_handled_before_the_next_pod_is_tried() {
    let mut hands = slow::<true>();
    let slow = pod("slow").priority(9).build();
    hands.send(vec![
        Input::Node(node("n").build()),
        Input::Pod(slow),
        Input::Pod(pod("patient").priority(1).build()),
    ]);
    thread::sleep(Duration::from_millis(100));
    // Send more messages than the thread handles at a time; only the last message matters.
    (0..3 * BATCH).for_each(|_| hands.send(vec![Input::PodGone("nobody".into())]));
    hands.send(vec![Input::Pod(pod("urgent").priority(5).build())]);
    let mut tried = Vec::new();
    while tried.len() < 3 {
        let patches = hands.effects().into_iter().filter_map(|effect| match effect {
            Effect::PatchStatus(patch) => Some(patch.pod.name.to_string()),
            _ => None,
        });
        tried.extend(patches);
    }
    assert_eq!(tried, ["slow", "urgent", "patient"]);
}
