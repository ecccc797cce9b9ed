//! Single changes that the real plugins accept, found by trying all of them.

use std::collections::BTreeSet;

use anyhow::Result;
use harbormaster_sim::{Change, Remedy, Why};
use serde_json::Value;

use super::{
    apply::{add_volume, ask_for, is_called, name_of_claim, set_limit, without_anti_affinity},
    question::Question,
    workloads::{anti_affinity, full_name, workload_of, workloads},
};

/// Largest number of pods of a workload that proposals move or stop.
const PODS: usize = 16;

/// Returns descriptions of the changes that place the pod according to the real plugins, but for which the answer has
/// no proposal of the same kind that is as small.
pub(super) fn missed(question: &mut Question<'_>, answer: &Why) -> Result<Vec<String>> {
    let mut missed = Vec::new();
    missed.extend(removable_pods(question, answer)?);
    missed.extend(foreign_terms(question, answer)?);
    missed.extend(volumes(question, answer)?);
    missed.extend(fewer_devices(question, answer)?);
    missed.extend(limits(question, answer)?);
    missed.extend(new_volumes(question, answer)?);
    missed.extend(capacities(question, answer)?);
    missed.extend(classes(question, answer)?);
    Ok(missed)
}

/// Tries to remove single pods and whole workloads.
fn removable_pods(question: &mut Question<'_>, answer: &Why) -> Result<Option<String>> {
    let proposed = answer.remedies.iter().filter_map(|remedy| match &remedy.changes[..] {
        [Change::MovePod { .. } | Change::StopPod { .. }] => Some(1),
        [Change::MovePods { moves, .. }] => Some(moves.len()),
        [Change::StopPods { pods, .. }] => Some(pods.len()),
        _ => None,
    });
    let fewest = proposed.min().unwrap_or(usize::MAX);
    let objects = question.objects.to_vec();
    let own = workload_of(question.pod_object()?);
    let priority = priority_of(question.pod_object()?);
    let may_go = |pod: &&Value| {
        let stays = ["DaemonSet ", "Node "].iter().any(|kind| workload_of(pod).starts_with(kind));
        let is_terminating = !pod["metadata"]["deletionTimestamp"].is_null();
        priority_of(pod) <= priority && !stays && !is_terminating
    };
    let mut sets: Vec<BTreeSet<String>> = Vec::new();
    for (workload, pods) in workloads(&objects) {
        let names = pods.iter().copied().filter(may_go).map(full_name);
        let names: BTreeSet<String> = names.collect();
        sets.extend(names.iter().map(|name| [name.clone()].into()));
        if workload != own && names.len() == pods.len() && (2..=PODS).contains(&names.len()) {
            sets.push(names);
        }
    }
    for set in sets.into_iter().filter(|set| set.len() < fewest) {
        let stays = |object: &&Value| object["kind"] != "Pod" || !set.contains(&full_name(object));
        let left = objects.iter().filter(stays).cloned().collect();
        if question.fits(left)? {
            return Ok(Some(format!("without the pods {set:?}, it fits; proposed are {fewest} pods")));
        }
    }
    Ok(None)
}

/// Tries to drop the anti-affinity of one workload by one key.
fn foreign_terms(question: &mut Question<'_>, answer: &Why) -> Result<Vec<String>> {
    let objects = question.objects.to_vec();
    let mut terms = BTreeSet::new();
    for (workload, pods) in workloads(&objects) {
        let keys = pods.into_iter().flat_map(|pod| {
            let mut pod = pod.clone();
            let keys = anti_affinity(&mut pod).into_iter().flatten();
            keys.filter_map(|term| term["topologyKey"].as_str().map(str::to_owned)).collect::<Vec<_>>()
        });
        terms.extend(keys.map(|key| (workload.clone(), key)));
    }
    let mut missed = Vec::new();
    for (of, key) in terms {
        let is_proposed = answer.remedies.iter().any(|remedy| {
            matches!(&remedy.changes[..], [Change::DropAntiAffinityOf { workload, topology_key, .. }]
                if *workload == of && *topology_key == key)
        });
        if is_proposed {
            continue;
        }
        let mut changed = objects.clone();
        without_anti_affinity(&mut changed, &of, &key);
        if question.fits(changed)? {
            missed.push(format!("it fits if {of} drops its anti-affinity by {key}"));
        }
    }
    Ok(missed)
}

/// Tries to drop one volume.
fn volumes(question: &mut Question<'_>, answer: &Why) -> Result<Vec<String>> {
    let volumes = question.pod_object()?["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let names = volumes.iter().filter_map(|volume| volume["name"].as_str().map(str::to_owned));
    let mut missed = Vec::new();
    for name in names {
        let is_proposed = answer
            .remedies
            .iter()
            .any(|remedy| matches!(&remedy.changes[..], [Change::DropVolume { volume }] if *volume == name));
        if is_proposed {
            continue;
        }
        let mut changed = question.objects.to_vec();
        let pod =
            changed.iter_mut().find(|object| object["kind"] == "Pod" && full_name(object) == question.pod);
        if let Some(volumes) = pod.and_then(|pod| pod["spec"]["volumes"].as_array_mut()) {
            volumes.retain(|volume| volume["name"] != *name);
        }
        if question.fits(changed)? {
            missed.push(format!("it fits without the volume {name}"));
        }
    }
    Ok(missed)
}

/// Tries all smaller numbers of devices of each request, the largest first.
fn fewer_devices(question: &mut Question<'_>, answer: &Why) -> Result<Vec<String>> {
    let pod = question.pod_object()?.clone();
    let entries = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    let entries = entries.filter_map(|entry| entry["name"].as_str());
    let mut missed = Vec::new();
    for entry in entries {
        let claim =
            name_of_claim(&pod, entry).and_then(|name| object(question.objects, "ResourceClaim", &name));
        let Some(claim) = claim.filter(|claim| claim["status"]["allocation"].is_null()) else { continue };
        for asked in claim["spec"]["devices"]["requests"].as_array().into_iter().flatten() {
            let name = asked["name"].as_str().unwrap_or_default();
            let proposed = answer.remedies.iter().find_map(|remedy| match &remedy.changes[..] {
                [Change::FewerDevices { claim, request, to, .. }] if *claim == *entry && request == name => {
                    Some(*to)
                }
                _ => None,
            });
            for count in (1..asked["exactly"]["count"].as_i64().unwrap_or(1)).rev() {
                if proposed == Some(count) {
                    break;
                }
                let mut changed = question.objects.to_vec();
                ask_for(&mut changed, question.pod, (entry, name), count)?;
                if question.fits(changed)? {
                    missed.push(format!(
                        "it fits with {count} devices in {entry}/{name}; proposed is {proposed:?}"
                    ));
                    break;
                }
            }
        }
    }
    Ok(missed)
}

/// Tries to raise the limit of one driver on one node by less than what is proposed.
fn limits(question: &mut Question<'_>, answer: &Why) -> Result<Option<String>> {
    let proposed = answer.remedies.iter().find_map(|remedy| match &remedy.changes[..] {
        [Change::RaiseVolumeLimit { from, to, .. }] => Some(i64::from(*to) - i64::from(*from)),
        _ => None,
    });
    let raise = proposed.map_or(1_000, |raise| raise - 1);
    let nodes = question.objects.iter().filter(|object| object["kind"] == "CSINode");
    let drivers = nodes.flat_map(|node| {
        let drivers = node["spec"]["drivers"].as_array().into_iter().flatten();
        drivers.filter_map(|driver| {
            let limit = driver["allocatable"]["count"].as_i64()?;
            Some((node["metadata"]["name"].as_str()?.to_owned(), driver["name"].as_str()?.to_owned(), limit))
        })
    });
    for (node, driver, limit) in drivers.collect::<Vec<_>>().into_iter().filter(|_| raise > 0) {
        let mut changed = question.objects.to_vec();
        let of_node = changed.iter_mut().find(|object| is_called(object, "CSINode", &node));
        of_node.into_iter().for_each(|object| set_limit(object, &driver, limit + raise));
        if question.fits(changed)? {
            return Ok(Some(format!(
                "it fits if {node} has {raise} more of {driver}; proposed is {proposed:?}"
            )));
        }
    }
    Ok(None)
}

/// Tries to add a volume for one waiting claim on one node.
fn new_volumes(question: &mut Question<'_>, answer: &Why) -> Result<Option<String>> {
    let is_proposed = |remedy: &Remedy| matches!(&remedy.changes[..], [Change::AddVolume { .. }]);
    if answer.remedies.iter().any(is_proposed) {
        return Ok(None);
    }
    let nodes: Vec<String> = names(question.objects, "Node");
    for (key, claim) in unbound_claims(question)? {
        let class = class_of(&claim);
        let waits = question.objects.iter().any(|object| {
            is_called(object, "StorageClass", class)
                && object["provisioner"] == "kubernetes.io/no-provisioner"
                && object["volumeBindingMode"] == "WaitForFirstConsumer"
        });
        let selects = claim["spec"]["selector"]["matchExpressions"].is_array();
        for node in nodes.iter().filter(|_| waits && !selects) {
            let mut changed = question.objects.to_vec();
            add_volume(&mut changed, question.pod, &key, node)?;
            if question.fits(changed)? {
                return Ok(Some(format!("it fits with a volume for {key} on {node}")));
            }
        }
    }
    Ok(None)
}

/// Tries to let one CSIStorageCapacity offer more than enough.
fn capacities(question: &mut Question<'_>, answer: &Why) -> Result<Option<String>> {
    let is_proposed = |remedy: &Remedy| matches!(&remedy.changes[..], [Change::GrowStorage { .. }]);
    if answer.remedies.iter().any(is_proposed) || unbound_claims(question)?.is_empty() {
        return Ok(None);
    }
    for at in 0..question.objects.len() {
        if question.objects[at]["kind"] != "CSIStorageCapacity" {
            continue;
        }
        let mut changed = question.objects.to_vec();
        changed[at]["capacity"] = "100Ti".into();
        if !changed[at]["maximumVolumeSize"].is_null() {
            changed[at]["maximumVolumeSize"] = "100Ti".into();
        }
        let name = changed[at]["metadata"]["name"].clone();
        if question.fits(changed)? {
            return Ok(Some(format!("it fits with more storage in {name}")));
        }
    }
    Ok(None)
}

/// Returns the pod's claims without a volume, by name.
fn unbound_claims(question: &Question<'_>) -> Result<Vec<(String, Value)>> {
    let pod = question.pod_object()?;
    let (name, namespace) = (&pod["metadata"]["name"], pod["metadata"]["namespace"].as_str());
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let claims = volumes.filter_map(|volume| {
        let named = volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned);
        let own = || {
            format!("{}-{}", name.as_str().unwrap_or_default(), volume["name"].as_str().unwrap_or_default())
        };
        let claim = named.or_else(|| volume.get("ephemeral").map(|_| own()))?;
        let key = format!("{}/{claim}", namespace.unwrap_or("default"));
        Some((claim, object(question.objects, "PersistentVolumeClaim", &key)?.clone()))
    });
    Ok(claims.filter(|(_, claim)| claim["spec"]["volumeName"].as_str().is_none_or(str::is_empty)).collect())
}

fn class_of(claim: &Value) -> &str {
    let annotation = claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
    annotation.or(claim["spec"]["storageClassName"].as_str()).unwrap_or_default()
}

fn object<'a>(objects: &'a [Value], kind: &str, name: &str) -> Option<&'a Value> {
    objects.iter().find(|object| is_called(object, kind, name))
}

fn names(objects: &[Value], kind: &str) -> Vec<String> {
    let all = objects.iter().filter(|object| object["kind"] == kind);
    all.filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// Tries all priority classes below the proposed one. A class counts if the pod fits once the victims on any candidate
/// node are gone: PreFilter may judge otherwise then than in the search for victims. Also compares the victims of the pod as it is.
fn classes(question: &mut Question<'_>, answer: &Why) -> Result<Vec<String>> {
    let pod = question.pod_object()?;
    // The real plugin is asked whether or not the profile has it.
    if question.config.to_string().contains("\"DefaultPreemption\"") {
        return Ok(Vec::new());
    }
    if !pod["status"]["nominatedNodeName"].is_null() || pod["spec"]["preemptionPolicy"] == "Never" {
        return Ok(Vec::new());
    }
    let own = priority_of(pod);
    let mut priorities = vec![own];
    let classes = question.objects.iter().filter(|object| object["kind"] == "PriorityClass");
    priorities.extend(classes.filter_map(|class| class["value"].as_i64()).filter(|value| *value > own));
    priorities.sort_unstable();
    let proposed = answer.remedies.iter().find_map(|remedy| match &remedy.changes[..] {
        [Change::RaisePriority { class: Some(_), to, .. }] => Some(i64::from(*to)),
        _ => None,
    });
    let proposed = answer.evicts.as_ref().map(|_| own).or(proposed);
    let mut missed = Vec::new();
    for priority in priorities.into_iter().filter(|value| proposed.is_none_or(|known| *value < known)) {
        let changed = question.with_priority(priority);
        let candidates = question.candidates(changed.clone())?.unwrap_or_default();
        let mut all_work = !candidates.is_empty();
        for (node, candidate) in &candidates {
            all_work = all_work && question.fits_without(changed.clone(), &candidate.victims, node)?;
        }
        if all_work {
            missed.push(format!("with priority {priority}, it evicts others; proposed is {proposed:?}"));
            break;
        }
    }
    if let Some(evicts) = &answer.evicts {
        let candidates = question.candidates(question.objects.to_vec())?.unwrap_or_default();
        let same = candidates.get(&evicts.node).is_some_and(|candidate| {
            candidate.victims.iter().collect::<BTreeSet<_>>() == evicts.victims.iter().collect()
        });
        if !same {
            missed.push(format!("it does not evict {evicts:?}: {candidates:?}"));
        }
    }
    Ok(missed)
}

fn priority_of(pod: &Value) -> i64 {
    pod["spec"]["priority"].as_i64().unwrap_or_default()
}
