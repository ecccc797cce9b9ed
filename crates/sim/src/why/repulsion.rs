//! Pods that keep the pod away by their required anti-affinity, or that the pod keeps away by its own.

use std::sync::Arc;

use harbormaster_api::{
    Str,
    pod::{PodAffinity, PodAffinityTerm},
};
use harbormaster_framework::{attempt::AttemptError, pod::PodInfo};
use harbormaster_plugins::pod_index::PodTerm;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Change, Remedy, trials::Trials, workload::workload_of};

/// Maximum number of workloads that are tried, those with the fewest pods first.
const WORKLOADS: usize = 10;

/// Maximum number of pods of such a workload.
const PODS: usize = 2_000;

/// The pods of a workload that repel the pod or are repelled by it.
#[derive(Debug, Default)]
pub(super) struct Repelling {
    workload: String,
    /// Topology keys of all terms.
    pub(super) keys: FxHashSet<Str>,
    /// Topology keys of the terms of the workload itself.
    own_keys: FxHashSet<Str>,
    /// The pods, with their nodes.
    pub(super) pods: Vec<(Arc<PodInfo>, Str)>,
}

impl Trials {
    /// Returns the pods that repel the pod or are repelled by it, by workload.
    pub(super) fn repelling(&self) -> Vec<Repelling> {
        let cluster = &self.judge.cache.cluster;
        let terms = required(&self.pod.spec.pod_anti_affinity).iter();
        let own: Vec<(PodTerm, &Str)> = terms
            .filter_map(|term| Some((PodTerm::new(term, &self.pod.namespace)?, &term.topology_key)))
            .collect();
        let mut found: FxHashMap<String, Repelling> = FxHashMap::default();
        for node in cluster.nodes().nodes() {
            for pod in node.pods() {
                let theirs: Vec<&Str> = required(&pod.spec.pod_anti_affinity)
                    .iter()
                    .filter(|term| {
                        PodTerm::new(term, &pod.namespace)
                            .is_some_and(|pods| pods.matches_pod(cluster.objects(), &self.pod))
                    })
                    .map(|term| &term.topology_key)
                    .collect();
                let ours = own
                    .iter()
                    .filter(|(term, _)| term.matches_pod(cluster.objects(), pod))
                    .map(|(_, key)| *key);
                let ours: Vec<&Str> = ours.collect();
                if theirs.is_empty() && ours.is_empty() {
                    continue;
                }
                let workload = workload_of(pod);
                let entry = found.entry(workload.clone()).or_default();
                entry.workload = workload;
                entry.keys.extend(theirs.iter().chain(&ours).map(|key| (*key).clone()));
                entry.own_keys.extend(theirs.into_iter().cloned());
                entry.pods.push((pod.clone(), node.name().clone()));
            }
        }
        let mut found: Vec<Repelling> = found.into_values().filter(|one| one.pods.len() <= PODS).collect();
        found.sort_by(|a, b| a.pods.len().cmp(&b.pods.len()).then_with(|| a.workload.cmp(&b.workload)));
        found.truncate(WORKLOADS);
        found
    }

    /// Returns the workloads each of which lets the pod in if it drops its anti-affinity by one key.
    pub(super) fn drop_anti_affinity_of_others(&mut self) -> Result<Vec<Remedy>, AttemptError> {
        let mut found = Vec::new();
        for Repelling { workload, own_keys, pods, .. } in self.repelling() {
            let mut keys: Vec<Str> = own_keys.into_iter().collect();
            keys.sort_unstable();
            for topology_key in keys {
                let (workload, pods) = (workload.clone(), pods.len());
                let change = Change::DropAntiAffinityOf { workload, topology_key, pods };
                found.extend(self.remedy(vec![change])?);
            }
        }
        Ok(found)
    }
}

fn required(affinity: &Option<PodAffinity>) -> &[PodAffinityTerm] {
    affinity.as_ref().map_or(&[], |affinity| &affinity.required)
}
