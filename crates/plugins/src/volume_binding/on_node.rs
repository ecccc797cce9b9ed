//! What a pod's claims would get on one node.

use harbormaster_api::Labels;
use harbormaster_framework::prelude::*;

use super::claims::{Candidate, Claims, Delayed};

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
    pub(super) fn on(&self, objects: &Objects, node: NodeRef<'_>) -> Result<Found<'_>, Stop> {
        let labels = node.labels().cloned().unwrap_or_default();
        let bound = self.bound_lacks(objects, node, &labels)?;
        match (self.find(node.name(), &labels), bound) {
            (Ok(found), None) => Ok(found),
            (found, bound) => {
                let mut lacks: Vec<Lack> = found.err().into_iter().chain(bound).collect();
                lacks.sort_unstable();
                let reasons = lacks.into_iter().map(|lack| lack.reason().into()).collect();
                Err(Reject { fix: Fix::NothingHelps, reasons }.into())
            }
        }
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
            let drivers = match volume.asks_for_drivers() {
                true => objects.get("", node.name())?,
                false => None,
            };
            if !volume.includes(labels, drivers)? {
                return Ok(Some(Lack::Reach));
            }
        }
        Ok(None)
    }

    fn find(&self, node: &str, labels: &Labels) -> Result<Found<'_>, Lack> {
        let mut found = Found::default();
        let mut to_make = Vec::new();
        for delayed in &self.delayed {
            match &delayed.selected_node {
                Some(selected) if *selected != node => return Err(Lack::Volume),
                Some(_) => to_make.push(delayed),
                None => match delayed.volume(labels, &found.matched) {
                    Some(volume) => found.matched.push((delayed, volume)),
                    None => to_make.push(delayed),
                },
            }
        }
        for delayed in to_make {
            found.made.push((delayed, delayed.capacity(labels)?));
        }
        Ok(found)
    }
}

impl Delayed {
    /// The volume that the claim would have, but for those that other claims of the pod would have.
    fn volume(&self, node: &Labels, taken: &[(&Delayed, &Candidate)]) -> Option<&Candidate> {
        if let Some((volume, reach)) = &self.set_aside {
            return reach.includes(node).then_some(volume);
        }
        self.volumes.best(node, |volume| taken.iter().all(|(_, taken)| taken.name != volume.name))
    }

    /// From which capacity a volume would be made.
    fn capacity(&self, node: &Labels) -> Result<Option<i64>, Lack> {
        if !self.provision.class.is_provisioned() || !self.provision.class.allows(node) {
            return Err(Lack::Volume);
        }
        match &self.provision.capacities {
            None => Ok(None),
            Some(capacities) => capacities.best(node, |_| true).copied().map(Some).ok_or(Lack::Capacity),
        }
    }
}
