//! Scheduler configurations.

use serde_json::{Value, json};

use super::flavour::Flavour;
use super::{Profile, Random, World};

/// Plugins that a profile may disable.
const OPTIONAL: &[&str] = &[
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "NodeDeclaredFeatures",
    "PodTopologySpread",
    "InterPodAffinity",
    "DefaultPreemption",
    "DynamicResources",
];

/// Plugins that score.
pub(crate) const SCORERS: &[&str] = &[
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "PodTopologySpread",
    "InterPodAffinity",
    "VolumeBinding",
];

/// Generates a KubeSchedulerConfiguration with a profile for each name in `world`.
pub(super) fn configuration(random: &mut Random, world: &World, flavours: &[&dyn Flavour]) -> Value {
    let profiles: Vec<Value> = (world.profiles.iter().enumerate())
        .map(|(index, name)| profile(random, world, flavours, index, name).to_value())
        .collect();
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 1,
        "profiles": profiles,
    })
}

/// Generates a profile. The first one often has the defaults, because they matter most.
fn profile(
    random: &mut Random,
    world: &World,
    flavours: &[&dyn Flavour],
    index: usize,
    name: &str,
) -> Profile {
    let mut profile = Profile { name: name.to_owned(), ..Profile::default() };
    if index == 0 && random.chance(40) {
        return profile;
    }
    for flavour in flavours {
        flavour.profile(&mut random.fork(), world, &mut profile);
    }
    if random.chance(40) {
        for plugin in random.sample(SCORERS, 2) {
            profile.weights.insert(plugin.to_owned(), *random.pick(&[1, 2, 3, 10, 100]));
        }
    }
    if random.chance(25) {
        profile.disabled.push((*random.pick(OPTIONAL)).to_owned());
    }
    if random.chance(20) {
        let plugin = (*random.pick(SCORERS)).to_owned();
        if !profile.disabled.contains(&plugin) {
            profile.disabled_at.push(("score", plugin));
        }
    }
    profile
}
