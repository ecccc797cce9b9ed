//! Random changes to a cluster, and the state of its API server.

use std::{collections::BTreeMap, time::Duration};

use harbormaster_core::{BindOutcome, Input};
use harbormaster_framework::outcome::Reject;
use proptest::prelude::*;

use super::{World, node, pod};

#[derive(Clone, Debug)]
pub(crate) enum Step {
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

pub(crate) fn step() -> impl Strategy<Value = Step> {
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

/// State of the API server: the pods by name, and the requested bindings.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) pods: BTreeMap<String, harbormaster_api::Pod>,
    pub(crate) bindings: Vec<(String, String)>,
    incarnation: u32,
}

pub(crate) fn play(world: &mut World, model: &mut Model, step: Step) {
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
                    // The update of the pod may arrive before or after the binding's result.
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
