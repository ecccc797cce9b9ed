//! One row, about which is asked "what if".

use std::sync::Arc;

use harbormaster_api::points::ExtensionPoint;

use super::{filter_row, slot_of};
use crate::{
    classes::{ClassTable, PointError, failed},
    cluster::Cluster,
    cycle::{Cycle, DryRun},
    nodeset::NodeIdx,
    outcome::{PluginError, PluginResult, Reject, Verdict},
    plugin::{ErasedPlugin, Scope, Slot},
    pod::PodInfo,
    profile::Profile,
    sweep::PluginIdx,
};

/// A row of the cluster that is changed for a question and changed back when this value goes.
pub struct RowDryRun<'a> {
    profile: &'a Profile,
    table: &'a ClassTable,
    /// States of cluster-scoped plugins as they are with the pods that are taken off now.
    slots: Vec<Slot>,
    cluster: &'a mut Cluster,
    pod: &'a PodInfo,
    row: NodeIdx,
    nominated: &'a [Arc<PodInfo>],
    taken: Vec<Arc<PodInfo>>,
    /// The row's pods as they were: their order decides who of equals is the more important one.
    before: Option<Vec<Arc<PodInfo>>>,
    added: Vec<Arc<PodInfo>>,
}

impl<'a> RowDryRun<'a> {
    pub(super) fn new(
        profile: &'a Profile,
        table: &'a ClassTable,
        fresh: &[Slot],
        cluster: &'a mut Cluster,
        pod: &'a PodInfo,
        row: NodeIdx,
        nominated: &'a [Arc<PodInfo>],
    ) -> Self {
        let slots = copy_slots(profile, fresh);
        Self {
            profile,
            table,
            slots,
            cluster,
            pod,
            row,
            nominated,
            taken: Vec::new(),
            before: None,
            added: Vec::new(),
        }
    }

    /// Whether the pod fits as if the nominated pods were on the row already.
    pub(super) fn fits_with_nominated(&mut self) -> Result<Result<(), (PluginIdx, Reject)>, PointError> {
        let mut slots = copy_slots(self.profile, &self.slots);
        for other in self.nominated {
            self.cluster.what_if().what_if_added(self.row, other.clone());
            self.added.push(other.clone());
        }
        let cx = Cycle::new(self.cluster, self.pod);
        let told = self.nominated.iter().try_for_each(|other| {
            tell(self.profile, &mut slots, |plugin, slot| plugin.add_pod(&cx, slot, other, self.row))
        });
        let verdict = told.and_then(|()| self.verdict(&slots));
        self.take_back();
        verdict
    }

    fn verdict(&self, slots: &[Slot]) -> Result<Result<(), (PluginIdx, Reject)>, PointError> {
        let cx = Cycle::new(self.cluster, self.pod);
        filter_row(self.profile, &cx, |plugin| slot_of(self.profile, self.table, slots, plugin), self.row)
    }

    fn take_back(&mut self) {
        for other in self.added.drain(..).rev() {
            self.cluster.what_if().end_what_if(self.row, &other.uid);
        }
    }
}

impl DryRun for RowDryRun<'_> {
    fn take(&mut self, pod: &Arc<PodInfo>) -> PluginResult<()> {
        self.before.get_or_insert_with(|| self.cluster.node(self.row).pods().to_vec());
        self.taken.extend(self.cluster.what_if().what_if_removed(self.row, &pod.uid));
        let cx = Cycle::new(self.cluster, self.pod);
        let told =
            tell(self.profile, &mut self.slots, |plugin, slot| plugin.remove_pod(&cx, slot, pod, self.row));
        told.map_err(plain)
    }

    fn put_back(&mut self, pod: &Arc<PodInfo>) -> PluginResult<()> {
        if let Some(at) = self.taken.iter().position(|taken| taken.uid == pod.uid) {
            let pod = self.taken.swap_remove(at);
            self.cluster.what_if().what_if_added(self.row, pod);
        }
        let cx = Cycle::new(self.cluster, self.pod);
        let told =
            tell(self.profile, &mut self.slots, |plugin, slot| plugin.add_pod(&cx, slot, pod, self.row));
        told.map_err(plain)
    }

    fn fits(&mut self) -> PluginResult<Verdict> {
        if !self.nominated.is_empty() {
            let verdict = self.fits_with_nominated().map_err(plain)?;
            if let Err((_, reject)) = verdict {
                return Ok(Err(reject));
            }
        }
        Ok(self.verdict(&self.slots).map_err(plain)?.map_err(|(_, reject)| reject))
    }
}

impl Drop for RowDryRun<'_> {
    fn drop(&mut self) {
        self.take_back();
        for pod in self.taken.drain(..).rev() {
            self.cluster.what_if().what_if_added(self.row, pod);
        }
        if let Some(before) = self.before.take() {
            self.cluster.what_if().what_if_over(self.row, before);
        }
    }
}

/// Filter states of cluster-scoped plugins, to be changed. Those of row-scoped ones depend on no other pod.
fn copy_slots(profile: &Profile, slots: &[Slot]) -> Vec<Slot> {
    let copy = |(plugin, slot): (&Arc<dyn ErasedPlugin>, &Slot)| plugin.clone_slot(slot);
    profile.plugins().iter().zip(slots).map(copy).collect()
}

/// Tells every cluster-scoped PreFilter plugin that did not skip of a pod that joins or leaves.
fn tell(
    profile: &Profile,
    slots: &mut [Slot],
    mut about: impl FnMut(&dyn ErasedPlugin, &mut Slot) -> PluginResult<()>,
) -> Result<(), PointError> {
    for plugin in profile.at(ExtensionPoint::PreFilter) {
        let erased = profile.plugin(*plugin);
        let slot = &mut slots[plugin.at()];
        if erased.scope() == Scope::Cluster && slot.is_some() {
            about(&**erased, slot).map_err(failed(erased.name(), ExtensionPoint::PreFilter))?;
        }
    }
    Ok(())
}

fn plain(error: PointError) -> PluginError {
    format!("running {:?} {} plugin: {}", error.plugin, error.point.name(), error.source).into()
}
