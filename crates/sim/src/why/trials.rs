//! Tries changes on the cluster.

use std::sync::Arc;

use harbormaster_api::{Pod, Str};
use harbormaster_framework::{attempt::AttemptError, pod::PodInfo};

use super::{Change, Remedy, change::changed};
use crate::explain::Judge;

/// A pod that waits, and the cluster in which it waits.
pub(super) struct Trials {
    pub(super) judge: Judge,
    pub(super) pod: Pod,
}

impl Trials {
    pub(super) fn new(judge: Judge, pod: Pod) -> Self {
        Self { judge, pod }
    }

    /// Returns the pod with changes to itself.
    pub(super) fn info(&mut self, changes: &[Change]) -> Arc<PodInfo> {
        self.judge.cache.info(changed(&self.pod, changes))
    }

    /// Returns the nodes on which the pod fits after changes to itself, on the cluster as it is now.
    pub(super) fn fits(&mut self, changes: &[Change]) -> Result<Vec<Str>, AttemptError> {
        let pod = self.info(changes);
        self.judge.fitting(&pod)
    }

    /// Returns the remedy if the pod fits after the changes. Changes to the cluster must have been made already.
    pub(super) fn remedy(&mut self, changes: Vec<Change>) -> Result<Option<Remedy>, AttemptError> {
        let nodes = self.fits(&changes)?;
        let example = nodes.first().map(|node| node.as_str().to_owned());
        Ok(example.map(|example| Remedy { changes, fits: nodes.len(), example }))
    }
}
