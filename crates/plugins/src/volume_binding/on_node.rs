//! What a pod's claims would get on one node.

use harbormaster_api::Labels;
use harbormaster_framework::prelude::*;

use super::{
    claims::{Candidate, Claims, Delayed},
    reach::{VolumeReach, WhichNodes},
    supply::Supply,
};

/// Why a node will not do. In the order in which upstream tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack {
    /// A volume cannot be used from there.
    Reach,
    /// There is no volume, and none can be made.
    Volume,
    /// None can be made because too little room is left.
    Capacity,
    /// A volume does not exist, on no node.
    Object,
}

impl Lack {
    /// The rejection of a node that lacks nothing else.
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

/// What the claims that wait would get.
#[derive(Debug, Default)]
pub(super) struct Found<'a> {
    /// Claims with the volumes that they would have.
    pub(super) matched: Vec<(&'a Delayed, &'a Candidate)>,
    /// Claims for which volumes would be made, with the capacity from which they are, if that is known.
    pub(super) made: Vec<(&'a Delayed, Option<i64>)>,
}

impl Claims {
    /// What the claims that wait would get on that node.
    ///
    /// # Errors
    /// Rejects the node with everything that it lacks.
    pub(super) fn on<'a>(
        &'a self,
        objects: &Objects,
        supply: &'a Supply,
        node: NodeRef<'_>,
    ) -> Result<Found<'a>, Stop> {
        let labels = node.labels().cloned().unwrap_or_default();
        let bound = self.bound_lacks(objects, node, &labels)?;
        match (self.find(supply, node.name(), &labels), bound) {
            (Ok(found), None) => Ok(found),
            (found, bound) => {
                let mut lacks: Vec<Lack> = found.err().into_iter().chain(bound).collect();
                lacks.sort_unstable();
                let reasons = lacks.into_iter().map(|lack| lack.reason().into()).collect();
                Err(Reject { fix: Fix::NothingHelps, reasons }.into())
            }
        }
    }

    /// Whether every node will do.
    pub(super) fn fit_everywhere(&self) -> bool {
        self.find_something_everywhere() && self.reach_everywhere()
    }

    /// The only rows that will do, and what all others lack, where that can be told without asking row by row.
    pub(super) fn only_rows(&self, supply: &Supply) -> Option<(NodeSet, Lack)> {
        if self.find_something_everywhere() {
            return Some((self.rows_of_volumes(supply)?, Lack::Reach));
        }
        let [delayed] = self.delayed.as_slice() else { return None };
        let must_be_found = delayed.selected_node.is_none()
            && delayed.set_aside.is_none()
            && !delayed.provision.class.is_provisioned();
        if !must_be_found || !self.reach_everywhere() {
            return None;
        }
        Some((supply.rows_with_volume(&delayed.demand)?, Lack::Volume))
    }

    /// The rows from which all volumes that claims have can be used; `None` where more than labels decides.
    fn rows_of_volumes(&self, supply: &Supply) -> Option<NodeSet> {
        let mut all: Option<NodeSet> = None;
        for volume in &self.bound {
            let rows = match volume.as_ref()?.which_nodes() {
                WhichNodes::All => continue,
                WhichNodes::Labelled(label, values) => supply.rows().with(label, values),
                WhichNodes::Some => return None,
            };
            match &mut all {
                Some(all) => all.intersect(&rows),
                None => all = Some(rows),
            }
        }
        all
    }

    /// Whether the volumes that claims have can be used from every node.
    fn reach_everywhere(&self) -> bool {
        let is_everywhere = |volume: &VolumeReach| matches!(volume.which_nodes(), WhichNodes::All);
        self.bound.iter().all(|volume| volume.as_ref().is_some_and(is_everywhere))
    }

    /// Whether the claims that wait would get something on every node.
    fn find_something_everywhere(&self) -> bool {
        self.delayed.iter().all(|delayed| {
            delayed.selected_node.is_none()
                && delayed.set_aside.is_none()
                && delayed.provision.is_offered_everywhere()
        })
    }

    /// What the first volume that will not do lacks.
    fn bound_lacks(
        &self,
        objects: &Objects,
        node: NodeRef<'_>,
        labels: &Labels,
    ) -> PluginResult<Option<Lack>> {
        for volume in &self.bound {
            let Some(volume) = volume else { return Ok(Some(Lack::Object)) };
            let drivers = match volume.asks_for_drivers(labels) {
                true => objects.get("", node.name())?,
                false => None,
            };
            if !volume.includes(labels, drivers)? {
                return Ok(Some(Lack::Reach));
            }
        }
        Ok(None)
    }

    fn find<'a>(&'a self, supply: &'a Supply, node: &str, labels: &Labels) -> Result<Found<'a>, Lack> {
        let mut found = Found::default();
        let mut to_make = Vec::new();
        for delayed in &self.delayed {
            match &delayed.selected_node {
                Some(selected) if *selected != node => return Err(Lack::Volume),
                Some(_) => to_make.push(delayed),
                None => match delayed.volume(supply, labels, &found.matched) {
                    Some(volume) => found.matched.push((delayed, volume)),
                    None => to_make.push(delayed),
                },
            }
        }
        for delayed in to_make {
            found.made.push((delayed, delayed.capacity(supply, labels)?));
        }
        Ok(found)
    }
}

impl Delayed {
    /// The volume that the claim would have, but for those that other claims of the pod would have.
    fn volume<'a>(
        &'a self,
        supply: &'a Supply,
        node: &Labels,
        taken: &[(&Delayed, &Candidate)],
    ) -> Option<&'a Candidate> {
        if let Some((volume, reach)) = &self.set_aside {
            return reach.includes(node).then_some(volume);
        }
        let is_open = |volume: &Candidate| taken.iter().all(|(_, taken)| taken.name != volume.name);
        supply.volume(&self.demand, node, is_open)
    }

    /// From which capacity a volume would be made.
    fn capacity(&self, supply: &Supply, node: &Labels) -> Result<Option<i64>, Lack> {
        if !self.provision.class.is_provisioned() || !self.provision.class.allows(node) {
            return Err(Lack::Volume);
        }
        match self.provision.bytes {
            None => Ok(None),
            Some(bytes) => supply.capacity(&self.demand.class, bytes, node).map(Some).ok_or(Lack::Capacity),
        }
    }
}
