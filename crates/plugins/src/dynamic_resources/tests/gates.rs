//! Every feature gate of dynamic resource allocation that is honored changes the plugin, and no other does.

use harbormaster_api::features::{Features, Support};

use super::*;

fn build(features: Features) -> DynamicResources {
    DynamicResources::build(DynamicResourcesArgs::default(), &BuildCycle { features }).unwrap()
}

#[test]
fn only_honored_gates_change_the_plugin() {
    let default = Features::default();
    for feature in Feature::ALL.iter().filter(|feature| feature.name().starts_with("DRA")) {
        let changed = default.with(*feature, !default.enabled(*feature));
        let is_honored = matches!(feature.support(), Support::Honored | Support::HonoredFrom(_));
        assert_eq!(build(changed) != build(default), is_honored, "{feature}");
    }
}

#[test]
fn each_microsecond_of_the_filter_timeout_allows_one_step() {
    for (timeout, gate, expected) in [
        (None, true, u64::MAX),
        (Some("0s"), true, u64::MAX),
        (Some("1ns"), true, 1),
        (Some("500us"), true, 500),
        (Some("10s"), true, 10_000_000),
        (Some("10s"), false, u64::MAX),
    ] {
        let args = json!({ "filterTimeout": timeout });
        let args: DynamicResourcesArgs = serde_json::from_value(args).unwrap();
        let features = Features::default().with(Feature::DRASchedulerFilterTimeout, gate);
        let plugin = DynamicResources::build(args, &BuildCycle { features }).unwrap();
        assert_eq!(plugin.max_steps(), expected, "{timeout:?}");
    }
}

#[test]
fn rules_that_taint_devices_are_watched_if_their_gate_is_on() {
    let watched = |features: Features| {
        let mut registry = harbormaster_framework::registry::Registry::default();
        let plugin =
            registry.register::<DynamicResources>().build("DynamicResources", None, &BuildCycle { features });
        let plugin = plugin.unwrap();
        plugin.check().unwrap();
        plugin.resources().iter().any(|kind| kind.kind() == "DeviceTaintRule")
    };
    for (release, on) in [(Release::V1_36, false), (Release::V1_37, true)] {
        let features = Features::of(release);
        assert_eq!(watched(features), on, "{release}");
        for gate in [false, true] {
            assert_eq!(watched(features.with(Feature::DRADeviceTaintRules, gate)), gate, "{release}");
        }
    }
}
