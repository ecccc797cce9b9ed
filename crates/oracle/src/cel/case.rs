//! An expression, the devices for which it is evaluated, and Harbormaster's answer.

use harbormaster_api::Release;
use harbormaster_cel::{self as cel, Features, MAX_COST, Selector};
use serde_json::{Value, json};

use super::devices::Device;
use super::expressions::Expressions;
use super::mutations::mutated;
use super::real::{Answer, Evaluated};
use crate::generate::Random;

/// An expression and devices.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) seed: u64,
    pub(super) expression: String,
    /// True if the expression is compiled as the API server compiles a new one; false if it is compiled as
    /// kube-scheduler compiles a stored one.
    pub(super) is_new: bool,
    pub(super) features: Features,
    pub(super) cost_limit: u64,
    pub(super) devices: Vec<Device>,
}

impl Case {
    pub(super) fn new(seed: u64, release: Release) -> Self {
        let mut random = Random::new(seed);
        let consumable_capacity = random.chance(70);
        let list_attributes = random.chance(30);
        let features = Features { release, consumable_capacity, list_attributes };
        let is_new = random.chance(25);
        let cost_limit = if random.chance(25) { random.below(150) as u64 } else { MAX_COST };
        let count = random.range(1, 3);
        let devices: Vec<Device> =
            (0..count).map(|_| Device::random(&mut random, features.list_attributes)).collect();
        let reads = devices.first().map(Device::reads).unwrap_or_default();
        let mut expression = Expressions::new(&mut random, reads).whole();
        if random.chance(8) {
            expression = mutated(&mut random, &expression);
        }
        Self { seed, expression, is_new, features, cost_limit, devices }
    }

    /// The request to Kubernetes' evaluator.
    pub(super) fn request(&self) -> Value {
        json!({
            "expression": self.expression,
            "new": self.is_new,
            "listAttributes": self.features.list_attributes,
            "consumableCapacity": self.features.consumable_capacity,
            "costLimit": self.cost_limit,
            "devices": self.devices.iter().map(Device::json).collect::<Vec<_>>(),
        })
    }

    /// Harbormaster's answer.
    pub(super) fn ours(&self) -> Answer {
        let compile = if self.is_new { Selector::compile_new } else { Selector::compile };
        match compile(&self.expression, self.features) {
            Err(why) => Answer { compile_error: Some(why.to_string()), results: Vec::new() },
            Ok(selector) => {
                let results = self.devices.iter().map(|device| self.evaluated(&selector, device));
                Answer { compile_error: None, results: results.collect() }
            }
        }
    }

    fn evaluated(&self, selector: &Selector, device: &Device) -> Evaluated {
        let capacity: Vec<_> = device.capacity.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let attributes = device.attributes.iter().map(|(name, value)| (name.clone(), value.clone()));
        let attributes: Vec<_> = attributes.collect();
        let evaluation = selector.evaluate(
            &cel::Device {
                driver: device.driver,
                attributes: &attributes,
                capacity: &capacity,
                allow_multiple_allocations: device.allow_multiple_allocations,
            },
            self.cost_limit,
        );
        let (value, error) = match evaluation.result {
            Ok(value) => (value, String::new()),
            Err(why) => (false, why.to_string()),
        };
        Evaluated { value, error, cost: evaluation.cost, unstable: false }
    }
}
