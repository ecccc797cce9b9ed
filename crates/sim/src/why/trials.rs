//! Tries changes on the cluster.

use std::sync::Arc;

use harbormaster_api::{Pod, Str};
use harbormaster_framework::{attempt::AttemptError, pod::PodInfo};

use super::{
    Change, Remedy, change::changed, ideas::ideas, objects::Objects, promotion::PriorityClass,
    storage::Limited,
};
use crate::explain::Judge;

/// A pod that waits, and the cluster in which it waits.
pub(super) struct Trials {
    pub(super) judge: Judge,
    pub(super) pod: Pod,
    /// Priority classes of the cluster, the lowest first.
    pub(super) classes: Vec<PriorityClass>,
    pub(super) objects: Objects,
    /// Nodes that reject the pod because of volumes.
    pub(super) limited: Limited,
}

impl Trials {
    /// Returns the pod with changes to itself.
    pub(super) fn info(&mut self, changes: &[Change]) -> Arc<PodInfo> {
        self.judge.cache.info(changed(&self.pod, changes))
    }

    /// Returns changes to the pod and its claims that are worth trying.
    pub(super) fn ideas(&self) -> Vec<Change> {
        let mut ideas = ideas(&self.pod, &self.judge.cache.cluster);
        ideas.extend(self.fewer_devices());
        ideas
    }

    /// Returns the nodes on which the pod fits after the changes.
    pub(super) fn fits(&mut self, changes: &[Change]) -> Result<Vec<Str>, AttemptError> {
        let replaced = changes.iter().flat_map(|change| self.make(change)).collect();
        let pod = self.info(changes);
        let fits = self.judge.fitting(&pod);
        self.undo(replaced);
        fits
    }

    /// Returns the remedy if the pod fits after the changes.
    pub(super) fn remedy(&mut self, changes: Vec<Change>) -> Result<Option<Remedy>, AttemptError> {
        let nodes = self.fits(&changes)?;
        let example = nodes.first().map(|node| node.as_str().to_owned());
        Ok(example.map(|example| Remedy { changes, fits: nodes.len(), example, members: None }))
    }

    /// Returns the remedy if the pod fits on the node after the changes.
    pub(super) fn remedy_on(
        &mut self,
        node: &Str,
        changes: Vec<Change>,
    ) -> Result<Option<Remedy>, AttemptError> {
        let nodes = self.fits(&changes)?;
        let example = || node.as_str().to_owned();
        Ok(nodes.contains(node).then(|| Remedy {
            changes,
            fits: nodes.len(),
            example: example(),
            members: None,
        }))
    }
}
