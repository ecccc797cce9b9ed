//! Compares the index with a rebuilt one after random changes, and batches with single verdicts.

use harbormaster_framework::index::{IndexKind, Indexes};
use harbormaster_testkit::{batch_equals_single, node, random::Dice, remove_custom};

use super::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const ZONES: [&str; 3] = ["1", "2", "3"];

fn random_node(dice: &mut Dice, name: &str) -> NodeBuilder {
    let node = node(name).label("host", name);
    if dice.one_in(4) { node } else { node.label("zone", dice.pick(&ZONES)) }
}

fn random_volume(dice: &mut Dice, name: &str) -> Value {
    let class = dice.pick(&[LOCAL, LOCAL, "made"]);
    let size = dice.pick(&["1Gi", "1024Mi", "2Gi"]);
    let mut made = volume(name, &json!({"spec": {"storageClassName": class, "capacity": {"storage": size}}}));
    match dice.below(5) {
        0 => {}
        1 => merge(&mut made, &on("host", dice.pick(&NAMES))),
        2 => {
            let zones = json!([{"key": "zone", "operator": "NotIn", "values": [dice.pick(&ZONES)]}]);
            let terms = json!([{"matchExpressions": zones}]);
            merge(&mut made, &json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}));
        }
        3 => {
            merge(&mut made, &json!({"spec": {"awsElasticBlockStore": {"volumeID": name}}}));
            merge(&mut made, &on("topology.kubernetes.io/zone", dice.pick(&ZONES)));
        }
        _ => merge(&mut made, &on("zone", dice.pick(&ZONES))),
    }
    match dice.below(4) {
        0 => {
            let uid = dice.pick(&["", "uid-a", "uid-other"]);
            let of = json!({"namespace": "default", "name": dice.pick(&NAMES), "uid": uid});
            merge(&mut made, &json!({"spec": {"claimRef": of}}));
        }
        1 => merge(&mut made, &json!({"status": {"phase": dice.pick(&["Pending", "Released"])}})),
        _ => {}
    }
    made
}

fn random_claim(dice: &mut Dice, name: &str) -> Value {
    match dice.below(3) {
        0 => bound_claim(name, dice.pick(&["a", "b", "c", "gone"])),
        _ => claim(name, dice.pick(&[LOCAL, LOCAL, "made"]), &json!({})),
    }
}

fn random_capacity(dice: &mut Dice, name: &str) -> Value {
    let topology = match dice.below(3) {
        0 => Value::Null,
        1 => json!({}),
        _ => json!({"matchLabels": {"zone": dice.pick(&ZONES)}}),
    };
    json!({
        "metadata": {"name": name, "namespace": dice.pick(&["x", "y"])},
        "storageClassName": dice.pick(&["made", "other"]),
        "nodeTopology": topology,
        "capacity": dice.pick(&["1Gi", "10Gi"]),
    })
}

fn change_something(dice: &mut Dice, world: &mut Cluster) {
    let (name, gone) = (dice.pick(&NAMES), dice.one_in(4));
    match dice.below(7) {
        0 if gone => drop(world.remove_node(name)),
        0 | 1 => drop(world.set_node(random_node(dice, name).into())),
        2 | 3 if gone => remove_custom::<PersistentVolume>(world, "", name),
        2 | 3 => set_custom::<PersistentVolume>(world, [random_volume(dice, name)]),
        4 => set_custom::<PersistentVolumeClaim>(world, [random_claim(dice, name)]),
        5 if gone => remove_custom::<CsiStorageCapacity>(world, dice.pick(&["x", "y"]), name),
        5 => set_custom::<CsiStorageCapacity>(world, [random_capacity(dice, name)]),
        _ => {
            let tells = json!({"metadata": {"name": "csi"}, "spec": {"storageCapacity": dice.one_in(2)}});
            set_custom::<CsiDriver>(world, [tells]);
        }
    }
}

#[test]
fn the_index_equals_a_rebuilt_one_after_random_changes() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let mut world = world([]);
        world.add_index(IndexKind::of::<Supply>());
        for step in 0..150 {
            change_something(&mut dice, &mut world);
            if let Some(trouble) = world.take_errors().first() {
                panic!("seed {seed}, step {step}: {trouble}");
            }
            let mut rebuilt = Indexes::default();
            let view = ClusterView { nodes: world.nodes(), objects: world.objects() };
            rebuilt.add(IndexKind::of::<Supply>(), view).unwrap();
            let kept = world.indexes().get::<Supply>().unwrap();
            assert_eq!(
                kept,
                rebuilt.get().unwrap(),
                "index (left) differs from a rebuilt one (right); seed {seed}, step {step}"
            );
        }
    }
}

#[test]
fn batch_verdicts_equal_single_verdicts() {
    let (mut fitting, mut lacking) = (0, 0);
    for seed in 0..400 {
        let mut dice = Dice::new(seed);
        let mut world = world(NAMES.map(|name| random_node(&mut dice, name)));
        NAMES.iter().for_each(|name| {
            set_custom::<PersistentVolume>(&mut world, [random_volume(&mut dice, name)]);
            set_custom::<PersistentVolumeClaim>(&mut world, [random_claim(&mut dice, name)]);
        });
        (0..10).for_each(|_| change_something(&mut dice, &mut world));
        let pod = user(&NAMES[..=dice.below(2) as usize]);
        if trial().pre_filter(&world, &pod.clone().info()).is_err() {
            continue;
        }
        batch_equals_single(&trial(), &world, &pod.clone().info());
        for name in NAMES.iter().filter(|name| world.find(name).is_some()) {
            match rejection_on(&world, pod.clone(), name).as_str() {
                "" => fitting += 1,
                _ => lacking += 1,
            }
        }
    }
    assert!(fitting > 100 && lacking > 100, "the clusters vary too little: {fitting} {lacking}");
}
