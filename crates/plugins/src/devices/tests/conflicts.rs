//! Devices that several claims have although they cannot share them.

use std::collections::{BTreeMap, BTreeSet};

use harbormaster_framework::{
    cluster::Cluster,
    index::{ClusterView, IndexKind, Indexes},
};
use harbormaster_testkit::{cluster, node, random::Dice, remove_custom, set_custom};
use serde_json::{Value, json};

use super::{super::*, search::DRIVER};

/// A slice with device `a`, which has 10 units of `memory`, and device `b`.
fn slice(name: &str, pool: &str, generation: i64, memory: u64) -> Value {
    let pool = json!({"name": pool, "generation": generation, "resourceSliceCount": 1});
    let capacity = json!({"memory": {"value": memory.to_string()}});
    let devices = json!([
        {"name": "a", "allowMultipleAllocations": true, "capacity": capacity},
        {"name": "b", "allowMultipleAllocations": true},
    ]);
    json!({
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "pool": pool, "allNodes": true, "devices": devices},
    })
}

/// What a claim has of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Whole,
    Admin,
    /// A share that consumes this amount of `memory`.
    Share(u64),
}

fn claim(name: &str, devices: &[(&str, &str, Part)]) -> Value {
    let result = |(at, (pool, device, part)): (usize, &(&str, &str, Part))| {
        let mut result = json!({"request": "r", "driver": DRIVER, "pool": pool, "device": device});
        match part {
            Part::Whole => {}
            Part::Admin => result["adminAccess"] = json!(true),
            Part::Share(amount) => {
                result["shareID"] = json!(format!("{name}-{at}"));
                result["consumedCapacity"] = json!({"memory": amount.to_string()});
            }
        }
        result
    };
    let results: Vec<_> = devices.iter().enumerate().map(result).collect();
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "status": {"allocation": {"devices": {"results": results}}},
    })
}

fn world(slices: impl IntoIterator<Item = Value>) -> Cluster {
    let mut cluster = cluster([node("n")], []);
    set_custom::<ResourceClaim>(&mut cluster, []);
    set_custom::<DeviceClass>(&mut cluster, []);
    set_custom::<ResourceSlice>(&mut cluster, slices);
    set_custom::<DeviceTaintRule>(&mut cluster, []);
    cluster.add_index(IndexKind::of::<Devices>());
    cluster
}

/// The conflicts that the index reports, as `subject: claims`.
fn found(cluster: &Cluster) -> Vec<String> {
    let all = cluster.indexes().contradictions();
    all.map(|found| format!("{}: {}", found.subject, found.objects.join(" "))).collect()
}

#[test]
fn a_device_of_several_claims_is_reported_unless_they_may_share_it() {
    use Part::{Admin, Share, Whole};
    for (what, first, second, is_found) in [
        ("one device, twice", Whole, Whole, true),
        ("admin access", Whole, Admin, false),
        ("admin access, twice", Admin, Admin, false),
        ("shares that fit", Share(4), Share(6), false),
        ("shares that do not fit", Share(5), Share(6), true),
        ("a share of a device that is taken", Whole, Share(1), true),
        ("a device of which a share is taken", Share(1), Whole, true),
        ("a share, and admin access", Share(10), Admin, false),
    ] {
        let mut cluster = world([slice("s", "p", 1, 10)]);
        let claims = [claim("c", &[("p", "a", first)]), claim("d", &[("p", "a", second)])];
        set_custom::<ResourceClaim>(&mut cluster, claims);
        let expected = format!("device a, pool p, driver {DRIVER}: default/c default/d");
        assert_eq!(found(&cluster), Vec::from_iter(is_found.then_some(expected)), "{what}");
        remove_custom::<ResourceClaim>(&mut cluster, "default", "c");
        assert_eq!(found(&cluster), [""; 0], "{what}: one of the claims is gone");
    }
}

#[test]
fn different_devices_are_no_conflict_and_neither_is_a_claim_with_itself() {
    use Part::{Share, Whole};
    for (what, first, second) in [
        ("two devices", vec![("p", "a", Whole)], vec![("p", "b", Whole)]),
        ("two pools", vec![("p", "a", Whole)], vec![("q", "a", Whole)]),
        ("one claim", vec![("p", "a", Share(6)), ("p", "a", Share(6))], vec![]),
    ] {
        let mut cluster = world([slice("s", "p", 1, 10)]);
        set_custom::<ResourceClaim>(&mut cluster, [claim("c", &first), claim("d", &second)]);
        assert_eq!(found(&cluster), [""; 0], "{what}");
    }
}

/// The conflicts according to all claims and slices.
fn recounted(
    claims: &BTreeMap<String, Vec<(&str, &str, Part)>>,
    slices: &BTreeMap<String, (&str, i64, u64)>,
) -> Vec<String> {
    let mut users: BTreeMap<(&str, &str), Vec<(&str, Part)>> = BTreeMap::new();
    for (name, devices) in claims {
        for (pool, device, part) in devices.iter().filter(|(_, _, part)| *part != Part::Admin) {
            users.entry((*device, *pool)).or_default().push((name, *part));
        }
    }
    let mut conflicts = Vec::new();
    for ((device, pool), users) in users {
        let names: BTreeSet<&str> = users.iter().map(|(name, _)| *name).collect();
        let of_pool = slices.iter().filter(|(_, (of, ..))| *of == pool);
        let newest = of_pool.max_by(|(a, (_, x, _)), (b, (_, y, _))| x.cmp(y).then(b.cmp(a)));
        let capacity = newest.filter(|_| device == "a").map(|(_, (.., memory))| *memory);
        let shares = users.iter().filter_map(|(_, part)| match part {
            Part::Share(amount) => Some(*amount),
            _ => None,
        });
        let is_shared = users.iter().all(|(_, part)| *part != Part::Whole);
        if names.len() > 1 && !(is_shared && capacity.is_none_or(|capacity| shares.sum::<u64>() <= capacity))
        {
            let names: Vec<_> = names.iter().map(|name| format!("default/{name}")).collect();
            conflicts.push(format!("device {device}, pool {pool}, driver {DRIVER}: {}", names.join(" ")));
        }
    }
    conflicts.sort();
    conflicts
}

#[test]
fn conflicts_follow_claims_and_slices_that_come_change_and_go() {
    let (mut conflicts, mut quiet) = (0, 0);
    for seed in 0..500 {
        let (mut dice, mut cluster) = (Dice::new(seed), world([]));
        let (mut claims, mut slices) = (BTreeMap::new(), BTreeMap::new());
        for _ in 0..30 {
            if dice.one_in(4) {
                let name = dice.pick(&["s", "t", "u"]).to_owned();
                if slices.remove(&name).is_some() && dice.one_in(3) {
                    remove_custom::<ResourceSlice>(&mut cluster, "", &name);
                } else {
                    let (pool, generation, memory) =
                        (dice.pick(&["p", "q"]), dice.below(2) as i64, dice.below(10));
                    set_custom::<ResourceSlice>(&mut cluster, [slice(&name, pool, generation, memory)]);
                    slices.insert(name, (pool, generation, memory));
                }
            } else {
                let name = dice.pick(&["c", "d", "e", "f"]).to_owned();
                if claims.remove(&name).is_some() && dice.one_in(3) {
                    remove_custom::<ResourceClaim>(&mut cluster, "default", &name);
                } else {
                    let mut device = || {
                        let part = match dice.below(8) {
                            0 => Part::Whole,
                            1 => Part::Admin,
                            _ => Part::Share(dice.below(5)),
                        };
                        (dice.pick(&["p", "q"]), dice.pick(&["a", "b"]), part)
                    };
                    let devices = vec![device(), device()];
                    set_custom::<ResourceClaim>(&mut cluster, [claim(&name, &devices)]);
                    claims.insert(name, devices);
                }
            }
            let mut found = found(&cluster);
            found.sort();
            assert_eq!(found, recounted(&claims, &slices), "seed {seed}: {claims:?} {slices:?}");
            if found.is_empty() {
                quiet += 1;
            } else {
                conflicts += 1;
            }
            let mut indexes = Indexes::default();
            let view = ClusterView { nodes: cluster.nodes(), objects: cluster.objects() };
            indexes.add(IndexKind::of::<Devices>(), view).unwrap();
            assert_eq!(cluster.indexes().get::<Devices>().unwrap(), indexes.get::<Devices>().unwrap());
        }
    }
    assert!(conflicts > 1_000 && quiet > 1_000, "{conflicts} steps with conflicts and {quiet} without");
}
