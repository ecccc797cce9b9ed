//! Recordings can be replayed, and any difference is reported with its line number.

use std::{
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use harbormaster_api::{
    Labels, Namespace, Object, Service, Str, Timestamp,
    selector::LabelSelector,
    taint::{Taint, TaintEffect},
};
use harbormaster_core::{
    BindOutcome, EngineConfig, EvictOutcome, Input,
    recording::{Recorder, ReplayError, ReplaySummary, replay},
};
use harbormaster_framework::{
    prelude::*,
    profile::Profile,
    resource::{CustomKey, RawObject},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{
    self, World, node, pod,
    steps::{Model, Step, play, step},
};

/// A plugin that delays one pod in three for three seconds. Another third of the pods release all waiting pods.
#[derive(Default)]
struct Turnstile;

impl Plugin for Turnstile {
    const NAME: &'static str = "Turnstile";
    implemented_points!();
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::hinted(EventResource::Node, Action::ALL, |_, pod, _| {
            Ok(if pod.priority() % 2 == 0 { Hint::Queue } else { Hint::Skip })
        })])
    }
}

impl Permit for Turnstile {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, waiting: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        match cx.pod.priority() % 3 {
            0 => return Ok(Permitted::Wait(Duration::from_secs(3))),
            1 => waiting.list().iter().for_each(|(pod, _)| waiting.allow(&pod.uid)),
            _ => {}
        }
        Ok(Permitted::Allow)
    }
}

fn profile() -> Arc<Profile> {
    world::profile_with(|registry| {
        registry.register::<Turnstile>();
        vec![("PostFilter", "DefaultPreemption"), ("Permit", "Turnstile")]
    })
}

fn config(parity: bool) -> EngineConfig {
    EngineConfig { parity, batching: parity, ..EngineConfig::new(vec![profile()]) }
}

/// Records a run in which pods have priorities and therefore evict each other, and in which the host reports the
/// outcomes of evictions.
fn record(steps: Vec<Step>, parity: bool) -> Vec<u8> {
    let (mut world, mut model) = (World::with(config(parity)), Model::default());
    for step in steps {
        if let Step::Pod { name, cpu, gated } = step {
            let name_of = format!("p{name}");
            if model.pods.contains_key(&name_of) {
                continue;
            }
            let mut new = world::with_priority(pod(&name_of, i64::from(cpu)), i32::from(name));
            new.scheduling_gates = if gated { vec!["g".into()] } else { Vec::new() };
            model.pods.insert(name_of, new.clone());
            world.add_pod(new);
        } else {
            play(&mut world, &mut model, step);
        }
        for task in world.evictions() {
            let outcome = if world.now.0 % 3 == 0 { EvictOutcome::Gone } else { EvictOutcome::Evicted };
            model.pods.remove(task.victim.name.as_str());
            world.input(Input::PodGone(task.victim.uid.clone()));
            world.evict_finished(task, outcome);
        }
    }
    world.engine.finish().unwrap()
}

/// Returns the recording of a deterministic run with bindings, evictions, timeouts and rejections.
fn long_run() -> Vec<u8> {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let steps = prop::collection::vec(step(), 600..601).new_tree(&mut runner).unwrap().current();
    record(steps, false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_random_run_is_replayed_with_the_same_effects(
        steps in prop::collection::vec(step(), 1..150),
        parity in any::<bool>(),
    ) {
        let recording = record(steps, parity);
        let lines = recording.iter().filter(|byte| **byte == b'\n').count();
        let played = replay(config(parity), &*recording).unwrap();
        prop_assert_eq!(played.lines, lines);
    }
}

#[test]
fn a_long_run_contains_bindings_evictions_timeouts_and_rejections() {
    let recording = long_run();
    let text = String::from_utf8(recording.clone()).unwrap();
    for what in
        ["\"bind\"", "\"evict\"", "\"evictFinished\"", "timeout after waiting", "\"rejected\"", "Preempted"]
    {
        assert!(text.contains(what), "no {what}");
    }
    let played = replay(config(false), &*recording).unwrap();
    assert!(played.attempts > 50 && played.effects > 100, "{played:?}");
}

#[test]
fn a_changed_line_is_reported_with_its_number() {
    let recording = String::from_utf8(long_run()).unwrap();
    let lines: Vec<&str> = recording.lines().collect();
    let mut changed = 0;
    for (at, line) in lines.iter().enumerate() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        match &mut value {
            Value::Object(of) if of.contains_key("attempt") => of["attempt"][1] = json!({ "pod": "other" }),
            Value::Object(of) if of.contains_key("effects") => of["effects"] = json!([{ "bind": "other" }]),
            _ => continue,
        }
        changed += 1;
        if changed % 20 != 0 {
            continue;
        }
        let mut with_change: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        with_change[at] = value.to_string();
        let found = replay(config(false), with_change.join("\n").as_bytes()).unwrap_err();
        assert!(matches!(found, ReplayError::Differs { line, .. } if line == at + 1), "{at}: {found}");
    }
    assert!(changed > 100, "{changed}");
}

#[test]
fn a_changed_input_is_reported_at_the_first_line_that_differs() {
    let mut world = World::with(config(false));
    world.set_node(node("a", 1000));
    world.set_node(node("b", 1000));
    world.add_pod(world::with_priority(pod("p", 600), 2));
    world.attempt().unwrap();
    let text = String::from_utf8(world.engine.finish().unwrap()).unwrap();
    let text = text.replacen("\"milli_cpu\":1000", "\"milli_cpu\":500", 1);
    let found = replay(config(false), text.as_bytes()).unwrap_err();
    // The lines are the setup, two nodes, a spec, a pod, and the attempt.
    assert!(matches!(found, ReplayError::Differs { line: 6, .. }), "{found}");
    assert_eq!(
        found.to_string(),
        "line 6 (2001-09-09T01:46:40Z, pod default/p) differs: recorded {\"outcome\":{\"assumed\":{\"evaluated\":2,\"feasible\":2,\"node\":\"a\"}},\"pod\":\"p\"}, \
         now {\"outcome\":{\"assumed\":{\"evaluated\":2,\"feasible\":1,\"node\":\"b\"}},\"pod\":\"p\"}"
    );
}

#[test]
fn changes_and_binding_outcomes_are_written_and_read_back() {
    let labels: Labels = [("a", "b")].into_iter().collect();
    let mut tainted = node("n", 1);
    tainted.taints =
        vec![Taint { key: "k".into(), value: "v".into(), effect: TaintEffect::NoExecute }].into();
    tainted.labels = labels.clone();
    let budget = harbormaster_api::PodDisruptionBudget {
        namespace: "x".into(),
        name: "b".into(),
        selector: Some(LabelSelector { match_labels: labels.clone(), match_expressions: Vec::new() }),
        ..Default::default()
    };
    let service = Service { namespace: "x".into(), name: "s".into(), selector: Some(labels.clone()) };
    let rejected = BindOutcome::Rejected(Reject::unresolvable("no"));
    let resource = "teams.v1.example.com".into();
    let key = CustomKey { resource, namespace: "x".into(), name: "t".into() };
    let inputs = [
        Input::Node(tainted),
        Input::NodeGone("n".into()),
        Input::Pod(pod("p", 1)),
        Input::PodGone("p".into()),
        Input::Object(Object::Namespace(Namespace { name: "x".into(), labels })),
        Input::Object(Object::Service(service.clone())),
        Input::Object(Object::PodDisruptionBudget(budget)),
        Input::ObjectGone(Object::Service(service).key()),
        Input::Custom(RawObject::from_json(key.clone(), "{}")),
        Input::CustomGone(key),
        Input::BindFinished { uid: "p".into(), outcome: BindOutcome::Bound },
        Input::BindFinished { uid: "p".into(), outcome: rejected },
        Input::BindFinished { uid: "p".into(), outcome: BindOutcome::Failed("broken".into()) },
    ];
    let mut recorder = Recorder::writing(config(false), Vec::new());
    inputs.into_iter().for_each(|input| recorder.handle(input, Timestamp(5)));
    let recording = recorder.finish().unwrap();
    assert_eq!(
        replay(config(false), &*recording).unwrap(),
        ReplaySummary { lines: 15, attempts: 0, effects: 0 }
    );
    let text = String::from_utf8(recording).unwrap();
    let short: Vec<&str> = text.lines().filter(|line| line.len() < 70).collect();
    assert_eq!(
        short,
        [
            r#"{"input":[5,{"nodeGone":"n"}]}"#,
            r#"{"input":[5,{"podGone":"p"}]}"#,
            r#"{"input":[5,{"bindFinished":["p","bound"]}]}"#,
            r#"{"input":[5,{"bindFinished":["p",{"failed":"broken"}]}]}"#,
        ]
    );
}

#[test]
fn a_truncated_recording_is_replayed_up_to_its_end() {
    let recording = long_run();
    let whole = replay(config(false), &*recording).unwrap();
    let played = replay(config(false), &recording[..recording.len() - 5]).unwrap();
    assert_eq!(played.lines, whole.lines - 1);
}

#[test]
fn a_line_that_no_recording_of_this_engine_contains_is_rejected_with_its_number() {
    let setup = String::from_utf8(Recorder::writing(config(false), Vec::new()).finish().unwrap()).unwrap();
    let gone = r#"{"input":[5,{"evictFinished":[{"preemptor":"p","round":1,"victim":"v"},"gone"]}]}"#;
    for (text, expected) in [
        ("{\"tick\":5}\n".to_owned(), "line 1 cannot be replayed: a recording must begin with"),
        (format!("{setup}{{\"tock\":5}}\n"), "line 2 is not a call to the engine: unknown variant `tock`"),
        (format!("{setup}{gone}\n"), "line 2 cannot be replayed: EvictionId"),
        (setup.replace("\"parity\":false", "\"parity\":true"), "line 1 differs: recorded"),
        (format!("{setup}{{\"tick\":5}}\n"), ""),
    ] {
        let found = replay(config(false), text.as_bytes()).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(found.starts_with(expected) && found.is_empty() == expected.is_empty(), "{found}");
    }
}

/// A writer that accepts the given number of bytes, then fails.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| io::Error::other("no space left"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn pods_are_scheduled_even_if_the_recording_cannot_be_written() {
    let mut recorder = Recorder::writing(config(false), Full(400));
    recorder.handle(Input::Node(node("a", 1000)), Timestamp(1));
    recorder.handle(Input::Pod(world::with_priority(pod("p", 1), 2)), Timestamp(2));
    assert!(recorder.schedule_one(Timestamp(3)).is_some());
    assert_eq!(recorder.bindings_in_progress(), 1);
    assert_eq!(recorder.finish().err().map(|error| error.to_string()), Some("no space left".to_owned()));
}
