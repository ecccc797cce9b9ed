//! Number of copies of a pod that a cluster has room for.

use std::{collections::BTreeMap, sync::Arc};

use harbormaster_api::{
    Pod, Str,
    pod::{PodSpec, PodStatus},
};
use harbormaster_core::EngineConfig;
use serde::Serialize;

use crate::{inventory::Inventory, original::Original, simulate::Copies};

/// The copies of a pod that get a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// Number of copies.
    pub copies: usize,
    /// Number of copies by node; nodes without a copy are included.
    pub nodes: BTreeMap<String, usize>,
    /// Number of copies by zone; nodes without a zone label do not count.
    pub zones: BTreeMap<String, usize>,
    /// The reason why a further copy gets no node, in kube-scheduler's words; `None` if the limit was reached.
    pub message: Option<String>,
}

/// The reason why copies of a pod cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapacityError {
    /// No profile has the pod's scheduler name.
    #[error("no profile has the scheduler name {0:?}")]
    Foreign(Str),
}

/// Counts the copies that fit of each of `originals`, at most `limit`, after the cluster's pending pods have been
/// scheduled as far as they fit. Each count starts with the same cluster. Copies preempt no pods, and neither gates nor groups
/// hold them back. Each copy gets claims of its own, if the original has some.
///
/// Calls `progress` after every copy, with the position in `originals` and the number of copies.
///
/// # Errors
/// If copies of one of the originals cannot be counted.
pub fn capacity(
    config: EngineConfig,
    cluster: Inventory,
    originals: &[Original],
    limit: usize,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Capacity>, CapacityError> {
    for original in originals {
        check(&config, &original.pod)?;
    }
    let templates: Vec<Original> = originals.iter().map(|original| template(original, &cluster)).collect();
    let mut copies = Copies::new(config, cluster);
    let counted = templates.iter().enumerate().map(|(at, original)| {
        let capacity = copies.count(original, limit, &mut |count| progress(at, count));
        copies.remove_all();
        capacity
    });
    Ok(counted.collect())
}

/// Returns the pod with another request of its first container.
pub fn with_request(pod: &Pod, resource: &Str, amount: i64) -> Pod {
    let mut spec = PodSpec::clone(&pod.spec);
    if let Some(container) = spec.containers.first_mut() {
        match container.requests.binary_search_by(|(name, _)| name.cmp(resource)) {
            Ok(at) => container.requests[at].1 = amount,
            Err(at) => container.requests.insert(at, (resource.clone(), amount)),
        }
    }
    Pod { spec: Arc::new(spec), ..pod.clone() }
}

fn check(config: &EngineConfig, pod: &Pod) -> Result<(), CapacityError> {
    if !config.profiles.iter().any(|profile| *profile.name() == pod.spec.scheduler_name) {
        return Err(CapacityError::Foreign(pod.spec.scheduler_name.clone()));
    }
    Ok(())
}

/// Returns the original without what would hold a copy back or make room for it, and with all its claims.
fn template(original: &Original, cluster: &Inventory) -> Original {
    let mut original = original.clone();
    original.complete(cluster);
    let pod = &mut original.pod;
    (pod.node_name, pod.scheduling_gates, pod.status) = (None, Vec::new(), PodStatus::default());
    let spec = PodSpec { never_preempts: true, pod_group: None, ..PodSpec::clone(&pod.spec) };
    pod.spec = Arc::new(spec);
    original
}
