//! Pods are taken out of their places, as bugs might do, and must be found.

use std::time::Duration;

use harbormaster_api::{Pod, Str, features::Features};
use harbormaster_framework::{
    outcome::{Permitted, Stop},
    prelude::*,
    registry::Registry,
};
use harbormaster_testkit::{node, pod};
use proptest::prelude::*;

use super::*;
use crate::{BindOutcome, Effect, EngineConfig, Input, Note};

const START: i64 = 1_000_000_000;
/// Two checks are at most this far apart from the loss that the second one reports.
const TWO_CHECKS: u64 = 61;

/// Rejects every pod with the label `mute` before it is queued, and listens to nothing. Delays pods with the label
/// `slow`.
struct Mute;

impl Plugin for Mute {
    const NAME: &'static str = "Mute";
    implemented_points!();
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(Vec::new())
    }
}

impl Build for Mute {
    type Args = NoArgs;
    fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self)
    }
}

impl PreEnqueue for Mute {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        match cx.pod.labels.get("mute") {
            Some(_) => Err(Reject::evictable("mute").into()),
            None => Ok(()),
        }
    }
}

impl Permit for Mute {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, _: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        Ok(match cx.pod.labels.get("slow") {
            Some(_) => Permitted::Wait(Duration::from_secs(60)),
            None => Permitted::Allow,
        })
    }
}

/// An engine with its clock.
struct Scene {
    engine: Engine,
    now: Timestamp,
    bindings: Vec<Str>,
    stuck: Vec<(String, Stuck)>,
}

impl Scene {
    fn new(parity: bool) -> Self {
        let mut registry = Registry::default();
        harbormaster_plugins::in_tree(&mut registry);
        registry.register::<Mute>();
        let points: [(&str, &[&str]); 6] = [
            ("PreEnqueue", &["SchedulingGates", "Mute"]),
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", &["NodeResourcesFit"]),
            ("Filter", &["NodeResourcesFit"]),
            ("Permit", &["Mute"]),
            ("Bind", &["DefaultBinder"]),
        ];
        let profile = harbormaster_testkit::profile_for(Features::default(), &registry, &points, &[]);
        let mut config = EngineConfig::new(vec![profile]);
        config.parity = parity;
        let mut scene = Self {
            engine: Engine::new(config),
            now: Timestamp::from_secs(START),
            bindings: Vec::new(),
            stuck: Vec::new(),
        };
        scene.input(Input::Node(node("n").allocatable("2", "4Gi", 10).build()));
        scene.engine.tick(scene.now);
        scene
    }

    fn input(&mut self, input: Input) {
        self.now.0 += 1_000_000;
        self.engine.handle(input, self.now);
        self.take();
    }

    fn add(&mut self, pod: Pod) -> Arc<PodInfo> {
        let uid = pod.uid.clone();
        self.input(Input::Pod(pod));
        self.engine.pods.get(&uid).expect("the pod is known").clone()
    }

    fn attempt(&mut self) {
        self.now.0 += 1_000_000;
        self.engine.schedule_one(self.now);
        self.take();
    }

    fn wait(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            let next = self.engine.next_wakeup().filter(|at| *at > self.now);
            self.now = next.map_or(end, |at| at.min(end));
            self.engine.tick(self.now);
            self.take();
        }
    }

    fn take(&mut self) {
        for effect in self.engine.take_effects() {
            if let Effect::Bind(task) = effect {
                self.bindings.push(task.pod().uid.clone());
            }
        }
        for note in self.engine.take_notes() {
            if let Note::Stuck { pod, why } = note {
                self.stuck.push((pod.name.to_string(), why));
            }
        }
    }

    fn state(&self, name: &str) -> &'static str {
        let state = self.engine.pod_state("default", name);
        state.map_or("nowhere", |state| state.state)
    }
}

/// Kinds of damage to a queued pod.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Lost,
    LostInFlight,
    Unlisted,
}

fn damage(scene: &mut Scene, uid: &Str, how: Damage) {
    let queue = &mut scene.engine.queue;
    match how {
        Damage::Lost => queue.lose(uid),
        Damage::LostInFlight => queue.lose_in_flight(uid),
        Damage::Unlisted => queue.unlist(uid),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Pod { cpu: u8, label: u8 },
    Gone(u8),
    Attempt,
    BindEnds { which: u8, succeeds: bool },
    Wait(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u8..30, 0u8..8).prop_map(|(cpu, label)| Step::Pod { cpu, label }),
        1 => any::<u8>().prop_map(Step::Gone),
        5 => Just(Step::Attempt),
        3 => (any::<u8>(), any::<bool>()).prop_map(|(which, succeeds)| Step::BindEnds { which, succeeds }),
        2 => (0u8..200).prop_map(Step::Wait),
    ]
}

fn play(scene: &mut Scene, names: &mut Vec<String>, step: Step) {
    match step {
        Step::Pod { cpu, label } => {
            let name = format!("p{}", names.len());
            let new = pod(&name).uid(&name).cpu(&format!("{cpu}00m"));
            let new = match label {
                0 => new.gate("g"),
                1 => new.label("slow", ""),
                _ => new,
            };
            scene.add(new.build());
            names.push(name);
        }
        Step::Gone(which) if !names.is_empty() => {
            let uid = names[usize::from(which) % names.len()].as_str().into();
            scene.input(Input::PodGone(uid));
        }
        Step::BindEnds { which, succeeds } if !scene.bindings.is_empty() => {
            let uid = scene.bindings.swap_remove(usize::from(which) % scene.bindings.len());
            if !succeeds {
                let outcome = BindOutcome::Failed("no".to_owned());
                return scene.input(Input::BindFinished { uid, outcome });
            }
            scene.input(Input::BindFinished { uid: uid.clone(), outcome: BindOutcome::Bound });
            if let Some(known) = scene.engine.pods.get(&uid) {
                let mut bound = Pod::clone(&known.pod);
                bound.node_name = Some("n".into());
                scene.input(Input::Pod(bound));
            }
        }
        Step::Wait(seconds) => scene.wait(seconds.into()),
        Step::Attempt => scene.attempt(),
        Step::Gone(_) | Step::BindEnds { .. } => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_is_reported_until_a_pod_is_lost_and_then_it_is_found(
        steps in prop::collection::vec(step(), 1..80), which in any::<u8>(),
        how in prop::sample::select(vec![Damage::Lost, Damage::LostInFlight, Damage::Unlisted])
    ) {
        let (mut scene, mut names) = (Scene::new(false), Vec::new());
        for step in steps {
            play(&mut scene, &mut names, step);
        }
        prop_assert_eq!(&scene.stuck, &[]);
        let waits = |scene: &Scene, name: &String| match how {
            Damage::Unlisted => ["gated", "unschedulable"].contains(&scene.state(name)),
            _ => ["active", "backoff", "gated", "unschedulable"].contains(&scene.state(name)),
        };
        let waiting: Vec<String> = names.iter().filter(|name| waits(&scene, name)).cloned().collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let victim = &waiting[usize::from(which) % waiting.len()];
        damage(&mut scene, &victim.as_str().into(), how);
        scene.wait(TWO_CHECKS);
        // If the time had come to try the pod again anyway, there was nothing to report.
        let is_found = scene.stuck == [(victim.clone(), Stuck::Lost)];
        let was_flushed = matches!(how, Damage::Unlisted) && scene.stuck.is_empty();
        prop_assert!(is_found || was_flushed, "{:?}", scene.stuck);
        prop_assert!(["active", "backoff", "gated", "unschedulable"].contains(&scene.state(victim)));
        scene.wait(TWO_CHECKS);
        prop_assert!(scene.stuck.len() <= 1, "the pod is back in its place: {:?}", scene.stuck);
    }
}

#[test]
fn a_rejected_pod_that_is_lost_is_tried_again_but_not_in_parity() {
    for parity in [false, true] {
        let mut scene = Scene::new(parity);
        scene.add(pod("large").uid("large").cpu("3").build());
        scene.attempt();
        assert_eq!(scene.state("large"), "unschedulable");
        damage(&mut scene, &"large".into(), Damage::Lost);
        scene.wait(TWO_CHECKS);
        assert_eq!(scene.stuck, [("large".to_owned(), Stuck::Lost)]);
        assert_eq!(scene.engine.has_work(), !parity);
    }
}

#[test]
fn a_pod_whose_gate_hears_nothing_is_reported_and_tried_every_five_minutes() {
    let mut scene = Scene::new(false);
    scene.engine.queue.stop_flushing_gated();
    scene.add(pod("mute").uid("mute").label("mute", "").build());
    scene.add(pod("gated").uid("gated").gate("g").build());
    scene.wait(11 * 60);
    assert_eq!(scene.stuck, [("mute".to_owned(), Stuck::Unheard), ("mute".to_owned(), Stuck::Unheard)]);
    assert_eq!((scene.state("mute"), scene.state("gated")), ("gated", "gated"));
}

#[test]
fn a_binding_that_never_ends_is_reported_but_not_repeated() {
    let mut scene = Scene::new(false);
    scene.add(pod("p").uid("p").cpu("1").build());
    scene.attempt();
    assert_eq!(scene.bindings, [Str::from("p")]);
    scene.wait(29 * 60);
    assert_eq!(scene.stuck, []);
    scene.wait(3 * 60);
    assert_eq!(scene.stuck, [("p".to_owned(), Stuck::Unreported)]);
    assert_eq!((scene.state("p"), scene.bindings.len()), ("binding", 1));
}

#[test]
fn a_bound_pod_that_the_api_server_never_shows_is_reported() {
    let mut scene = Scene::new(false);
    scene.add(pod("p").uid("p").cpu("1").build());
    scene.attempt();
    scene.input(Input::BindFinished { uid: "p".into(), outcome: BindOutcome::Bound });
    scene.wait(32 * 60);
    assert_eq!(scene.stuck, [("p".to_owned(), Stuck::Unconfirmed)]);
}

#[test]
fn pods_that_wait_for_good_reasons_are_left_alone() {
    let mut scene = Scene::new(false);
    scene.add(pod("slow").uid("slow").cpu("1").label("slow", "").build());
    scene.attempt();
    scene.add(pod("gated").uid("gated").gate("g").build());
    scene.add(pod("large").uid("large").cpu("3").build());
    scene.add(pod("leaving").uid("leaving").terminating().build());
    scene.add(pod("theirs").uid("theirs").spec(|spec| spec.scheduler_name = "another".into()).build());
    assert_eq!(scene.state("slow"), "permit");
    for _ in 0..120 {
        scene.attempt();
        scene.wait(20);
    }
    assert_eq!(scene.stuck, []);
}
