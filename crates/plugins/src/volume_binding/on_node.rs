//! The volumes that a pod's claims would get on one node.

use harbormaster_api::Labels;
use harbormaster_framework::prelude::*;

use super::{
    claims::{Candidate, Claims, DelayedClaim},
    reach::{AccessCondition, VolumeReach},
    supply::Supply,
};
use crate::storage::CsiNode;

/// Reason why a node does not fit. The variants are in the order in which upstream reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodeProblem {
    /// A volume is not accessible.
    Reach,
    /// There is no matching volume, and no volume can be provisioned.
    Volume,
    /// There is not enough capacity to provision a volume.
    Capacity,
    /// A volume does not exist.
    Object,
}

impl NodeProblem {
    /// Returns the rejection of a node for this reason alone.
    pub(super) fn reject(self) -> Reject {
        Reject { fix: Fix::NothingHelps, reasons: vec![self.reason().into()] }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Reach => "node(s) didn't match PersistentVolume's node affinity",
            Self::Volume => "node(s) didn't find available persistent volumes to bind",
            Self::Capacity => "node(s) did not have enough free storage",
            Self::Object => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        }
    }
}

/// Volumes chosen for the waiting claims.
#[derive(Debug, Default)]
pub(super) struct ClaimVolumes<'a> {
    /// Claims with their volumes.
    pub(super) matched: Vec<(&'a DelayedClaim, &'a Candidate)>,
    /// Claims for which volumes would be provisioned, with the capacity of the storage, if known.
    pub(super) provisioned: Vec<(&'a DelayedClaim, Option<i64>)>,
}

impl Claims {
    /// Finds the volumes that the waiting claims would get on the node.
    ///
    /// # Errors
    /// Rejects the node with all reasons.
    pub(super) fn on<'a>(
        &'a self,
        csi_nodes: Watched<'_, CsiNode>,
        supply: &'a Supply,
        node: NodeRef<'_>,
    ) -> Result<ClaimVolumes<'a>, Stop> {
        let labels = node.labels().cloned().unwrap_or_default();
        let bound = self.bound_problem(csi_nodes, node, &labels)?;
        match (self.find(supply, node.name(), &labels), bound) {
            (Ok(found), None) => Ok(found),
            (found, bound) => {
                let mut lacks: Vec<NodeProblem> = found.err().into_iter().chain(bound).collect();
                lacks.sort_unstable();
                let reasons = lacks.into_iter().map(|lack| lack.reason().into()).collect();
                Err(Reject { fix: Fix::NothingHelps, reasons }.into())
            }
        }
    }

    /// Returns true if the claims fit on every node.
    pub(super) fn fit_everywhere(&self) -> bool {
        self.delayed_fit_everywhere() && self.bound_fit_everywhere()
    }

    /// Returns the only rows that fit and the reason for rejecting all others, if both can be determined without
    /// checking row by row.
    pub(super) fn only_rows(&self, supply: &Supply) -> Option<(NodeSet, NodeProblem)> {
        if self.delayed_fit_everywhere() {
            return Some((self.rows_of_volumes(supply)?, NodeProblem::Reach));
        }
        let [delayed] = self.delayed.as_slice() else { return None };
        let must_be_found = delayed.selected_node.is_none()
            && delayed.set_aside.is_none()
            && !delayed.provision.class.is_provisioned();
        if !must_be_found || !self.bound_fit_everywhere() {
            return None;
        }
        Some((supply.rows_with_volume(&delayed.demand)?, NodeProblem::Volume))
    }

    /// Returns the rows with access to all volumes of bound claims. Returns `None` if a volume does not exist, if
    /// access to a volume depends on anything but one label, or if every node has access to all volumes.
    fn rows_of_volumes(&self, supply: &Supply) -> Option<NodeSet> {
        let mut all: Option<NodeSet> = None;
        for volume in &self.bound {
            let rows = match volume.as_ref()?.access_condition() {
                AccessCondition::Always => continue,
                AccessCondition::Label(label, values) => supply.rows().rows_with(label, values),
                AccessCondition::Other => return None,
            };
            match &mut all {
                Some(all) => all.intersect(&rows),
                None => all = Some(rows),
            }
        }
        all
    }

    /// Returns true if all volumes of bound claims are accessible from every node.
    fn bound_fit_everywhere(&self) -> bool {
        let is_everywhere =
            |volume: &VolumeReach| matches!(volume.access_condition(), AccessCondition::Always);
        self.bound.iter().all(|volume| volume.as_ref().is_some_and(is_everywhere))
    }

    /// Returns true if the waiting claims can be satisfied on every node.
    fn delayed_fit_everywhere(&self) -> bool {
        self.delayed.iter().all(|delayed| {
            delayed.selected_node.is_none()
                && delayed.set_aside.is_none()
                && delayed.provision.is_offered_everywhere()
        })
    }

    /// Returns why a bound claim keeps the pod off the node, or `None` if none does.
    fn bound_problem(
        &self,
        csi_nodes: Watched<'_, CsiNode>,
        node: NodeRef<'_>,
        labels: &Labels,
    ) -> PluginResult<Option<NodeProblem>> {
        for volume in &self.bound {
            let Some(volume) = volume else { return Ok(Some(NodeProblem::Object)) };
            let drivers = match volume.depends_on_drivers(labels) {
                true => csi_nodes.get("", node.name()),
                false => None,
            };
            if !volume.includes(labels, drivers)? {
                return Ok(Some(NodeProblem::Reach));
            }
        }
        Ok(None)
    }

    fn find<'a>(
        &'a self,
        supply: &'a Supply,
        node: &str,
        labels: &Labels,
    ) -> Result<ClaimVolumes<'a>, NodeProblem> {
        let mut found = ClaimVolumes::default();
        let mut to_provision = Vec::new();
        for delayed in &self.delayed {
            match &delayed.selected_node {
                Some(selected) if *selected != node => return Err(NodeProblem::Volume),
                Some(_) => to_provision.push(delayed),
                None => match delayed.volume(supply, labels, &found.matched) {
                    Some(volume) => found.matched.push((delayed, volume)),
                    None => to_provision.push(delayed),
                },
            }
        }
        for delayed in to_provision {
            found.provisioned.push((delayed, delayed.capacity(supply, labels)?));
        }
        Ok(found)
    }
}

impl DelayedClaim {
    /// Returns the volume for the claim. Excludes volumes taken by other claims of the pod.
    pub(super) fn volume<'a>(
        &'a self,
        supply: &'a Supply,
        node: &Labels,
        taken: &[(&DelayedClaim, &Candidate)],
    ) -> Option<&'a Candidate> {
        if let Some((volume, reach)) = &self.set_aside {
            return reach.includes(node).then_some(volume);
        }
        let is_open = |volume: &Candidate| taken.iter().all(|(_, taken)| taken.name != volume.name);
        supply.volume(&self.demand, node, is_open)
    }

    /// Returns the capacity of the storage from which a volume would be provisioned, if known.
    pub(super) fn capacity(&self, supply: &Supply, node: &Labels) -> Result<Option<i64>, NodeProblem> {
        if !self.provision.class.is_provisioned() || !self.provision.class.allows(node) {
            return Err(NodeProblem::Volume);
        }
        match self.provision.bytes {
            None => Ok(None),
            Some(bytes) => {
                supply.capacity(&self.demand.class, bytes, node).map(Some).ok_or(NodeProblem::Capacity)
            }
        }
    }
}
