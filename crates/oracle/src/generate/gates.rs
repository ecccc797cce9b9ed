//! Scheduling gates and priorities.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::world::push;
use super::{Random, World};

/// `spec.schedulingGates` of pending pods.
pub(super) struct Gates;

impl Flavour for Gates {
    fn name(&self) -> &'static str {
        "scheduling gates"
    }

    fn share(&self) -> usize {
        40
    }

    fn pending(&self, random: &mut Random, _world: &World, pod: &mut Value) {
        if random.chance(15) {
            let count = random.range(1, 2);
            for name in random.sample(&["example.com/quota", "example.com/data", "gate"], count) {
                push(&mut pod["spec"]["schedulingGates"], json!({"name": name}));
            }
        }
    }
}

/// `spec.priority`. On a real API server, the `Priority` admission plugin sets this field from the priority class.
pub(super) struct Priorities;

impl Flavour for Priorities {
    fn name(&self) -> &'static str {
        "priorities"
    }

    fn pod(&self, random: &mut Random, world: &World, pod: &mut Value) {
        let priority = *random.pick(&world.priorities);
        if !world.admitted && random.chance(10) {
            pod["spec"]["preemptionPolicy"] = (*random.pick(&["Never", "PreemptLowerPriority"])).into();
        }
        if priority == 0 {
            return;
        }
        if world.admitted {
            pod["spec"]["priorityClassName"] = priority_class_name(priority).into();
        } else {
            pod["spec"]["priority"] = priority.into();
        }
    }
}

/// Name of the priority class with the value `priority`. The class for pods that do not preempt has the additional
/// suffix `-never`.
pub(crate) fn priority_class_name(priority: i32) -> String {
    if priority < 0 { format!("minus-{}", priority.unsigned_abs()) } else { format!("plus-{priority}") }
}
