//! One row, about which is asked "what if".

use std::sync::Arc;

use harbormaster_api::points::ExtensionPoint;

use super::draft::rejection;
use crate::{
    cluster::Cluster,
    cycle::{Cycle, DryRun},
    guard::{Guarded, PointError},
    nodeset::NodeIdx,
    outcome::{PluginResult, Reject},
    plugin::Scope,
    pod::PodInfo,
    points::Slot,
    profile::Profile,
    sweep::PluginIdx,
};

/// A row of the cluster that is changed for a question and changed back when this value goes.
pub struct RowDryRun<'a> {
    profile: &'a Profile,
    /// States as they are with the pods that are off the row now. A plugin that changes one that
    /// others hold as well changes a copy.
    slots: Vec<Slot>,
    cluster: &'a mut Cluster,
    pod: &'a PodInfo,
    row: NodeIdx,
    nominated: &'a [Arc<PodInfo>],
    removed: Vec<Arc<PodInfo>>,
    /// The row's pods as they were: their order decides who of equals is the more important one.
    before: Option<Vec<Arc<PodInfo>>>,
    added: Vec<Arc<PodInfo>>,
}

impl<'a> RowDryRun<'a> {
    pub(super) fn new(
        profile: &'a Profile,
        slots: &[Slot],
        cluster: &'a mut Cluster,
        pod: &'a PodInfo,
        row: NodeIdx,
        nominated: &'a [Arc<PodInfo>],
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

    /// What rejects the pod as if the nominated pods were on the row already.
    pub(super) fn rejection_with_nominated(&mut self) -> Result<Option<(PluginIdx, Reject)>, PointError> {
        let mut slots = self.slots.clone();
        for other in self.nominated {
            self.cluster.what_if().what_if_added(self.row, other.clone());
            self.added.push(other.clone());
        }
        let cx = Cycle::new(self.cluster, self.pod);
        let told = self.nominated.iter().try_for_each(|other| {
            tell(self.profile, &mut slots, |plugin, slot| plugin.add_pod(&cx, slot, other, self.row))
        });
        let rejection = told.and_then(|()| self.rejection_as_it_is(&slots));
        self.end_nominated();
        rejection
    }

    fn rejection_as_it_is(&self, slots: &[Slot]) -> Result<Option<(PluginIdx, Reject)>, PointError> {
        rejection(self.profile, &Cycle::new(self.cluster, self.pod), slots, self.row)
    }

    fn end_nominated(&mut self) {
        for other in self.added.drain(..).rev() {
            self.cluster.what_if().end_what_if(self.row, &other.uid);
        }
    }
}

impl DryRun for RowDryRun<'_> {
    fn remove_pod(&mut self, pod: &Arc<PodInfo>) -> PluginResult<()> {
        self.before.get_or_insert_with(|| self.cluster.node(self.row).pods().to_vec());
        self.removed.extend(self.cluster.what_if().what_if_removed(self.row, &pod.uid));
        let cx = Cycle::new(self.cluster, self.pod);
        let told =
            tell(self.profile, &mut self.slots, |plugin, slot| plugin.remove_pod(&cx, slot, pod, self.row));
        Ok(told?)
    }

    fn add_pod(&mut self, pod: &Arc<PodInfo>) -> PluginResult<()> {
        if let Some(at) = self.removed.iter().position(|removed| removed.uid == pod.uid) {
            let pod = self.removed.swap_remove(at);
            self.cluster.what_if().what_if_added(self.row, pod);
        }
        let cx = Cycle::new(self.cluster, self.pod);
        let told =
            tell(self.profile, &mut self.slots, |plugin, slot| plugin.add_pod(&cx, slot, pod, self.row));
        Ok(told?)
    }

    fn rejection(&mut self) -> PluginResult<Option<Reject>> {
        let with_nominated = if self.nominated.is_empty() { None } else { self.rejection_with_nominated()? };
        let rejection = match with_nominated {
            Some(rejection) => Some(rejection),
            None => self.rejection_as_it_is(&self.slots)?,
        };
        Ok(rejection.map(|(_, reject)| reject))
    }
}

impl Drop for RowDryRun<'_> {
    fn drop(&mut self) {
        self.end_nominated();
        for pod in self.removed.drain(..).rev() {
            self.cluster.what_if().what_if_added(self.row, pod);
        }
        if let Some(before) = self.before.take() {
            self.cluster.what_if().what_if_over(self.row, before);
        }
    }
}

/// Tells every cluster-scoped PreFilter plugin that did not skip of a pod that joins or leaves.
fn tell(
    profile: &Profile,
    slots: &mut [Slot],
    mut about: impl FnMut(&Guarded, &mut Slot) -> Result<(), PointError>,
) -> Result<(), PointError> {
    for plugin in profile.at(ExtensionPoint::PreFilter) {
        let (erased, slot) = (profile.plugin(*plugin), &mut slots[plugin.at()]);
        if erased.scope() == Scope::Cluster && slot.is_some() {
            about(erased, slot)?;
        }
    }
    Ok(())
}
