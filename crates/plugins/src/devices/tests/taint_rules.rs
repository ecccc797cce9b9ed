//! Rules that taint devices.

use harbormaster_framework::{cluster::Cluster, index::IndexKind};
use harbormaster_testkit::{cluster, node, remove_custom, set_custom};
use serde_json::{Value, json};

use super::{
    super::*,
    search::{Case, DRIVER, NONE, names, pool, request, requests, some},
};

const OTHER: &str = "y.example.com";

fn rule(name: &str, selector: &Value, effect: &str) -> Value {
    let taint = json!({"key": "k", "value": "v", "effect": effect});
    json!({"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}})
}

#[test]
fn a_rule_taints_the_devices_that_its_selector_names() {
    let slices = [
        pool(DRIVER, "p", 1, &json!({"devices": [{"name": "a"}, {"name": "b"}]})),
        pool(DRIVER, "q", 1, &json!({"devices": [{"name": "a"}]})),
        pool(OTHER, "p", 1, &json!({"devices": [{"name": "c"}]})),
    ];
    for (what, selector, effect, expected) in [
        ("no selector", json!(null), "NoSchedule", "a b a c"),
        ("an empty selector", json!({}), "NoSchedule", NONE),
        ("an empty selector", json!({}), "NoExecute", NONE),
        ("an effect without influence", json!({}), "None", "a b a c"),
        ("a driver", json!({"driver": DRIVER}), "NoSchedule", "c"),
        ("a pool", json!({"pool": "p"}), "NoSchedule", "a"),
        ("a device", json!({"device": "a"}), "NoSchedule", "b c"),
        ("a device of a pool", json!({"driver": DRIVER, "pool": "p", "device": "a"}), "NoSchedule", "b a c"),
        ("a device of a driver", json!({"driver": OTHER, "device": "a"}), "NoSchedule", "a b a c"),
        ("an unknown pool", json!({"driver": DRIVER, "pool": "r"}), "NoSchedule", "a b a c"),
    ] {
        let (rules, count) = ([rule("r", &selector, effect)], expected.split(' ').count() as u64);
        let free = if expected == NONE { 1 } else { count };
        let found = |count| names(Case { rules: &rules, ..Case::of(&slices, &[some(count)]) }.allocations());
        assert_eq!(found(free), expected, "{what} {effect}");
        assert_eq!(
            found(free + u64::from(expected != NONE)),
            NONE,
            "{what} {effect}: no other device is free"
        );
    }
}

#[test]
fn taints_of_slices_and_of_all_rules_must_be_tolerated() {
    let taint = json!({"key": "own", "effect": "NoSchedule"});
    let slices =
        [pool(DRIVER, "p", 1, &json!({"devices": [{"name": "a", "taints": [taint]}, {"name": "b"}]}))];
    let rules = [rule("r", &json!({"device": "a"}), "NoSchedule"), rule("s", &json!({}), "NoExecute")];
    for (tolerations, expected) in [
        (json!([]), NONE),
        (json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]), NONE),
        (json!([{"key": "k", "operator": "Exists", "effect": "NoExecute"}]), "b"),
        (json!([{"key": "k", "operator": "Exists"}]), "b"),
        (json!([{"operator": "Exists"}]), "a"),
        (json!([{"key": "own", "operator": "Exists"}, {"key": "k", "value": "v", "operator": "Equal"}]), "a"),
    ] {
        let claims = [requests(&[request("r", &json!({"tolerations": tolerations}))])];
        let found = names(Case { rules: &rules, ..Case::of(&slices, &claims) }.allocations());
        assert_eq!(found, expected, "{tolerations}");
    }
}

/// Returns the device that a claim gets on the node, or the error.
fn answer(cluster: &Cluster, node: &str) -> String {
    let claims = cluster.watched::<ResourceClaim>();
    let claims: Vec<_> = claims.all().collect();
    let query = DeviceQuery {
        claims: &claims,
        classes: cluster.watched::<DeviceClass>(),
        gates: DeviceGates { device_taints: true, ..DeviceGates::default() },
        max_steps: 1_000,
    };
    let (index, node) =
        (cluster.indexes().get::<Devices>().unwrap(), cluster.node(cluster.find(node).unwrap()));
    let allocations = index.allocate(&query, node);
    assert_eq!(index.fits(&query, node).map(drop), allocations.as_ref().map(drop).map_err(Clone::clone));
    names(allocations)
}

/// A slice with the device of a node, which is named after the node. So is the pool.
fn local(node: &str) -> Value {
    let mut slice = pool(DRIVER, node, 1, &json!({"devices": [{"name": node}]}));
    slice["spec"].as_object_mut().unwrap().remove("allNodes");
    slice["spec"]["nodeName"] = json!(node);
    slice["metadata"]["name"] = json!(node);
    slice
}

/// A cluster of the nodes `n` and `m`, each with a device.
fn two_nodes() -> Cluster {
    let mut cluster = cluster([node("n"), node("m")], []);
    let claim = json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": some(1)}});
    set_custom::<ResourceClaim>(&mut cluster, [claim]);
    set_custom::<DeviceClass>(&mut cluster, [json!({"metadata": {"name": "any"}})]);
    set_custom::<ResourceSlice>(&mut cluster, [local("n"), local("m")]);
    set_custom::<DeviceTaintRule>(&mut cluster, []);
    cluster.add_index(IndexKind::of::<Devices>());
    cluster
}

#[test]
fn a_rule_concerns_only_nodes_that_see_its_pools() {
    let mut cluster = two_nodes();
    let mut changes = |slice: Option<Value>, rules: &[Value]| {
        set_custom::<ResourceSlice>(&mut cluster, slice);
        let supply = |cluster: &Cluster| {
            let index = cluster.indexes().get::<Devices>().unwrap();
            ["n", "m"].map(|node| index.supply_of(cluster.find(node).unwrap()))
        };
        let before = supply(&cluster);
        set_custom::<DeviceTaintRule>(&mut cluster, rules.iter().cloned());
        let after = supply(&cluster);
        [before[0] != after[0], before[1] != after[1]]
    };
    for (what, selector, effect, expected) in [
        ("a rule for n", json!({"pool": "n"}), "NoSchedule", [true, false]),
        ("the same rule", json!({"pool": "n"}), "NoSchedule", [false, false]),
        ("the rule moves", json!({"pool": "m"}), "NoSchedule", [true, true]),
        ("another device", json!({"pool": "m", "device": "n"}), "NoSchedule", [false, true]),
        ("no device", json!({"pool": "m", "device": "n"}), "None", [false, false]),
    ] {
        assert_eq!(changes(None, &[rule("r", &selector, effect)]), expected, "{what}");
    }
    let shared = pool(OTHER, "shared", 1, &json!({"devices": [{"name": "s"}]}));
    let of_shared = rule("r", &json!({"driver": OTHER}), "NoExecute");
    assert_eq!(changes(Some(shared), &[of_shared]), [true, true], "a pool that both nodes see");
}

#[test]
fn answers_follow_rules_that_come_change_and_go() {
    let mut cluster = two_nodes();
    let expect = |cluster: &Cluster, what: &str, expected: [&str; 2]| {
        assert_eq!(["n", "m"].map(|node| answer(cluster, node)), expected, "{what}");
    };
    expect(&cluster, "no rule", ["n", "m"]);
    let of_n = rule("r", &json!({"pool": "n"}), "NoSchedule");
    set_custom::<DeviceTaintRule>(&mut cluster, [of_n.clone()]);
    expect(&cluster, "a rule for n", [NONE, "m"]);
    set_custom::<DeviceTaintRule>(
        &mut cluster,
        [rule("s", &json!({"pool": "n", "device": "n"}), "NoExecute")],
    );
    set_custom::<DeviceTaintRule>(&mut cluster, [rule("r", &json!({"pool": "m"}), "NoSchedule")]);
    expect(&cluster, "the rule moves to m, and another one is for n", [NONE, NONE]);
    remove_custom::<DeviceTaintRule>(&mut cluster, "", "s");
    expect(&cluster, "the other rule goes", ["n", NONE]);
    remove_custom::<ResourceSlice>(&mut cluster, "", "m");
    set_custom::<ResourceSlice>(&mut cluster, [local("m")]);
    expect(&cluster, "the slice comes again", ["n", NONE]);
    set_custom::<DeviceTaintRule>(&mut cluster, [rule("r", &json!({"pool": "m"}), "None")]);
    expect(&cluster, "the effect goes", ["n", "m"]);
    set_custom::<DeviceTaintRule>(&mut cluster, [of_n]);
    remove_custom::<DeviceTaintRule>(&mut cluster, "", "r");
    expect(&cluster, "all rules go", ["n", "m"]);
}

#[test]
fn a_rule_decodes_with_and_without_its_selector() {
    let decoded = |spec: Value| serde_json::from_value::<DeviceTaintRule>(json!({"spec": spec})).unwrap();
    let taint = json!({"key": "k", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"});
    assert_eq!(decoded(json!({"taint": taint})).selector, None);
    assert_eq!(decoded(json!({"taint": taint, "deviceSelector": null})).selector, None);
    let all = decoded(json!({"taint": taint, "deviceSelector": {}}));
    assert_eq!(all.selector, Some(taint_rule::TaintSelector::default()));
    assert!(all.is_effective() && !decoded(json!({"taint": taint})).is_effective());
    assert_eq!(
        serde_json::from_value::<DeviceTaintRule>(json!({"spec": null})).unwrap(),
        DeviceTaintRule::default()
    );
}
