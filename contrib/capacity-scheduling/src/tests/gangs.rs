//! Gangs that take back what other quotas have borrowed.

use super::*;

/// Members of a gang in `ns1` that needs `min_count` of them, and what they evict on a node of 400 units: the number of
/// members that get a place, and the victims. Three pods of `ns2` have borrowed 100 units each from `ns3`.
fn evicted_for(min: u64, min_count: usize, members: &[u64]) -> Option<(usize, Vec<String>)> {
    let quotas = vec![of_memory("ns1", min, 9000), of_memory("ns2", 0, 9000), of_memory("ns3", 9000, 9000)];
    let pods = ["a", "b", "c"].map(|name| on("ns2", name, 100, 9)).to_vec();
    let mut trial = trial(400, 1, quotas, pods);
    let id = GroupId { namespace: "ns1".into(), name: "g".into() };
    let spec = GroupSpec { policy: GroupPolicy::Gang { min_count }, ..GroupSpec::default() };
    trial.set_group(PodGroup { id, uid: "g".into(), generation: 1, spec });
    let member =
        |(at, memory): (usize, &u64)| in_namespace("ns1", &format!("m{at}"), *memory).member_of("g").info();
    let members: Vec<_> = members.iter().enumerate().map(member).collect();
    match trial.ask_group(&plugin(), &members).unwrap() {
        GroupPostFiltered::Nominate { nodes, victims, .. } => {
            let mut names: Vec<String> = victims.iter().map(|pod| pod.name.to_string()).collect();
            names.sort();
            Some((nodes.len(), names))
        }
        _ => None,
    }
}

fn some(members: usize, victims: &[&str]) -> Option<(usize, Vec<String>)> {
    Some((members, victims.iter().map(|name| (*name).to_owned()).collect()))
}

#[test]
fn as_many_members_as_are_guaranteed_get_places_and_at_least_those_that_are_needed() {
    assert_eq!(
        evicted_for(200, 2, &[100; 4]).map(|(members, victims)| (members, victims.len())),
        Some((2, 1))
    );
    assert_eq!(
        evicted_for(300, 2, &[100; 4]).map(|(members, victims)| (members, victims.len())),
        Some((3, 2))
    );
    assert_eq!(evicted_for(200, 3, &[100; 4]), None, "three members are beyond the min");
}

#[test]
fn if_the_nodes_have_less_room_than_is_guaranteed_as_many_members_as_fit_get_places() {
    assert_eq!(evicted_for(600, 2, &[100; 6]), some(4, &["a", "b", "c"]));
}

#[test]
fn members_that_request_little_come_first() {
    assert_eq!(
        evicted_for(200, 2, &[9000, 100, 100]).map(|(members, victims)| (members, victims.len())),
        Some((2, 1))
    );
}
