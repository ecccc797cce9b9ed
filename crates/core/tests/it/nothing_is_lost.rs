//! After any sequence of steps, every pod that is not terminating is queued, being bound or bound, and the CPU
//! requested on each node is the sum over the node's pods.

use harbormaster_core::{Effect, EngineConfig, Note};
use proptest::prelude::*;

use crate::world::{
    self, World,
    steps::{Model, Step, play, step},
};

fn check(world: &World, model: &Model) -> Result<(), TestCaseError> {
    let engine = &world.engine;
    for pod in model.pods.values() {
        let queued = engine.queue().get(&pod.uid).is_some();
        let binding = model.bindings.iter().any(|(uid, _)| pod.uid == uid.as_str());
        let bound = pod.node_name.is_some();
        prop_assert!(!(queued && bound), "{} is bound and still queued", pod.name);
        prop_assert!(!(queued && binding), "{} is queued and being bound", pod.name);
        prop_assert!(queued || bound || binding || pod.is_terminating(), "{} is lost", pod.name);
        prop_assert!(
            !bound || engine.cache().is_on_node(&pod.uid),
            "{} does not count on its node",
            pod.name
        );
    }
    let nodes = &engine.cache().cluster;
    for row in 0..nodes.rows() {
        let node = nodes.node(row.into());
        let sum: i64 = node.pods().iter().map(|p| p.request().milli_cpu).sum();
        prop_assert_eq!(node.requested().milli_cpu, sum);
        prop_assert_eq!(node.requested().pods, node.pods().len() as i64);
    }
    prop_assert_eq!(engine.bindings_in_progress(), model.bindings.len());
    let known = model.pods.values().filter(|p| engine.cache().is_on_node(&p.uid)).count();
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
    let stuck = world.engine.take_notes().into_iter().find(|note| matches!(note, Note::Stuck { .. }));
    prop_assert!(stuck.is_none(), "{stuck:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_pod_is_lost_and_no_placed_pod_is_queued(steps in prop::collection::vec(step(), 1..150)) {
        run(steps, false)?;
    }

    #[test]
    fn no_pod_is_lost_and_no_placed_pod_is_queued_in_parity_mode(steps in prop::collection::vec(step(), 1..150)) {
        run(steps, true)?;
    }
}

#[test]
fn the_same_inputs_produce_the_same_effects() {
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
        Effect::Bind(task) => format!("bind {} {}", task.pod().name, task.node()),
        Effect::PatchStatus(patch) => format!("patch {} {:?}", patch.pod.name, patch.condition),
        Effect::Event(event) => format!("event {} {}", event.pod.name, event.note),
        Effect::Evict(task) => format!("evict {}", task.victim.name),
        Effect::CallOff(task) => format!("call off {} {}", task.pod, task.why),
        Effect::Call(task) => format!("call {} {:?}", task.pod.name, task.calls),
        Effect::Group(task) => format!("group {} {:?}", task.group.id, task.call),
        Effect::Ask(task) => format!("ask {} {:?}", task.pod.name, task.question),
    }
}
