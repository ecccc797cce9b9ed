//! TopologyPlacementGenerator: keeps a group together on the nodes that have the same value of a label (KEP-5732).
//!
//! # What it does
//! Extension point: PlacementGenerate. Divides the nodes by the value of the label that the group's topology constraint
//! names, for example into racks. All members that are placed in one cycle get nodes of the same division. Nodes without
//! the label are left out. If members have nodes already, only the division of these nodes is left. A group without a
//! constraint may use all nodes.
//!
//! # Rejects when
//! No node has the label: `no feasible placements found`. Members that have nodes without the label, or with different
//! values of it, are an error.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! - a new node, or changed labels of a node
//! - the deletion of a pod of the same group that was on a node
//!
//! # Differs from kube-scheduler
//! - The divisions are tried in the order of their first nodes; kube-scheduler's order is random. Of equally good
//!   divisions, the first one is taken.
//! - kube-scheduler has no events for this plugin, because it tries every rejected group again when its backoff ends.

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use rustc_hash::FxHashMap;

/// Keeps groups together in topology domains. See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct TopologyPlacementGenerator;

impl Plugin for TopologyPlacementGenerator {
    const NAME: &'static str = "TopologyPlacementGenerator";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![
            Registration::always(EventResource::Node, Action::ADD | Action::UPDATE_NODE_LABEL),
            Registration::hinted(EventResource::AssignedPod, Action::DELETE, Self::after_pod),
        ])
    }
}

impl PlacementGenerate for TopologyPlacementGenerator {
    fn generate_placements(&self, cx: &GroupCycle<'_>) -> Result<Vec<GroupPlacement>, Stop> {
        let Some(key) = &cx.group.topology_key else {
            return Ok(vec![GroupPlacement { name: Str::default(), nodes: cx.nodes.live().clone() }]);
        };
        let required = domain_of_scheduled(cx, key)
            .map_err(|why| format!("cannot determine domain for already scheduled pods: {why}"))?;
        let mut placements: Vec<GroupPlacement> = Vec::new();
        let mut positions: FxHashMap<&Str, usize> = FxHashMap::default();
        for node in cx.nodes.nodes() {
            let Some(domain) = domain_of(node, key) else { continue };
            if required.is_some_and(|required| required != domain) {
                continue;
            }
            let position = *positions.entry(domain).or_insert_with(|| {
                let nodes = NodeSet::empty(cx.nodes.rows());
                placements.push(GroupPlacement { name: domain.clone(), nodes });
                placements.len() - 1
            });
            placements[position].nodes.insert(node.idx());
        }
        Ok(placements)
    }
}

impl TopologyPlacementGenerator {
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(gone), new: None } = change else { return Ok(Hint::Queue) };
        let is_member = pod.spec.pod_group == gone.spec.pod_group && pod.namespace == gone.namespace;
        Ok(if is_member { Hint::Queue } else { Hint::Skip })
    }
}

fn domain_of<'a>(node: NodeRef<'a>, key: &str) -> Option<&'a Str> {
    node.labels()?.get(key)
}

/// Returns the domain of the members that have nodes; `None` if there are no such members.
fn domain_of_scheduled<'a>(cx: &GroupCycle<'a>, key: &str) -> Result<Option<&'a Str>, String> {
    let mut common: Option<&Str> = None;
    for ScheduledMember { pod, node } in cx.scheduled {
        let name = pod.full_name();
        let row = cx.nodes.find(node);
        let row = row.ok_or_else(|| {
            format!("getting node for pod {name}: nodeinfo not found for node name {node:?}")
        })?;
        let domain = domain_of(cx.nodes.node(row), key);
        let domain = domain.ok_or_else(|| format!("no topology domain found for pod {name}"))?;
        // As in kube-scheduler, an empty value agrees with every other value.
        if let Some(common) = common.filter(|common| !common.is_empty() && *common != domain) {
            return Err(format!("more than 1 domain found for pod group: {common}, {domain}"));
        }
        common = Some(domain);
    }
    Ok(common)
}

#[cfg(test)]
mod tests;
