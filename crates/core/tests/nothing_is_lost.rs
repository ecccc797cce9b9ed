//! Whatever happens, every pod is somewhere, and what counts on nodes is what is there.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

mod world;

use std::{collections::BTreeMap, time::Duration};

use harbormaster_core::{BindOutcome, Effect, EngineConfig, Input};
use harbormaster_framework::outcome::Reject;
use proptest::prelude::*;
use world::{World, node, pod};

#[derive(Clone, Debug)]
enum Step {
    Pod { name: u8, cpu: u8, gated: bool },
    BoundElsewhere { name: u8, node: u8 },
    PodGone(u8),
    Terminating(u8),
    Node { name: u8, cpu: u8, cordoned: bool },
    NodeGone(u8),
    Attempt,
    BindEnds { which: u8, how: u8 },
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0u8..15, 0u8..40, prop::bool::weighted(0.2)).prop_map(|(name, cpu, gated)| Step::Pod { name, cpu, gated }),
        1 => (0u8..15, 0u8..5).prop_map(|(name, node)| Step::BoundElsewhere { name, node }),
        2 => (0u8..15).prop_map(Step::PodGone),
        1 => (0u8..15).prop_map(Step::Terminating),
        2 => (0u8..5, 0u8..60, any::<bool>()).prop_map(|(name, cpu, cordoned)| Step::Node { name, cpu, cordoned }),
        1 => (0u8..5).prop_map(Step::NodeGone),
        8 => Just(Step::Attempt),
        6 => (any::<u8>(), 0u8..4).prop_map(|(which, how)| Step::BindEnds { which, how }),
        2 => (0u16..20_000).prop_map(Step::Wait),
    ]
}

/// What the API server knows: pods by name with their node, and the bindings asked for.
#[derive(Default)]
struct Model {
    pods: BTreeMap<String, harbormaster_api::Pod>,
    bindings: Vec<(String, String)>,
    incarnation: u32,
}

fn play(world: &mut World, model: &mut Model, step: Step) {
    match step {
        Step::Pod { name, cpu, gated } => {
            let name = format!("p{name}");
            if model.pods.contains_key(&name) {
                return;
            }
            model.incarnation += 1;
            let mut new = pod(&name, i64::from(cpu));
            new.uid = format!("{name}-{}", model.incarnation).into();
            if gated {
                new.scheduling_gates = vec!["g".into()];
            }
            model.pods.insert(name, new.clone());
            world.add_pod(new);
        }
        Step::BoundElsewhere { name, node } => {
            if let Some(pod) = model.pods.get_mut(&format!("p{name}")).filter(|p| p.node_name.is_none()) {
                pod.node_name = Some(format!("n{node}").into());
                world.add_pod(pod.clone());
            }
        }
        Step::PodGone(name) => {
            if let Some(pod) = model.pods.remove(&format!("p{name}")) {
                world.input(Input::PodGone(pod.uid));
            }
        }
        Step::Terminating(name) => {
            if let Some(pod) = model.pods.get_mut(&format!("p{name}")) {
                pod.deleted = Some(world.now);
                world.add_pod(pod.clone());
            }
        }
        Step::Node { name, cpu, cordoned } => {
            let mut new = node(&format!("n{name}"), i64::from(cpu));
            new.unschedulable = cordoned;
            world.set_node(new);
        }
        Step::NodeGone(name) => world.remove_node(&format!("n{name}")),
        Step::Attempt => {
            world.attempt();
            model.bindings.extend(world.binding_uids());
        }
        Step::BindEnds { which, how } => {
            if model.bindings.is_empty() {
                return;
            }
            let (uid, node) = model.bindings.remove(which as usize % model.bindings.len());
            let pod = model.pods.values_mut().find(|p| p.uid == uid.as_str());
            let free = pod.as_ref().is_some_and(|p| p.node_name.is_none());
            let outcome = match how {
                0 | 1 if free => {
                    let pod = pod.unwrap();
                    pod.node_name = Some(node.into());
                    // The confirmation may come before or after the answer.
                    if how == 0 {
                        world.add_pod(pod.clone());
                    }
                    BindOutcome::Bound
                }
                2 => BindOutcome::Rejected(Reject::evictable("no")),
                _ => BindOutcome::Failed("broken".into()),
            };
            world.bind_finished(&uid, outcome.clone());
            if outcome == BindOutcome::Bound {
                let bound = model.pods.values().find(|p| p.uid == uid.as_str()).unwrap().clone();
                world.add_pod(bound);
            }
        }
        Step::Wait(millis) => world.wait(Duration::from_millis(millis.into())),
    }
}

fn check(world: &World, model: &Model) -> Result<(), TestCaseError> {
    let engine = &world.engine;
    for pod in model.pods.values() {
        let queued = engine.queue().get(&pod.uid).is_some();
        let binding = model.bindings.iter().any(|(uid, _)| pod.uid == uid.as_str());
        let bound = pod.node_name.is_some();
        prop_assert!(!(queued && bound), "{} is bound and still queued", pod.name);
        prop_assert!(!(queued && binding), "{} is queued and being bound", pod.name);
        prop_assert!(queued || bound || binding || pod.is_terminating(), "{} is lost", pod.name);
        prop_assert!(!bound || engine.cache().is_placed(&pod.uid), "{} does not count", pod.name);
    }
    let nodes = &engine.cache().cluster;
    for row in 0..nodes.rows() {
        let node = nodes.node(row.into());
        let sum: i64 = node.pods().iter().map(|p| p.request().milli_cpu).sum();
        prop_assert_eq!(node.requested().milli_cpu, sum);
        prop_assert_eq!(node.requested().pods, node.pods().len() as i64);
    }
    prop_assert_eq!(engine.bindings_in_progress(), model.bindings.len());
    let known = model.pods.values().filter(|p| engine.cache().is_placed(&p.uid)).count();
    prop_assert_eq!(engine.cache().pod_counts().0, known, "a pod that is gone still counts");
    Ok(())
}

fn run(steps: Vec<Step>, parity: bool) -> Result<(), TestCaseError> {
    let mut config = EngineConfig::new(vec![world::profile()]);
    config.parity = parity;
    config.batching = parity;
    let (mut world, mut model) = (World::with(config), Model::default());
    for step in steps {
        play(&mut world, &mut model, step);
        check(&world, &model)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_pod_is_in_exactly_one_place(steps in prop::collection::vec(step(), 1..150)) {
        run(steps, false)?;
    }

    #[test]
    fn every_pod_is_in_exactly_one_place_in_parity_mode(steps in prop::collection::vec(step(), 1..150)) {
        run(steps, true)?;
    }
}

#[test]
fn the_same_inputs_give_the_same_effects() {
    let effects = |seed: u64| {
        let mut world = World::new();
        let mut model = Model::default();
        let mut state = seed;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let step = match random(5) {
                0 => Step::Pod { name: random(15) as u8, cpu: random(40) as u8, gated: false },
                1 => Step::Node { name: random(5) as u8, cpu: random(60) as u8, cordoned: false },
                2 => Step::BindEnds { which: random(9) as u8, how: random(4) as u8 },
                3 => Step::Wait(random(5000) as u16),
                _ => Step::Attempt,
            };
            play(&mut world, &mut model, step);
        }
        world.all_effects().iter().map(describe).collect::<Vec<_>>()
    };
    assert_eq!(effects(7), effects(7));
    assert!(effects(7).len() > 50);
}

fn describe(effect: &Effect) -> String {
    match effect {
        Effect::Bind(task) => format!("bind {} {}", task.pod.name, task.node),
        Effect::PatchStatus(patch) => format!("patch {} {:?}", patch.pod.name, patch.condition),
        Effect::Event(event) => format!("event {} {}", event.pod.name, event.note),
        Effect::Evict(task) => format!("evict {}", task.victim.name),
        Effect::Trouble(trouble) => format!("trouble {}", trouble.error),
        Effect::Undecodable(why) => format!("undecodable {why}"),
    }
}
