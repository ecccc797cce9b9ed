//! Extenders that are asked while other pods are decided.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use harbormaster_api::{Node, Pod, Str};
use harbormaster_core::{
    AskTask, BindOutcome, EngineConfig, Input, Outcome,
    recording::{Mode, Progress, Replayer, replay},
};
use harbormaster_framework::{
    extender::{Answer, Extender, ExtenderClient, Extenders, Filtered, NodeVictims, Question, Remark},
    pod::PodInfo,
};
use proptest::prelude::*;

use crate::world::{World, answer_to, node, pod, profile_with, with_priority};

const GPU: &str = "example.com/gpu";
const FPGA: &str = "example.com/fpga";
/// Lowest grade of nodes that every extender accepts.
const WELCOME: i64 = 100;

/// Grade and number of pods of each node.
type Seen = BTreeMap<String, (i64, i64)>;

/// Extenders whose answers about a node depend on what they see on it.
#[derive(Debug, Default)]
struct Graders {
    seen: Mutex<Seen>,
    /// Failure of every request to the first extender.
    down: Mutex<Option<String>>,
    asked: Mutex<Vec<String>>,
    remarks: Mutex<Vec<String>>,
}

impl Graders {
    fn of(&self, node: &Str) -> (i64, i64) {
        self.seen.lock().unwrap().get(node.as_str()).copied().unwrap_or_default()
    }

    fn see(&self, world: &World) {
        let nodes = world.engine.cache().cluster.nodes();
        let grade = |node: &Node| node.labels.get("grade").and_then(|grade| grade.parse().ok()).unwrap_or(0);
        let seen = nodes.all().map(|node| {
            (node.name().to_string(), (node.object().map_or(0, |node| grade(node)), node.pods().len() as i64))
        });
        *self.seen.lock().unwrap() = seen.collect();
    }

    fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn note(&self, what: &str, extender: usize, pod: &PodInfo, nodes: &[Str]) -> Result<(), String> {
        let nodes: Vec<&str> = nodes.iter().map(Str::as_str).collect();
        self.asked.lock().unwrap().push(format!("{what} {extender} {}: {}", pod.name, nodes.join(" ")));
        self.down.lock().unwrap().clone().filter(|_| extender == 0).map_or(Ok(()), Err)
    }
}

impl ExtenderClient for Graders {
    fn filter(&self, extender: usize, pod: &PodInfo, nodes: &[Str]) -> Result<Filtered, String> {
        self.note("filter", extender, pod, nodes)?;
        let mut filtered = Filtered::default();
        for name in nodes {
            let (grade, pods) = self.of(name);
            match (grade + pods + extender as i64) % 5 {
                _ if grade >= WELCOME => filtered.nodes.push(name.clone()),
                0 => filtered.failed.push((name.clone(), format!("grade {grade} with {pods} pods"))),
                1 => filtered.unresolvable.push((name.clone(), "never".to_owned())),
                _ => filtered.nodes.push(name.clone()),
            }
        }
        Ok(filtered)
    }

    fn prioritize(
        &self,
        extenders: &[usize],
        pod: &PodInfo,
        nodes: &[Str],
    ) -> Vec<Result<Vec<(Str, i64)>, String>> {
        let score = |extender: usize, name: &Str| {
            let (grade, pods) = self.of(name);
            (name.clone(), (grade * 7 + pods + extender as i64) % 11)
        };
        let scores = |extender: &usize| {
            self.note("prioritize", *extender, pod, nodes)?;
            Ok(nodes.iter().map(|name| score(*extender, name)).collect())
        };
        extenders.iter().map(scores).collect()
    }

    fn preempt(&self, _: usize, _: &PodInfo, plans: &[NodeVictims]) -> Result<Vec<NodeVictims>, String> {
        Ok(plans.to_vec())
    }

    fn remark(&self, extender: usize, _: &PodInfo, remark: Remark<'_>) {
        self.remarks.lock().unwrap().push(format!("{extender} {remark:?}"));
    }
}

/// An extender that filters and scores nodes for pods that request `resource`.
fn extender(resource: &str) -> Extender {
    Extender {
        name: resource.into(),
        filters: true,
        prioritizes: true,
        weight: 3,
        managed_resources: vec![resource.into()],
        ..Extender::default()
    }
}

fn config(extenders: &[Extender], graders: &Arc<Graders>, concurrent: bool) -> EngineConfig {
    let profile = profile_with(|_| vec![("PostFilter", "DefaultPreemption")]);
    let extenders = Extenders::new(extenders.to_vec()).with_client(graders.clone());
    EngineConfig { extenders, concurrent_extenders: concurrent, ..EngineConfig::new(vec![profile]) }
}

fn graded(name: &str, milli_cpu: i64, grade: i64) -> Node {
    let mut node = node(name, milli_cpu);
    node.allocatable.scalars = [FPGA, GPU].iter().map(|resource| ((*resource).into(), 100)).collect();
    node.labels = harbormaster_testkit::labels(&[("grade", &grade.to_string())]);
    node
}

/// A pod that requests a resource which an extender manages.
fn managed(name: &str, resource: &str) -> Pod {
    let mut pod = pod(name, 100);
    Arc::make_mut(&mut pod.spec).containers[0].requests.push((resource.into(), 1));
    pod
}

/// A world with an extender for each resource and nodes that the extenders accept.
fn world(extenders: &[Extender], nodes: &[&str]) -> (World, Arc<Graders>) {
    let graders = Arc::new(Graders::default());
    let mut world = World::with(config(extenders, &graders, true));
    nodes.iter().for_each(|name| world.set_node(graded(name, 1000, WELCOME)));
    graders.see(&world);
    (world, graders)
}

fn attempt(world: &mut World) -> Option<(String, Outcome)> {
    world.attempt().map(|attempted| (attempted.pod.name.to_string(), attempted.outcome))
}

/// Answers all questions and makes the attempts that follow, until nothing is left to do.
fn settle(world: &mut World, graders: &Graders) -> Vec<(String, Outcome)> {
    let mut outcomes = Vec::new();
    loop {
        graders.see(world);
        let attempted = attempt(world);
        let questions = world.questions();
        if attempted.is_none() && questions.is_empty() {
            return outcomes;
        }
        outcomes.extend(attempted.filter(|(_, outcome)| *outcome != Outcome::Asking));
        questions.iter().for_each(|task| world.input(answer_to(task)));
    }
}

fn names(outcomes: &[(String, Outcome)]) -> Vec<&str> {
    outcomes.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn other_pods_are_decided_while_an_extender_is_asked() {
    let (mut world, graders) = world(&[extender(GPU)], &["a", "b"]);
    world.add_pod(with_priority(managed("gpu", GPU), 9));
    world.add_pod(pod("plain", 100));
    assert_eq!(attempt(&mut world), Some(("gpu".to_owned(), Outcome::Asking)));
    let [question] = world.questions().try_into().unwrap();
    assert_eq!(question.question, Question::Filter { extender: 0, nodes: vec!["a".into(), "b".into()] });
    assert!(world.engine.queue().get(&"gpu".into()).is_none(), "the pod is in flight");
    assert_eq!(world.engine.pod_state("default", "gpu").unwrap().state, "asking");
    assert_eq!(world.engine.dump().active.len(), 2);
    assert!(matches!(attempt(&mut world), Some((name, Outcome::Assumed { .. })) if name == "plain"));
    assert_eq!(attempt(&mut world), None);
    assert!(!world.engine.has_work());
    world.input(answer_to(&question));
    assert!(world.engine.has_due_work());
    assert_eq!(names(&settle(&mut world, &graders)), ["gpu"]);
    let told = world.engine.pod_state("default", "gpu").unwrap();
    assert_eq!((told.state, told.attempts), ("binding", 1), "questions are not attempts");
    let recording = world.engine.finish().unwrap();
    replay(config(&[extender(GPU)], &graders, true), recording.as_slice()).unwrap();
}

#[test]
fn only_nodes_that_have_changed_are_asked_about_again() {
    let (mut world, graders) = world(&[extender(GPU)], &["a", "b", "c"]);
    world.add_pod(managed("gpu", GPU));
    attempt(&mut world);
    world.set_node(graded("b", 1000, WELCOME + 1));
    world.set_node(graded("d", 1000, WELCOME));
    world.remove_node("c");
    graders.see(&world);
    let questions = world.questions();
    questions.iter().for_each(|task| world.input(answer_to(task)));
    assert_eq!(names(&settle(&mut world, &graders)), ["gpu"]);
    let asked = graders.take_asked();
    assert_eq!(asked, ["filter 0 gpu: a b c", "filter 0 gpu: b d", "prioritize 0 gpu: a b d"]);
}

#[test]
fn a_changed_pod_is_asked_about_again() {
    let (mut world, graders) = world(&[extender(GPU)], &["a"]);
    world.add_pod(managed("gpu", GPU));
    attempt(&mut world);
    let changed = Pod { resource_version: "2".into(), ..managed("gpu", GPU) };
    world.add_pod(changed);
    assert_eq!(names(&settle(&mut world, &graders)), ["gpu"]);
    assert_eq!(graders.take_asked(), ["filter 0 gpu: a", "filter 0 gpu: a"]);
}

#[test]
fn an_extender_is_asked_about_one_pod_at_a_time_and_important_pods_come_first() {
    let (mut world, graders) = world(&[extender(GPU), extender(FPGA)], &["a"]);
    for (name, resource, priority) in [("g1", GPU, 1), ("g2", GPU, 2), ("f1", FPGA, 0), ("g0", GPU, 0)] {
        world.add_pod(with_priority(managed(name, resource), priority));
    }
    let tried: Vec<_> = std::iter::from_fn(|| attempt(&mut world)).collect();
    assert_eq!(names(&tried), ["g2", "f1"], "the extenders are asked at the same time");
    assert!(tried.iter().all(|(_, outcome)| *outcome == Outcome::Asking));
    assert_eq!(world.engine.queue_lengths().active, 2);
    // This one comes later, but is more important than those that wait.
    world.add_pod(with_priority(managed("g9", GPU), 9));
    assert_eq!(attempt(&mut world), None);
    // A pod that is set aside can be changed and deleted.
    world.add_pod(Pod { resource_version: "2".into(), ..with_priority(managed("g0", GPU), 0) });
    world.remove_pod("g0");
    assert_eq!(attempt(&mut world), None);
    let outcomes = settle(&mut world, &graders);
    let of_gpu: Vec<&str> = names(&outcomes).into_iter().filter(|name| name.starts_with('g')).collect();
    assert_eq!(of_gpu, ["g2", "g9", "g1"]);
    assert!(outcomes.iter().all(|(_, outcome)| matches!(outcome, Outcome::Assumed { .. })), "{outcomes:?}");
}

#[test]
fn a_deleted_pod_is_forgotten_but_its_extender_stays_occupied_until_it_has_answered() {
    let (mut world, graders) = world(&[extender(GPU)], &["a"]);
    world.add_pod(managed("gone", GPU));
    attempt(&mut world);
    world.remove_pod("gone");
    assert_eq!(world.engine.sizes().in_flight, 0);
    world.add_pod(managed("next", GPU));
    assert_eq!(attempt(&mut world), None, "the extender still works for the other pod");
    assert_eq!(names(&settle(&mut world, &graders)), ["next"]);
}

#[test]
fn an_attempt_waits_after_a_few_rounds() {
    let (mut world, graders) = world(&[extender(GPU)], &["a"]);
    world.add_pod(managed("gpu", GPU));
    let mut rounds = 0;
    loop {
        let (_, outcome) = attempt(&mut world).unwrap();
        let [question] = match world.questions().try_into() {
            Ok(question) => question,
            Err(_) => break assert!(matches!(outcome, Outcome::Assumed { .. }), "{outcome:?}"),
        };
        rounds += 1;
        world.input(answer_to(&question));
        world.set_node(graded("a", 1000 + rounds, WELCOME));
    }
    assert_eq!(rounds, 4);
    assert_eq!(graders.take_asked(), vec!["filter 0 gpu: a"; 5]);
    let recording = world.engine.finish().unwrap();
    replay(config(&[extender(GPU)], &graders, true), recording.as_slice()).unwrap();
}

#[test]
fn failures_have_the_same_effects_as_in_an_attempt_that_waits() {
    for ignorable in [false, true] {
        let told = [true, false].map(|concurrent| {
            let graders = Arc::new(Graders::default());
            let extenders = [Extender { ignorable, ..extender(GPU) }];
            let mut world = World::with(config(&extenders, &graders, concurrent));
            world.set_node(graded("a", 1000, WELCOME));
            world.set_node(graded("b", 1000, WELCOME));
            *graders.down.lock().unwrap() = Some("context deadline exceeded".to_owned());
            world.add_pod(managed("gpu", GPU));
            let outcomes = settle(&mut world, &graders);
            let standing = world.engine.queue().get(&"gpu".into()).map(|entry| entry.standing.attempts);
            let remarks = std::mem::take(&mut *graders.remarks.lock().unwrap());
            (outcomes, world.conditions(), world.events(), standing, remarks, graders.take_asked())
        });
        assert_eq!(told[0], told[1]);
        assert_eq!(matches!(told[0].0[..], [(_, Outcome::Assumed { .. })]), ignorable, "{:?}", told[0].0);
    }
}

#[test]
fn rejected_pods_return_to_the_queue_once() {
    let (mut world, graders) = world(&[extender(GPU)], &[]);
    world.set_node(graded("a", 1000, 0));
    world.add_pod(managed("gpu", GPU));
    let outcomes = settle(&mut world, &graders);
    let [(_, Outcome::Unschedulable(why))] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(why.starts_with("0/1 nodes are available: 1 grade 0 with 0 pods."), "{why}");
    let entry = world.engine.queue().get(&"gpu".into()).unwrap();
    assert_eq!((entry.attempts, entry.rejections), (1, 1));
    // The node changes while the extender is asked about it.
    world.set_node(graded("a", 1100, 0));
    world.wait(Duration::from_secs(3));
    attempt(&mut world);
    world.set_node(graded("a", 1200, WELCOME));
    assert_eq!(names(&settle(&mut world, &graders)), ["gpu"]);
    assert_eq!(world.bindings().len(), 1);
}

#[test]
fn with_a_new_configuration_the_pod_is_tried_again_and_the_old_answer_is_ignored() {
    let (mut world, graders) = world(&[extender(GPU)], &["a"]);
    world.add_pod(managed("gpu", GPU));
    attempt(&mut world);
    let [old] = world.questions().try_into().unwrap();
    world.reconfigure(config(&[extender(GPU), extender(FPGA)], &graders, true));
    assert_eq!(world.engine.queue_lengths().active, 1);
    assert_eq!(attempt(&mut world), Some(("gpu".to_owned(), Outcome::Asking)));
    world.input(answer_to(&old));
    assert_eq!(attempt(&mut world), None);
    assert_eq!(names(&settle(&mut world, &graders)), ["gpu"]);
    assert_eq!(world.engine.pod_state("default", "gpu").unwrap().attempts, 1);
}

#[test]
fn in_parity_an_attempt_waits() {
    let graders = Arc::new(Graders::default());
    let mut world = World::with(EngineConfig { parity: true, ..config(&[extender(GPU)], &graders, true) });
    world.set_node(graded("a", 1000, WELCOME));
    graders.see(&world);
    world.add_pod(managed("gpu", GPU));
    assert!(matches!(attempt(&mut world), Some((_, Outcome::Assumed { .. }))));
}

#[test]
fn an_answer_of_another_kind_is_a_failure() {
    let (mut world, _) = world(&[extender(GPU)], &["a"]);
    world.add_pod(managed("gpu", GPU));
    attempt(&mut world);
    let [AskTask { number, .. }] = world.questions().try_into().unwrap();
    world.input(Input::Answered { number, answer: Answer::Prioritize(Vec::new()) });
    let expected = Outcome::Error("extender 0 sent another answer".to_owned());
    assert_eq!(attempt(&mut world), Some(("gpu".to_owned(), expected)));
}

#[test]
fn a_comparison_finds_the_answers_to_its_own_questions() {
    let (mut world, graders) = world(&[extender(GPU), extender(FPGA)], &["a", "b"]);
    for (name, resource) in [("g1", GPU), ("f1", FPGA), ("g2", GPU)] {
        world.add_pod(managed(name, resource));
    }
    world.add_pod(pod("plain", 100));
    assert_eq!(settle(&mut world, &graders).len(), 4);
    let recording = world.engine.finish().unwrap();
    graders.take_asked();
    let extenders = [extender(GPU), extender(FPGA)];
    let configured = |_: Option<&_>| Ok(config(&extenders, &graders, true));
    let mut replayer = Replayer::new(Box::new(configured), Mode::Compare, None);
    for line in std::str::from_utf8(&recording).unwrap().lines() {
        assert_eq!(replayer.play(line).unwrap(), Progress::Played);
    }
    let comparison = replayer.comparison();
    assert!(comparison.waiting.is_empty() && comparison.only_now.is_empty(), "{comparison:?}");
    assert_eq!((comparison.same, comparison.is_equal()), (4, true), "{comparison:?}");
    assert!(graders.take_asked().is_empty(), "no extender is asked during a replay");
}

/// A change while an extender is asked.
#[derive(Clone, Debug)]
enum Change {
    Node { name: u8, cpu: i64, grade: i64 },
    NodeGone(u8),
    Pod { name: u8, cpu: i64 },
    PodGone(u8),
    BindEnds(bool),
    Annotate,
    Attempt,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0u8..6, 200i64..2000, 0i64..9).prop_map(|(name, cpu, grade)| Change::Node { name, cpu, grade }),
        1 => (0u8..6).prop_map(Change::NodeGone),
        4 => (0u8..12, 10i64..400).prop_map(|(name, cpu)| Change::Pod { name, cpu }),
        2 => (0u8..12).prop_map(Change::PodGone),
        3 => any::<bool>().prop_map(Change::BindEnds),
        1 => Just(Change::Annotate),
        6 => Just(Change::Attempt),
    ]
}

/// Two schedulers in the same cluster: one asks while it decides about other pods, the other one waits.
struct Twins {
    both: [World; 2],
    graders: Arc<Graders>,
    bindings: Vec<String>,
    /// The pod that needs extenders. The waiting scheduler does not know it yet.
    subject: Pod,
}

impl Twins {
    fn new(extenders: &[Extender]) -> Self {
        let graders = Arc::new(Graders::default());
        let both = [true, false].map(|concurrent| World::with(config(extenders, &graders, concurrent)));
        let mut subject = managed("subject", GPU);
        Arc::make_mut(&mut subject.spec).containers[0].requests.push((FPGA.into(), 1));
        Self { both, graders, bindings: Vec::new(), subject: with_priority(subject, 9) }
    }

    /// Sets both clocks to the same time.
    fn synchronize(&mut self) {
        let now = self.both[0].now.max(self.both[1].now);
        self.both.iter_mut().for_each(|world| world.now = now);
    }

    fn input(&mut self, input: &Input) {
        self.synchronize();
        self.both.iter_mut().for_each(|world| world.input(input.clone()));
    }

    fn attempts(&mut self) -> [Option<(String, Outcome)>; 2] {
        self.synchronize();
        self.graders.see(&self.both[0]);
        let tried = self.both.each_mut().map(attempt);
        self.both[1].bindings();
        self.bindings.extend(self.both[0].bindings().into_iter().map(|(name, _)| name));
        tried
    }

    fn apply(&mut self, change: Change) -> Result<(), TestCaseError> {
        match change {
            Change::Node { name, cpu, grade } => {
                self.input(&Input::Node(graded(&format!("n{name}"), cpu, grade)));
            }
            Change::NodeGone(name) => self.input(&Input::NodeGone(format!("n{name}").into())),
            Change::Pod { name, cpu } => self.input(&Input::Pod(pod(&format!("p{name}"), cpu))),
            Change::PodGone(name) => self.input(&Input::PodGone(format!("p{name}").into())),
            Change::BindEnds(succeeds) => {
                let Some(name) = self.bindings.pop() else { return Ok(()) };
                let outcome =
                    if succeeds { BindOutcome::Bound } else { BindOutcome::Failed("no".to_owned()) };
                self.input(&Input::BindFinished { uid: name.into(), outcome });
            }
            Change::Annotate => {
                let version = self.subject.resource_version.parse().unwrap_or(0) + 1;
                self.subject.resource_version = version.to_string().into();
                let subject = self.subject.clone();
                self.both[0].input(Input::Pod(subject));
            }
            Change::Attempt => {
                let [concurrent, waiting] = self.attempts();
                prop_assert_eq!(concurrent, waiting, "other pods are decided alike");
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_decision_equals_that_of_an_attempt_which_waits_at_the_moment_of_the_last_answer(
        before in prop::collection::vec(change(), 5..40),
        meanwhile in prop::collection::vec(prop::collection::vec(change(), 0..12), 1..8),
    ) {
        let extenders = [extender(GPU), extender(FPGA)];
        let mut twins = Twins::new(&extenders);
        for change in before.into_iter().filter(|change| !matches!(change, Change::Annotate)) {
            twins.apply(change)?;
        }
        let subject = twins.subject.clone();
        twins.both[0].input(Input::Pod(subject));
        let mut meanwhile = meanwhile.into_iter();
        let decided = loop {
            twins.graders.see(&twins.both[0]);
            let (name, outcome) = attempt(&mut twins.both[0]).unwrap();
            prop_assert_eq!(name, "subject");
            if outcome != Outcome::Asking {
                break outcome;
            }
            let [task] = twins.both[0].questions().try_into().unwrap();
            // The extender looks at the nodes when it is asked.
            let answer = answer_to(&task);
            for change in meanwhile.next().into_iter().flatten() {
                twins.apply(change)?;
            }
            twins.both[0].input(answer);
        };
        let subject = twins.subject.clone();
        twins.both[1].input(Input::Pod(subject));
        let (name, expected) = attempt(&mut twins.both[1]).unwrap();
        prop_assert_eq!((name.as_str(), decided), ("subject", expected));
        let recording = twins.both.map(|world| world.engine.finish().unwrap()).into_iter().next().unwrap();
        replay(config(&extenders, &twins.graders, true), recording.as_slice()).unwrap();
    }
}
