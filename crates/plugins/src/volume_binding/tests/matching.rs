//! Compares the choice of volumes with a model that visits all volumes.

use harbormaster_framework::index::IndexKind;
use harbormaster_testkit::{node, random::Dice};

use super::*;
use crate::volume_binding::decision::VolumeMatch;

const ZONES: [&str; 3] = ["a", "b", "c"];
const SIZES: [&str; 4] = ["1Gi", "2Gi", "2048Mi", "4Gi"];

/// Reserve's choice on the node, as `claim=volume` in the order of the claims' names; `None` if the pod does not fit.
fn reserved_volumes(world: &mut Cluster, pod: &PodInfo, node: &str) -> Option<Vec<String>> {
    world.add_index(IndexKind::of::<Supply>());
    let supply = world.indexes().get().unwrap();
    let (claims, volumes) = (world.watched(), world.watched());
    let objects = VolumeObjects { claims, volumes, classes: world.watched(), drivers: world.watched() };
    let claims = Claims::of(pod, objects, supply).unwrap().unwrap();
    let row = world.find(node).unwrap();
    let found = claims.on(world.watched(), supply, world.nodes().node(row)).ok()?;
    let shown = |VolumeMatch { claim, volume }: &VolumeMatch| format!("{}={}", claim.name, volume.name);
    let mut reserved_volumes: Vec<String> = Decision::of(&found).matches.iter().map(shown).collect();
    reserved_volumes.sort();
    Some(reserved_volumes)
}

/// Makes the same choice by visiting all volumes for each claim, smallest claim first.
fn model(world: &Cluster, claims: &[&str], zone: &str) -> Option<Vec<String>> {
    let mut claims: Vec<_> = claims
        .iter()
        .map(|name| world.watched::<PersistentVolumeClaim>().get("default", name).unwrap())
        .collect();
    claims.sort_by_key(|claim| claim.requested);
    let mut reserved_volumes: Vec<(String, String)> = Vec::new();
    for claim in claims {
        let fits = |volume: &&Custom<PersistentVolume>| {
            let labels = [("zone", zone)].into_iter().collect();
            volume.capacity >= claim.requested
                && volume.class == claim.class
                && volume.node_affinity.as_ref().is_none_or(|affinity| affinity.matches(&labels, ""))
                && reserved_volumes.iter().all(|(_, taken)| *volume.metadata.name != **taken)
        };
        let volumes: Vec<_> = world.watched::<PersistentVolume>().all().collect();
        let own = |volume: &&&Custom<PersistentVolume>| {
            volume.claim_ref.as_ref().is_some_and(|claimed| claimed.name == claim.metadata.name)
                && volume.capacity >= claim.requested
        };
        let best = match volumes.iter().find(own) {
            Some(own) => Some(*own).filter(fits),
            None => volumes
                .iter()
                .copied()
                .filter(|volume| volume.claim_ref.is_none() && fits(volume))
                .min_by_key(|volume| (volume.capacity, volume.metadata.name.clone())),
        };
        reserved_volumes.push((claim.metadata.name.to_string(), best?.metadata.name.to_string()));
    }
    let mut reserved_volumes: Vec<String> =
        reserved_volumes.into_iter().map(|(claim, volume)| format!("{claim}={volume}")).collect();
    reserved_volumes.sort();
    Some(reserved_volumes)
}

fn random_volume(dice: &mut Dice, name: &str) -> Value {
    let mut made = volume(name, &json!({"spec": {"capacity": {"storage": dice.pick(&SIZES)}}}));
    let zone = dice.pick(&ZONES);
    match dice.below(4) {
        0 => {}
        1 => {
            let zones = json!([{"key": "zone", "operator": "NotIn", "values": [zone]}]);
            let terms = json!([{"matchExpressions": zones}]);
            merge(&mut made, &json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}));
        }
        _ => merge(&mut made, &on("zone", zone)),
    }
    if dice.one_in(8) {
        let of = format!("c{}", dice.below(6));
        merge(&mut made, &json!({"spec": {"claimRef": {"namespace": "default", "name": of}}}));
    }
    made
}

#[test]
fn every_claim_gets_its_reserved_volume_or_else_the_smallest_one_that_fits() {
    let (mut placed, mut refused) = (0, 0);
    for seed in 0..400 {
        let mut dice = Dice::new(seed);
        let mut world = world(ZONES.map(|zone| node(zone).label("zone", zone)));
        let mut volumes: Vec<Value> = (0..8).map(|at| random_volume(&mut dice, &format!("v{at}"))).collect();
        // If two volumes are reserved for a claim, upstream's choice is random.
        let mut seen = Vec::new();
        volumes.retain(|volume| {
            let of = volume["spec"]["claimRef"]["name"].clone();
            let is_new = of.is_null() || !seen.contains(&of);
            seen.push(of);
            is_new
        });
        set_custom::<PersistentVolume>(&mut world, volumes);
        let names = ["c0", "c1", "c2"];
        let asks = |name: &str, storage: &str| {
            claim(name, LOCAL, &json!({"spec": {"resources": {"requests": {"storage": storage}}}}))
        };
        set_custom::<PersistentVolumeClaim>(&mut world, names.map(|name| asks(name, dice.pick(&SIZES))));
        let claims = &names[..=dice.below(3) as usize];
        let pod = user(claims).info();
        for zone in ZONES {
            let expected = model(&world, claims, zone);
            if expected.is_some() {
                placed += 1;
            } else {
                refused += 1;
            }
            assert_eq!(
                reserved_volumes(&mut world, &pod, zone),
                expected,
                "seed {seed}, zone {zone}, {claims:?}"
            );
        }
    }
    assert!(placed > 100 && refused > 100, "{placed} {refused}");
}
