//! Amounts that a node lacks for a pod rejected by NodeResourcesFit.

use harbormaster_framework::{prelude::*, table::NodeTable};

use super::{NodeResourcesFit, demand::insufficient};

/// A resource, and the amount of it that must be freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    resource: Resource,
    /// Amount, always above zero.
    pub(crate) amount: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Resource {
    Pods,
    Cpu,
    Memory,
    Storage,
    Scalar(String),
}

impl Shortage {
    /// Replaces the contents of `all` with the row's shortages. There are none if another plugin rejected the row,
    /// since NodeResourcesFit may accept the row or may not have run.
    pub(crate) fn gather(all: &mut Vec<Self>, what_if: &dyn WhatIf, row: NodeIdx, pod: &PodInfo) {
        all.clear();
        if what_if.rejected_by(row) != Some(NodeResourcesFit::NAME) {
            return;
        }
        let node = what_if.nodes().node(row);
        for reason in what_if.rejection(row).into_iter().flat_map(|reject| reject.reasons) {
            let Some(resource) = Resource::missing(&reason) else { continue };
            let (has, used) = resource.of_node(what_if.nodes(), node);
            // The rejection may be due to pods nominated to the node, in which case the node may have enough without
            // them.
            let amount = resource.of_pod(pod).saturating_sub(has.saturating_sub(used));
            if amount > 0 {
                all.push(Self { resource, amount });
            }
        }
    }

    /// Returns the amount that is freed when the pod leaves.
    pub(crate) fn freed_by(&self, pod: &PodInfo) -> i64 {
        self.resource.of_pod(pod).max(0)
    }
}

impl Resource {
    /// Returns the resource that a reason of NodeResourcesFit names, or `None` if the reason names none.
    fn missing(reason: &str) -> Option<Self> {
        Some(match insufficient(reason)? {
            "pods" => Self::Pods,
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::Storage,
            scalar => Self::Scalar(scalar.to_owned()),
        })
    }

    fn of_pod(&self, pod: &PodInfo) -> i64 {
        let request = pod.request();
        match self {
            Self::Pods => 1,
            Self::Cpu => request.milli_cpu,
            Self::Memory => request.memory,
            Self::Storage => request.ephemeral_storage,
            Self::Scalar(name) => request.scalar(name),
        }
    }

    /// Returns the node's capacity for the resource, and the sum of its pods' requests.
    fn of_node(&self, nodes: &NodeTable, node: NodeRef<'_>) -> (i64, i64) {
        let (columns, at) = (nodes.columns(), node.idx().at());
        match self {
            Self::Pods => (columns.pods[at], columns.used_pods[at]),
            Self::Cpu => (columns.cpu[at], columns.used_cpu[at]),
            Self::Memory => (columns.memory[at], columns.used_memory[at]),
            Self::Storage => (columns.storage[at], columns.used_storage[at]),
            Self::Scalar(name) => (node.allocatable_scalar(name), node.requested_scalar(name)),
        }
    }
}
