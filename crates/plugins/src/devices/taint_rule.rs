//! Rules that taint devices of any slice.

use std::collections::BTreeMap;

use harbormaster_api::{Str, features::Feature};
use harbormaster_framework::resource::{OlderVersion, Resource, ResourceScope};
use serde::Deserialize;

use super::{ResourceSlice, pools::PoolKey, slice::Device, taint::DeviceTaint};
use crate::storage::wire::or_default;

/// A rule that adds a taint to devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "WireRule")]
pub struct DeviceTaintRule {
    /// `spec.deviceSelector`: the devices; `None` for no device.
    pub selector: Option<TaintSelector>,
    /// `spec.taint`
    pub taint: DeviceTaint,
}

/// The devices that a rule concerns. Every field that is set restricts them further.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TaintSelector {
    /// `driver`
    pub driver: Option<Str>,
    /// `pool`
    pub pool: Option<Str>,
    /// `device`
    pub device: Option<Str>,
}

impl Resource for DeviceTaintRule {
    const GROUP: &'static str = "resource.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "DeviceTaintRule";
    const PLURAL: &'static str = "devicetaintrules";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
    const OLDER_VERSIONS: &'static [OlderVersion] = &[
        OlderVersion { name: "v1beta2", upgrade: |_| {}, downgrade: |_| {} },
        OlderVersion { name: "v1alpha3", upgrade: |_| {}, downgrade: |_| {} },
    ];
    const GATE: Option<Feature> = Some(Feature::DRADeviceTaintRules);
}

impl DeviceTaintRule {
    /// Returns true if the rule keeps some device from being allocated.
    pub fn is_effective(&self) -> bool {
        self.selector.is_some() && self.taint.prevents_allocation()
    }

    /// Returns true if the rule concerns devices of the pool.
    pub(super) fn concerns(&self, pool: &PoolKey) -> bool {
        self.concerns_pool(&pool.driver, &pool.pool)
    }

    fn concerns_pool(&self, driver: &Str, pool: &Str) -> bool {
        let is = |wanted: &Option<Str>, name: &Str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        self.selector.as_ref().is_some_and(|it| is(&it.driver, driver) && is(&it.pool, pool))
    }

    /// Returns true if the rule concerns devices of this name.
    fn concerns_device(&self, name: &Str) -> bool {
        let device = self.selector.as_ref().and_then(|selector| selector.device.as_ref());
        device.is_none_or(|device| device == name)
    }
}

/// Returns true if some device of the slice has other taints after a rule has changed.
pub fn have_different_taints(
    slice: &ResourceSlice,
    old: Option<&DeviceTaintRule>,
    new: Option<&DeviceTaintRule>,
) -> bool {
    let of_pool = |rule: &&DeviceTaintRule| rule.concerns_pool(&slice.driver, &slice.pool.name);
    let (old, new) = (old.filter(of_pool), new.filter(of_pool));
    let taint = |rule: Option<&'_ DeviceTaintRule>, device: &Str| {
        rule.filter(|rule| rule.concerns_device(device)).map(|rule| rule.taint.clone())
    };
    (old.is_some() || new.is_some())
        && slice.devices.iter().any(|device| taint(old, &device.name) != taint(new, &device.name))
}

/// All effective rules, by name.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TaintRules(BTreeMap<Str, DeviceTaintRule>);

/// Taints that rules add to devices of a slice, by position of the device.
pub(super) type RuleTaints = BTreeMap<usize, Vec<DeviceTaint>>;

impl TaintRules {
    /// Adds, replaces or removes a rule. Returns the rules whose devices have other taints now.
    pub(super) fn set(&mut self, name: &Str, rule: Option<&DeviceTaintRule>) -> Vec<DeviceTaintRule> {
        let new = rule.filter(|rule| rule.is_effective()).cloned();
        let old = self.0.remove(name);
        if old == new {
            self.0.extend(new.map(|rule| (name.clone(), rule)));
            return Vec::new();
        }
        self.0.extend(new.clone().map(|rule| (name.clone(), rule)));
        old.into_iter().chain(new).collect()
    }

    /// Returns the taints for the devices of a slice of the pool.
    pub(super) fn taints<'a>(
        &self,
        pool: &PoolKey,
        devices: impl Iterator<Item = &'a Device> + Clone,
    ) -> RuleTaints {
        let mut taints = RuleTaints::new();
        for rule in self.0.values().filter(|rule| rule.concerns(pool)) {
            for (at, _) in
                devices.clone().enumerate().filter(|(_, device)| rule.concerns_device(&device.name))
            {
                taints.entry(at).or_default().push(rule.taint.clone());
            }
        }
        taints
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireRule {
    #[serde(deserialize_with = "or_default")]
    spec: WireSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    device_selector: Option<TaintSelector>,
    #[serde(deserialize_with = "or_default")]
    taint: DeviceTaint,
}

impl From<WireRule> for DeviceTaintRule {
    fn from(WireRule { spec }: WireRule) -> Self {
        Self { selector: spec.device_selector, taint: spec.taint }
    }
}
