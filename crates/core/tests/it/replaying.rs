//! Recordings of random runs are replayed: by a later file, after a restart, with extenders, and with other settings.

use std::sync::Arc;

use harbormaster_api::{Str, Timestamp};
use harbormaster_core::{
    AskTask, Effect, Engine, EngineConfig, EvictOutcome, Input,
    recording::{Comparison, Encoder, Entry, Mode, Progress, Recorder, ReplayError, Replayer, Sink},
};
use harbormaster_framework::{
    extender::{Extender, ExtenderClient, Extenders, Filtered, NodeVictims, Remark},
    pod::PodInfo,
    resource::{CustomKey, RawObject},
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use serde_json::{Value, json};

use crate::world::{
    self, World, node, pod,
    steps::{Model, Step, play, step},
};

/// Extenders whose answers depend on the number of requests so far, and which fail now and then. A replay that asked
/// them again would get other answers.
#[derive(Debug, Default)]
struct Moody(std::sync::Mutex<usize>);

impl Moody {
    fn next(&self) -> usize {
        let mut asked = self.0.lock().unwrap();
        *asked += 1;
        *asked
    }
}

impl ExtenderClient for Moody {
    fn filter(&self, _: usize, _: &PodInfo, nodes: &[Str]) -> Result<Filtered, String> {
        let asked = self.next();
        if asked.is_multiple_of(7) {
            return Err("the extender is out of order".to_owned());
        }
        let (failed, fit): (Vec<_>, Vec<_>) =
            nodes.iter().enumerate().partition(|(at, _)| (at + asked).is_multiple_of(3));
        let nodes = fit.into_iter().map(|(_, node)| node.clone()).collect();
        let failed = failed.into_iter().map(|(_, node)| (node.clone(), "not now".to_owned())).collect();
        Ok(Filtered { nodes, failed, ..Filtered::default() })
    }

    fn prioritize(
        &self,
        extenders: &[usize],
        _: &PodInfo,
        nodes: &[Str],
    ) -> Vec<Result<Vec<(Str, i64)>, String>> {
        let asked = self.next();
        let scores = |_: &usize| {
            Ok(nodes
                .iter()
                .enumerate()
                .map(|(at, node)| (node.clone(), ((at + asked) % 10) as i64))
                .collect())
        };
        extenders.iter().map(scores).collect()
    }

    fn preempt(&self, _: usize, _: &PodInfo, plans: &[NodeVictims]) -> Result<Vec<NodeVictims>, String> {
        let asked = self.next();
        Ok(plans.iter().skip(asked % plans.len().max(1)).cloned().collect())
    }

    fn remark(&self, _: usize, _: &PodInfo, _: Remark<'_>) {}
}

fn config(parity: bool, with_extenders: bool) -> EngineConfig {
    let profile = world::profile_with(|_| vec![("PostFilter", "DefaultPreemption")]);
    let mut config = EngineConfig { parity, batching: parity, ..EngineConfig::new(vec![profile]) };
    if with_extenders {
        let extender = |name: &str| Extender { name: name.into(), ..Extender::default() };
        let list = [
            Extender { filters: true, ..extender("f") },
            Extender { prioritizes: true, weight: 3, ..extender("p") },
            Extender { preempts: true, ..extender("e") },
        ];
        // In parity, attempts wait nevertheless.
        config.concurrent_extenders = true;
        config.extenders = Extenders::new(list).with_client(Arc::new(Moody::default()));
    }
    config.origin = Some(Arc::new(json!({ "parity": parity, "extenders": with_extenders })));
    config
}

/// Builds the configuration that an origin of [`config`] describes.
fn configured(origin: Option<&Value>) -> Result<EngineConfig, String> {
    let origin = origin.ok_or("no origin")?;
    Ok(config(origin["parity"] == true, origin["extenders"] == true))
}

/// Plays a step in which pods have priorities and therefore evict each other.
fn play_urgently(world: &mut World, model: &mut Model, step: Step) {
    match step {
        Step::Pod { name, cpu, gated } if !model.pods.contains_key(&format!("p{name}")) => {
            let name_of = format!("p{name}");
            let mut new = world::with_priority(pod(&name_of, i64::from(cpu)), i32::from(name));
            new.scheduling_gates = if gated { vec!["g".into()] } else { Vec::new() };
            model.pods.insert(name_of, new.clone());
            world.add_pod(new);
        }
        Step::Pod { .. } => {}
        step => play(world, model, step),
    }
    // Some answers come later.
    let (later, now) = world.questions().into_iter().partition(|_| world.now.0 / 1_000_000 % 3 == 0);
    let (later, now): (Vec<AskTask>, Vec<AskTask>) = (later, now);
    now.iter().for_each(|task| world.input(world::answer_to(task)));
    world.put_back(later.into_iter().map(Effect::Ask).collect());
    for task in world.evictions() {
        let outcome = match world.now.0 / 1_000_000 % 4 {
            0 => EvictOutcome::Gone,
            1 => EvictOutcome::Failed("the server is down".to_owned()),
            _ => EvictOutcome::Evicted,
        };
        if !matches!(outcome, EvictOutcome::Failed(_)) {
            model.pods.remove(task.victim.name.as_str());
            world.input(Input::PodGone(task.victim.uid.clone()));
        }
        world.evict_finished(task, outcome);
    }
}

/// Records a scheduler and, after each `restarts`, the next one, which begins with all objects. Bindings in progress
/// end with the scheduler.
fn record(steps: Vec<Step>, config: impl Fn() -> EngineConfig, restarts: usize) -> Vec<Vec<u8>> {
    let (mut model, mut recordings, mut nodes) = (Model::default(), Vec::new(), Vec::new());
    let size = steps.len() / (restarts + 1) + 1;
    for part in steps.chunks(size) {
        let mut world = World::with(config());
        world.now = Timestamp(world.now.0 + recordings.len() as i64 * 3_600_000_000_000);
        nodes.iter().for_each(|node: &harbormaster_api::Node| world.set_node(node.clone()));
        model.pods.values().for_each(|pod| world.add_pod(pod.clone()));
        model.bindings.clear();
        for step in part {
            match step {
                Step::Node { name, .. } | Step::NodeGone(name) => {
                    let name = format!("n{name}");
                    nodes.retain(|node| node.name.as_str() != name);
                }
                _ => {}
            }
            if let Step::Node { name, cpu, cordoned } = step {
                let mut new = node(&format!("n{name}"), i64::from(*cpu));
                new.unschedulable = *cordoned;
                nodes.push(new);
            }
            play_urgently(&mut world, &mut model, step.clone());
        }
        recordings.push(world.engine.finish().unwrap());
    }
    recordings
}

/// Replays files. Returns the numbers of lines and effects.
fn replay(files: &[&[u8]], mode: Mode) -> Result<(usize, usize, Comparison), ReplayError> {
    let mut replayer = Replayer::new(Box::new(configured), mode, None);
    for file in files {
        replayer.begin_file();
        for line in std::str::from_utf8(file).unwrap().lines() {
            assert_eq!(replayer.play(line)?, Progress::Played);
        }
    }
    let summary = replayer.summary();
    Ok((summary.lines, summary.effects, replayer.comparison()))
}

fn cases() -> u32 {
    std::env::var("HARBORMASTER_RECORDINGS").ok().and_then(|number| number.parse().ok()).unwrap_or(40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn runs_with_faults_restarts_extenders_and_preemption_are_replayed_exactly(
        steps in prop::collection::vec(step(), 20..300),
        parity in any::<bool>(),
        with_extenders in any::<bool>(),
        restarts in 0usize..3,
    ) {
        for recording in record(steps, || config(parity, with_extenders), restarts) {
            let lines = recording.iter().filter(|byte| **byte == b'\n').count();
            let (played, _, _) = replay(&[&recording], Mode::Exact).unwrap();
            prop_assert_eq!(played, lines);
            // These scripts let pods wait that could be tried, so a comparison has differences, but never fails.
            replay(&[&recording], Mode::Compare).unwrap();
        }
    }
}

#[test]
fn random_runs_contain_what_they_are_meant_to_contain() {
    let mut runner = TestRunner::deterministic();
    let steps = prop::collection::vec(step(), 1500..1501).new_tree(&mut runner).unwrap().current();
    let text = String::from_utf8(record(steps, || config(false, true), 2).concat()).unwrap();
    for what in [
        "\"evict\"",
        "out of order",
        "the server is down",
        "\"preempt\"",
        "\"failed\":\"broken\"",
        "Preempted",
        "\"ask\"",
        "\"answered\"",
    ] {
        assert!(text.contains(what), "no {what}");
    }
}

/// Entries that are kept.
#[derive(Default)]
struct Kept(Vec<Entry>);

impl Sink for &mut Kept {
    fn put(&mut self, entry: Entry) {
        self.0.push(entry);
    }
}

/// Records two pods on two nodes, and returns the entries.
fn two_pods() -> Vec<Entry> {
    let mut kept = Kept::default();
    let mut engine = Recorder::new(config(false, false), Some(&mut kept));
    let key = CustomKey { resource: "teams.v1.example.com".into(), namespace: "x".into(), name: "t".into() };
    let mut now = 1_000_000_000;
    let mut inputs = |engine: &mut Recorder<&mut Kept>, inputs: Vec<Input>| {
        for input in inputs {
            now += 1;
            engine.handle(input, Timestamp::from_secs(now));
        }
        now += 1;
        engine.schedule_one(Timestamp::from_secs(now));
        engine.take_effects();
    };
    let first = vec![
        Input::Node(node("a", 1000)),
        Input::Node(node("b", 900)),
        Input::Node(node("gone", 2000)),
        Input::NodeGone("gone".into()),
        Input::Custom(RawObject::from_json(key, "{}")),
        Input::Pod(pod("p", 800)),
    ];
    inputs(&mut engine, first);
    let mut bound = pod("p", 800);
    bound.node_name = Some("a".into());
    inputs(&mut engine, vec![Input::Pod(bound), Input::Pod(pod("q", 800))]);
    drop(engine);
    kept.0
}

/// Writes the entries to two files, of which the second begins after `first` entries. `gap` entries are lost before it.
fn in_two_files(first: usize, gap: usize) -> [Vec<u8>; 2] {
    split(first, gap).0
}

/// Returns the files of [`in_two_files`], and whether the second one begins where a file of a ring may begin.
fn split(first: usize, gap: usize) -> ([Vec<u8>; 2], bool) {
    let (mut encoder, mut files) = (Encoder::of_files(), [Vec::new(), Vec::new()]);
    let mut entries = two_pods().into_iter();
    entries.by_ref().take(first).for_each(|entry| encoder.write(entry, &mut files[0]).unwrap());
    if gap > 0 {
        encoder.write(Entry::gap(gap as u64), &mut files[0]).unwrap();
        entries.by_ref().take(gap).for_each(|entry| encoder.write(entry, &mut std::io::sink()).unwrap());
    }
    let is_settled = encoder.is_settled();
    encoder.begin_file(&mut files[1]).unwrap();
    entries.for_each(|entry| encoder.write(entry, &mut files[1]).unwrap());
    (files, is_settled)
}

#[test]
fn a_replay_continues_with_the_next_file_and_may_begin_with_it() {
    for first in 1..two_pods().len() {
        let ([one, two], is_settled) = split(first, 0);
        let (_, effects, _) = replay(&[&one, &two], Mode::Exact).unwrap();
        assert_eq!(effects, 2, "each pod is bound");
        let why = replay(&[&two], Mode::Exact).unwrap_err().to_string();
        assert_eq!(why, "line 1 cannot be replayed: the recording does not begin with the engine");
        let (.., compared) = replay(&[&two], Mode::Compare).unwrap();
        assert!(!is_settled || compared.is_equal(), "{first}: {compared:?}");
    }
}

#[test]
fn a_gap_ends_a_replay_and_the_next_file_has_the_objects_that_changed_meanwhile() {
    let all = two_pods().len();
    let [one, two] = in_two_files(8, all - 8 - 2);
    let mut replayer = Replayer::new(Box::new(configured), Mode::Exact, None);
    let last = std::str::from_utf8(&one).unwrap().lines().map(|line| replayer.play(line).unwrap()).last();
    assert_eq!(last, Some(Progress::Gap(all as u64 - 10)));
    let (.., compared) = replay(&[&two], Mode::Compare).unwrap();
    assert_eq!((compared.same, compared.is_equal()), (1, true), "{compared:?}");
}

#[test]
fn a_replay_ends_in_the_middle_and_answers_questions() {
    let [one, two] = in_two_files(3, 0);
    let until = Some(Timestamp::from_secs(1_000_000_006));
    let mut replayer = Replayer::new(Box::new(configured), Mode::Exact, until);
    let mut last = Progress::Played;
    for file in [one, two] {
        replayer.begin_file();
        for line in std::str::from_utf8(&file).unwrap().lines() {
            last = replayer.play(line).unwrap();
            if last == Progress::Over {
                break;
            }
        }
    }
    assert_eq!(last, Progress::Over);
    let state = |name: &str| replayer.engine().and_then(|engine: &Engine| engine.pod_state("default", name));
    assert_eq!(state("p").map(|told| told.state), Some("active"));
    assert_eq!(state("q"), None);
}

#[test]
fn another_configuration_shows_the_pods_that_it_places_elsewhere() {
    let [one, two] = in_two_files(4, 0);
    let closed = |_: Option<&Value>| {
        let profile = world::profile_with(|_| vec![("PostFilter", "DefaultPreemption")]);
        let extender = Extender { name: "f".into(), filters: true, ..Extender::default() };
        let extenders = Extenders::new([extender]);
        Ok::<_, String>(EngineConfig { extenders, ..EngineConfig::new(vec![profile]) })
    };
    let mut replayer = Replayer::new(Box::new(closed), Mode::Compare, None);
    for file in [one, two] {
        replayer.begin_file();
        std::str::from_utf8(&file).unwrap().lines().for_each(|line| {
            replayer.play(line).unwrap();
        });
    }
    // No answer of the extender was recorded, so no pod gets a node.
    let compared = replayer.comparison();
    let waiting: Vec<&str> = compared.waiting.iter().map(|moved| moved.pod.as_str()).collect();
    assert_eq!((compared.same, waiting), (0, vec!["default/p", "default/q"]));
}

#[test]
fn a_recording_of_the_previous_format_is_replayed() {
    let [one, _] = in_two_files(9, 0);
    let text = String::from_utf8(one).unwrap();
    let (format, field) = ("\"format\":8", "\"concurrentExtenders\":false,");
    assert!(text.contains(format) && text.contains(field));
    let older = text.replace(format, "\"format\":7").replace(field, "");
    replay(&[older.as_bytes()], Mode::Exact).unwrap();
}

#[test]
fn recordings_of_other_versions_and_damaged_ones_are_refused() {
    let [one, _] = in_two_files(9, 0);
    let text = String::from_utf8(one).unwrap();
    let format = "\"format\":8";
    assert!(text.contains(format));
    for (changed, expected) in [
        (
            text.replace(format, "\"format\":99,\"new\":1"),
            "line 1 cannot be replayed: the recording has format 99, and this program reads formats up to 8: use a newer program",
        ),
        (
            text.replace(format, "\"format\":1"),
            "line 1 cannot be replayed: the recording has format 1, and this program reads formats from 7 on",
        ),
        (
            text.replace(format, "\"format\":8,\"new\":1"),
            "line 1 is not a call to the engine: unknown field `new`",
        ),
        ("{}".to_owned(), "line 1 cannot be replayed: a recording must begin with the engine's settings"),
        (text.replace("\"spec\":[1,", "\"spec\":[3,"), "line 8 cannot be replayed: no spec has the number 1"),
        (
            text.replace("\"node\":{", "\"nodes\":{"),
            "line 2 is not a call to the engine: unknown variant `nodes`",
        ),
    ] {
        let why = replay(&[changed.as_bytes()], Mode::Exact).unwrap_err().to_string();
        assert!(why.starts_with(expected), "{why}");
    }
    // No damage causes a panic.
    for at in (0..text.len()).step_by(97) {
        let cut: String = text.chars().take(at).collect();
        let _ = replay(&[cut.as_bytes()], Mode::Exact);
        let mut bytes = text.clone().into_bytes();
        bytes[at] = b'7';
        let _ = replay(&[&bytes], Mode::Compare);
    }
}
