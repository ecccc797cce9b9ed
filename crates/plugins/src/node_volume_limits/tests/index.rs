//! Compares the index with a rebuilt one after random changes, and with a recount in random clusters.

use std::sync::Arc;

use harbormaster_framework::{
    index::{IndexKind, Indexes},
    pod::SpecTable,
};
use harbormaster_testkit::{batch_equals_single, random::Dice, remove_custom};

use super::*;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn random_volume(dice: &mut Dice) -> VolumeSource {
    let id = dice.pick(&NAMES);
    match dice.below(6) {
        0 => VolumeSource::InTree(ebs(id)),
        1 => VolumeSource::InTree(InTreeDisk::AzureDisk { uri: id.into(), kind: "Shared".into() }),
        2 => VolumeSource::Ephemeral,
        3 => VolumeSource::Claim(dice.pick(&["", id, id, id]).into()),
        _ => VolumeSource::Claim(id.into()),
    }
}

fn random_pod(dice: &mut Dice, name: &str) -> PodBuilder {
    (0..dice.below(4)).fold(pod(name), |pod, _| pod.volume(random_volume(dice)))
}

/// Adds, changes or removes an object.
fn change_an_object(dice: &mut Dice, nodes: &mut Cluster) {
    let (name, other) = (dice.pick(&NAMES), dice.pick(&["", "a", "b", "c", "gone"]));
    let gone = dice.below(5) == 0;
    match dice.below(6) {
        0 if gone => remove_custom::<PersistentVolumeClaim>(nodes, "default", name),
        0 => set_custom::<PersistentVolumeClaim>(nodes, [claim(name, other, dice.pick(&NAMES))]),
        1 => {
            let pod = format!("p{}", dice.below(20));
            set_custom::<PersistentVolumeClaim>(
                nodes,
                [ephemeral_claim(&pod, dice.pick(&["x", &format!("uid-{pod}")]))],
            );
        }
        2 if gone => remove_custom::<PersistentVolume>(nodes, "", name),
        2 => {
            let source = match dice.below(3) {
                0 => json!({"awsElasticBlockStore": {"volumeID": other}}),
                1 => json!({"nfs": {}}),
                _ => csi(dice.pick(&[DRIVER, EBS]), other),
            };
            set_custom::<PersistentVolume>(nodes, [volume(name, &source)]);
        }
        3 if gone => remove_custom::<StorageClass>(nodes, "", name),
        3 => {
            let provisioner = dice.pick(&[DRIVER, "kubernetes.io/aws-ebs", "kubernetes.io/azure-file"]);
            set_custom::<StorageClass>(nodes, [class(name, provisioner)]);
        }
        4 if gone => remove_custom::<CsiNode>(nodes, "", name),
        4 => set_custom::<CsiNode>(
            nodes,
            [limits(name, &[(DRIVER, Some(1)), (EBS, dice.pick(&[None, Some(1)]))])],
        ),
        _ if gone => remove_custom::<VolumeAttachment>(nodes, "", name),
        _ => {
            let attached = attachment(name, dice.pick(&[DRIVER, EBS]), dice.pick(&NAMES), dice.pick(&NAMES));
            set_custom::<VolumeAttachment>(nodes, [attached]);
        }
    }
}

fn check_index(nodes: &Cluster, when: &str) {
    let mut rebuilt = Indexes::default();
    let view = ClusterView { nodes: nodes.nodes(), objects: nodes.objects() };
    rebuilt.add(IndexKind::of::<AttachedVolumes>(), view).unwrap();
    let kept = nodes.indexes().get::<AttachedVolumes>().unwrap();
    let rebuilt = rebuilt.get::<AttachedVolumes>().unwrap();
    assert_eq!(kept, rebuilt, "index (left) differs from a rebuilt one (right); {when}");
}

#[test]
fn the_index_equals_a_rebuilt_one_after_each_random_change() {
    for seed in 0..40 {
        let (mut dice, mut nodes, mut specs) = (Dice::new(seed), world([], None), SpecTable::default());
        nodes.add_index(IndexKind::of::<AttachedVolumes>());
        let mut placed = Vec::new();
        for step in 0..150 {
            let name = dice.pick(&NAMES);
            match dice.below(8) {
                0 => drop(nodes.set_node(node(name).into())),
                1 => drop(nodes.remove_node(name)),
                2 | 3 => {
                    let pod = random_pod(&mut dice, &format!("p{}", step % 20)).on(name).build();
                    if !placed.iter().any(|(_, uid)| *uid == pod.uid) {
                        placed.push((name, pod.uid.clone()));
                        nodes.add_pod(&name.into(), Arc::new(PodInfo::new(pod, &mut specs)));
                    }
                }
                4 if !placed.is_empty() => {
                    let (node, uid) = placed.swap_remove(dice.below(placed.len() as u64) as usize);
                    nodes.remove_pod(node, &uid);
                }
                _ => change_an_object(&mut dice, &mut nodes),
            }
            if let Some(trouble) = nodes.take_errors().first() {
                panic!("seed {seed}, step {step}: {trouble}");
            }
            check_index(&nodes, &format!("seed {seed}, step {step}"));
        }
    }
}

#[test]
fn the_index_agrees_with_a_recount_of_the_pods() {
    let (mut full, mut compared) = (0, 0);
    for seed in 0..150 {
        let mut dice = Dice::new(1000 + seed);
        let bound: Vec<_> = (0..dice.below(9))
            .map(|at| {
                claims(&format!("b{at}"), &[dice.pick(&NAMES), "new"])
                    .volume(VolumeSource::InTree(ebs(dice.pick(&NAMES))))
            })
            .map(|pod| pod.on("n"))
            .chain([pod("guest").on("n")])
            .collect();
        let limit = dice.below(6) as i32;
        let mut nodes = world(bound, at_most(limit));
        if dice.below(2) == 0 {
            set_custom::<VolumeAttachment>(&mut nodes, [attachment("x", DRIVER, "n", dice.pick(&NAMES))]);
        }
        let pod = claims("p", &[dice.pick(&NAMES), dice.pick(&NAMES)])
            .volume(VolumeSource::InTree(ebs("z")))
            .info();
        let kept = trial().verdict(&nodes, &pod, "n");
        // After a pod has left a row, the volumes of the remaining pods on that row are counted one by one.
        let recounted = trial().verdict_without(&mut nodes, &pod, "n", &[("n", "guest")]);
        assert_eq!(kept, recounted, "seed {seed}");
        batch_equals_single(&trial(), &nodes, &pod);
        compared += 1;
        full += usize::from(kept.is_err());
    }
    assert!(full > 20 && compared - full > 20, "the clusters vary too little: {full} of {compared}");
}
