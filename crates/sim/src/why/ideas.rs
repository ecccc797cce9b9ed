//! Changes to a pod that are worth trying. Each is the most extreme of its kind: a request of nothing, an unlimited
//! skew.

use harbormaster_api::{
    Pod, Str,
    pod::{Volume, VolumeSource},
    requests::spec_request_list,
    taint::{Taint, find_untolerated},
};
use harbormaster_framework::cluster::Cluster;
use rustc_hash::FxHashMap;

use super::Change;

/// Maximum number of taints that are tried, the most frequent first.
const TAINTS: usize = 20;

/// Prefix of the taints that the node controller sets on nodes that cannot run pods at the moment.
const NODE_CONDITIONS: &str = "node.kubernetes.io/";

/// Returns the ideas for the pod, each of which concerns another part of the pod.
pub(super) fn ideas(pod: &Pod, cluster: &Cluster) -> Vec<Change> {
    let mut ideas = requests(pod);
    ideas.extend(taints(pod, cluster).into_iter().map(|taint| Change::Tolerate { taint }));
    ideas.extend(node_labels(pod));
    ideas.extend(spread(pod));
    ideas.extend(affinity(pod));
    ideas.extend(host_ports(pod));
    ideas.extend(volumes(pod));
    let claims = pod.spec.resource_claims.iter();
    ideas.extend(claims.map(|claim| Change::DropResourceClaim { claim: claim.name.clone() }));
    ideas
}

fn requests(pod: &Pod) -> Vec<Change> {
    let all = spec_request_list(&pod.spec).into_iter().filter(|(_, amount)| *amount > 0);
    all.map(|(resource, from)| Change::LowerRequest { resource, from, to: 0 }).collect()
}

/// Returns the taints that the pod does not tolerate, the most frequent first.
fn taints(pod: &Pod, cluster: &Cluster) -> Vec<Taint> {
    let mut counts: FxHashMap<&Taint, usize> = FxHashMap::default();
    for taint in cluster.nodes().nodes().flat_map(|node| node.taints()) {
        *counts.entry(taint).or_default() += 1;
    }
    let keeps_away = |taint: &Taint| {
        let one = std::slice::from_ref(taint);
        taint.effect.forbids()
            && !taint.key.starts_with(NODE_CONDITIONS)
            && find_untolerated(one, &pod.spec.tolerations, false, |_| true).is_some()
    };
    let mut open: Vec<(&Taint, usize)> = counts.into_iter().filter(|(taint, _)| keeps_away(taint)).collect();
    open.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    open.into_iter().take(TAINTS).map(|(taint, _)| taint.clone()).collect()
}

fn node_labels(pod: &Pod) -> Vec<Change> {
    let selector = pod.spec.node_selector.iter().flat_map(|selector| selector.iter());
    let selector =
        selector.map(|(key, value)| Change::DropNodeSelector { key: key.clone(), value: value.clone() });
    let required = pod.spec.node_affinity.iter().filter_map(|affinity| affinity.required.as_ref());
    let terms = required.flat_map(|required| required.terms.iter().enumerate());
    let affinity = terms.flat_map(|(at, term)| {
        let requirements = term.match_expressions.iter().chain(&term.match_fields).cloned();
        requirements.map(move |requirement| Change::DropNodeAffinity { term: at, requirement })
    });
    selector.chain(affinity).collect()
}

fn spread(pod: &Pod) -> Vec<Change> {
    let hard = pod.spec.topology_spread.iter().enumerate().filter(|(_, constraint)| constraint.hard);
    let soft = hard.map(|(at, constraint)| Change::SoftenSpread {
        constraint: at,
        topology_key: constraint.topology_key.clone(),
    });
    soft.collect()
}

fn affinity(pod: &Pod) -> Vec<Change> {
    let keys = |affinity: &Option<harbormaster_api::pod::PodAffinity>| -> Vec<(usize, Str)> {
        let terms = affinity.iter().flat_map(|affinity| affinity.required.iter().enumerate());
        terms.map(|(at, term)| (at, term.topology_key.clone())).collect()
    };
    let together = keys(&pod.spec.pod_affinity);
    let together =
        together.into_iter().map(|(term, topology_key)| Change::DropPodAffinity { term, topology_key });
    let apart = keys(&pod.spec.pod_anti_affinity);
    let apart =
        apart.into_iter().map(|(term, topology_key)| Change::DropPodAntiAffinity { term, topology_key });
    together.chain(apart).collect()
}

fn host_ports(pod: &Pod) -> Vec<Change> {
    let mut ports: Vec<(i32, Str)> = Vec::new();
    for container in pod.spec.containers.iter().chain(&pod.spec.init_containers) {
        ports.extend(container.host_ports.iter().map(|port| (port.port, port.protocol.clone())));
    }
    ports.sort();
    ports.dedup();
    ports.into_iter().map(|(port, protocol)| Change::DropHostPort { port, protocol }).collect()
}

/// Returns the volumes that restrict the choice of a node.
fn volumes(pod: &Pod) -> Vec<Change> {
    let binds = |volume: &&Volume| !matches!(volume.source, VolumeSource::Image(_));
    let volumes = pod.spec.volumes.iter().filter(binds);
    volumes.map(|volume| Change::DropVolume { volume: volume.name.clone() }).collect()
}
