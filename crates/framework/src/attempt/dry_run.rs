//! Dry runs of one row.

use std::{borrow::Cow, sync::Arc};

use harbormaster_api::points::ExtensionPoint;

use super::draft::rejection;
use crate::{
    cluster::Cluster,
    cycle::Cycle,
    guard::{GuardedPlugin, PointError},
    nodeset::NodeIdx,
    outcome::{PluginResult, Reject},
    plugin::Scope,
    pod::PodInfo,
    points::Slot,
    profile::Profile,
    sweep::PluginIdx,
};

/// A dry run of one node, which shows whether the pod would fit without certain other pods. The dry run changes the
/// node in the cluster and restores it when dropped.
#[must_use = "the dry run ends when it is dropped"]
pub struct DryRun<'a> {
    profile: &'a Profile,
    /// Filter states that reflect the removal of pods from the row. A shared state is copied before it is changed.
    slots: Vec<Slot>,
    cluster: &'a mut Cluster,
    pod: &'a PodInfo,
    row: NodeIdx,
    /// Pods of equal or higher priority that are expected on the node.
    nominated: Cow<'a, [Arc<PodInfo>]>,
    removed: Vec<Arc<PodInfo>>,
    /// The row's original pods; `None` until a pod is removed. Their order breaks ties between equally important pods.
    before: Option<Vec<Arc<PodInfo>>>,
    added: Vec<Arc<PodInfo>>,
}

impl<'a> DryRun<'a> {
    pub(super) fn new(
        profile: &'a Profile,
        slots: &[Slot],
        cluster: &'a mut Cluster,
        pod: &'a PodInfo,
        row: NodeIdx,
        nominated: Cow<'a, [Arc<PodInfo>]>,
    ) -> Self {
        Self {
            profile,
            slots: slots.to_vec(),
            cluster,
            pod,
            row,
            nominated,
            removed: Vec::new(),
            before: None,
            added: Vec::new(),
        }
    }

    /// Removes a pod from the node.
    ///
    /// # Errors
    /// When a PreFilter plugin fails unexpectedly.
    pub fn remove_pod(&mut self, pod: &Arc<PodInfo>) -> PluginResult<()> {
        self.before.get_or_insert_with(|| self.cluster.node(self.row).pods().to_vec());
        self.removed.extend(self.cluster.what_if().dry_run_remove(self.row, &pod.uid));
        self.notify_removed(self.row, pod)
    }

    /// Removes a pod from any node. Of another node than the one of the dry run, only PreFilter plugins are told, because
    /// filters look at no other node.
    ///
    /// # Errors
    /// When a PreFilter plugin fails unexpectedly.
    pub fn remove_pod_on(&mut self, row: NodeIdx, pod: &Arc<PodInfo>) -> PluginResult<()> {
        if row == self.row { self.remove_pod(pod) } else { self.notify_removed(row, pod) }
    }

    /// Puts back a removed pod.
    ///
    /// # Errors
    /// When a PreFilter plugin fails unexpectedly.
    pub fn add_pod(&mut self, pod: &Arc<PodInfo>) -> PluginResult<()> {
        if let Some(at) = self.removed.iter().position(|removed| removed.uid == pod.uid) {
            let pod = self.removed.swap_remove(at);
            self.cluster.what_if().dry_run_add(self.row, pod);
        }
        self.notify_added(self.row, pod)
    }

    /// Puts back a pod that [`Self::remove_pod_on`] removed.
    ///
    /// # Errors
    /// When a PreFilter plugin fails unexpectedly.
    pub fn add_pod_on(&mut self, row: NodeIdx, pod: &Arc<PodInfo>) -> PluginResult<()> {
        if row == self.row { self.add_pod(pod) } else { self.notify_added(row, pod) }
    }

    fn notify_removed(&mut self, row: NodeIdx, pod: &Arc<PodInfo>) -> PluginResult<()> {
        let cx = Cycle::new(self.cluster, self.pod);
        Ok(notify(self.profile, &mut self.slots, |plugin, slot| plugin.remove_pod(&cx, slot, pod, row))?)
    }

    fn notify_added(&mut self, row: NodeIdx, pod: &Arc<PodInfo>) -> PluginResult<()> {
        let cx = Cycle::new(self.cluster, self.pod);
        Ok(notify(self.profile, &mut self.slots, |plugin, slot| plugin.add_pod(&cx, slot, pod, row))?)
    }

    /// Returns the rejection of the node in its current state; `None` if the pod fits. If there are nominated pods of
    /// equal or higher priority, the pod must fit twice: with these pods on the node, and without them.
    ///
    /// # Errors
    /// When a Filter plugin fails unexpectedly.
    pub fn rejection(&mut self) -> PluginResult<Option<Reject>> {
        let with_nominated = if self.nominated.is_empty() { None } else { self.rejection_with_nominated()? };
        let rejection = match with_nominated {
            Some(rejection) => Some(rejection),
            None => self.rejection_as_it_is(&self.slots)?,
        };
        Ok(rejection.map(|(_, reject)| reject))
    }

    /// Runs the Filter plugins as if the nominated pods were on the row. Returns the rejection, if any.
    pub(super) fn rejection_with_nominated(&mut self) -> Result<Option<(PluginIdx, Reject)>, PointError> {
        let mut slots = self.slots.clone();
        for other in &*self.nominated {
            self.cluster.what_if().dry_run_add(self.row, other.clone());
            self.added.push(other.clone());
        }
        let cx = Cycle::new(self.cluster, self.pod);
        let added = self.nominated.iter().try_for_each(|other| {
            notify(self.profile, &mut slots, |plugin, slot| plugin.add_pod(&cx, slot, other, self.row))
        });
        let rejection = added.and_then(|()| self.rejection_as_it_is(&slots));
        self.end_nominated();
        rejection
    }

    fn rejection_as_it_is(&self, slots: &[Slot]) -> Result<Option<(PluginIdx, Reject)>, PointError> {
        rejection(self.profile, &Cycle::new(self.cluster, self.pod), slots, self.row)
    }

    fn end_nominated(&mut self) {
        for other in self.added.drain(..).rev() {
            self.cluster.what_if().dry_run_undo_add(self.row, &other.uid);
        }
    }
}

impl Drop for DryRun<'_> {
    fn drop(&mut self) {
        self.end_nominated();
        for pod in self.removed.drain(..).rev() {
            self.cluster.what_if().dry_run_add(self.row, pod);
        }
        if let Some(before) = self.before.take() {
            self.cluster.what_if().dry_run_end(self.row, before);
        }
    }
}

/// Notifies the cluster-scoped PreFilter plugins, except those that skipped, that a pod has joined or left the node.
fn notify(
    profile: &Profile,
    slots: &mut [Slot],
    mut call: impl FnMut(&GuardedPlugin, &mut Slot) -> Result<(), PointError>,
) -> Result<(), PointError> {
    for plugin in profile.at(ExtensionPoint::PreFilter) {
        let (erased, slot) = (profile.plugin(*plugin), &mut slots[plugin.at()]);
        if erased.scope() == Scope::Cluster && slot.is_some() {
            call(erased, slot)?;
        }
    }
    Ok(())
}
