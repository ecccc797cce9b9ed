//! VolumeZone: places pods in the zones of their volumes.
//!
//! # What it does
//! Extension points: PreFilter, Filter. PreFilter collects the zone and region labels of the volumes that the pod's
//! claims are bound to; Filter compares them with the labels of the node. Considers only claims that the pod names
//! (`persistentVolumeClaim`).
//!
//! # Rejects when
//! PreFilter rejects the pod on all nodes if:
//! - a claim, its class or its volume does not exist: `persistentvolumeclaim "x" not found` and similar;
//! - a claim has neither a volume nor a class that waits for a pod: `PersistentVolumeClaim had no pv name and
//!   storageClass name`, `VolumeBindingMode not set for StorageClass "x"`, `PersistentVolume had no name`;
//! - a claim has no name: `PersistentVolumeClaim had no name`.
//!
//! Filter rejects a node that lacks a label of a volume or has another value for it: `node(s) had no available volume
//! zone`. A volume's label may list several values, as in `a__b`. If the node lacks a volume's beta label, the node's
//! stable label is compared instead; a beta label never stands in for a stable label. A node without any zone or region
//! label accepts every volume.
//!
//! No eviction resolves these rejections.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! A new node, or a node whose labels change; a new class that waits for pods; a new or changed claim of the pod; a
//! new volume, or a volume whose zones change.
//!
//! # Differs from kube-scheduler
//! If its PreFilter is disabled, the plugin accepts every node instead of collecting the zones for each node. The
//! signature includes the namespace, and pods with ephemeral volumes have no signature.

use harbormaster_api::{
    Labels, Str,
    node::{LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA},
};
use harbormaster_framework::prelude::*;

use crate::{
    rows_by_label::RowsByLabel,
    sign,
    storage::{PersistentVolume, PersistentVolumeClaim, StorageClass, claim, class, volume},
    volume_binding::Supply,
};

const REASON: &str = "node(s) had no available volume zone";
/// Separator between several values in one label.
const VALUES: &str = "__";

/// Zone and region labels of volumes, each with the stable node label that also matches.
const LABELS: [(&str, &str); 4] = [
    (LABEL_ZONE_BETA, LABEL_ZONE),
    (LABEL_REGION_BETA, LABEL_REGION),
    (LABEL_ZONE, LABEL_ZONE),
    (LABEL_REGION, LABEL_REGION),
];

/// Places pods in the zones of their volumes. See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct VolumeZone;

/// A zone or region label of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneLabel {
    key: &'static str,
    node_key: &'static str,
    /// Values, sorted and distinct.
    values: Vec<Str>,
}

impl Plugin for VolumeZone {
    const NAME: &'static str = "VolumeZone";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let new_or_changed = Action::ADD | Action::UPDATE;
        Some(vec![
            Registration::on::<StorageClass>(Action::ADD, Self::after_class),
            Registration::always(EventResource::Node, Action::ADD | Action::UPDATE_NODE_LABEL),
            Registration::on::<PersistentVolumeClaim>(new_or_changed, Self::after_claim),
            Registration::on::<PersistentVolume>(new_or_changed, Self::after_volume),
        ])
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        sign::volumes(pod)
    }
}

impl Watches for VolumeZone {
    type Resources = (PersistentVolumeClaim, PersistentVolume, StorageClass);
}

impl Indexed for VolumeZone {
    type Index = Supply;
}

/// Returns the rows with a zone or region label.
fn labelled(rows: &RowsByLabel) -> NodeSet {
    let mut all = NodeSet::default();
    LABELS.iter().filter_map(|(key, _)| rows.rows_with_key(key)).for_each(|rows| all.unite(rows));
    all
}

/// Returns the rows that match a volume's label.
fn rows_matching(rows: &RowsByLabel, zone: &ZoneLabel) -> NodeSet {
    let mut all = rows.rows_with(zone.node_key, &zone.values);
    if zone.key != zone.node_key {
        // If a node has the volume's own label, that label takes precedence.
        rows.rows_with_key(zone.key).into_iter().for_each(|own| all.subtract(own));
        all.unite(&rows.rows_with(zone.key, &zone.values));
    }
    all
}

impl PreFilter<WholeCluster, Vec<ZoneLabel>> for VolumeZone {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<Vec<ZoneLabel>>, Stop> {
        let mut zones = Vec::new();
        for name in claim::named_by(cx.pod) {
            if let Some(volume) = self.volume_of(cx, name)? {
                zones.extend(zone_labels_of(volume));
            }
        }
        Ok(if zones.is_empty() { PreFiltered::Skip } else { PreFiltered::state(zones) })
    }
}

/// Returns the zone and region labels of a volume. Ignores a label if one of its values is empty.
fn zone_labels_of(volume: &Custom<PersistentVolume>) -> impl Iterator<Item = ZoneLabel> + '_ {
    LABELS.into_iter().filter_map(|(key, node_key)| {
        let value = volume.metadata.labels.get(key)?;
        let mut values: Vec<Str> = value.split(VALUES).map(|value| value.trim().into()).collect();
        if values.iter().any(|value| value.is_empty()) {
            return None;
        }
        values.sort_unstable();
        values.dedup();
        Some(ZoneLabel { key, node_key, values })
    })
}

impl Filter<WholeCluster, Vec<ZoneLabel>> for VolumeZone {
    fn filter(&self, _: &Cycle<'_>, zones: &Vec<ZoneLabel>, node: NodeRef<'_>) -> Verdict {
        let Some(labels) = node.labels() else { return Ok(()) };
        if LABELS.iter().all(|(key, _)| labels.get(key).is_none()) {
            return Ok(());
        }
        if zones.iter().all(|zone| zone.includes(labels)) {
            Ok(())
        } else {
            Err(Reject::unresolvable(REASON).into())
        }
    }

    fn filter_batch(
        &self,
        cx: &Cycle<'_>,
        zones: &Vec<ZoneLabel>,
        sweep: &mut Sweep<'_>,
    ) -> PluginResult<()> {
        let rows = self.index(cx)?.rows();
        let labelled = labelled(rows);
        // Nodes without any of the labels accept every volume.
        let mut fitting = sweep.rows().clone();
        fitting.subtract(&labelled);
        let mut inside = labelled;
        zones.iter().for_each(|zone| inside.intersect(&rows_matching(rows, zone)));
        fitting.unite(&inside);
        sweep.reject_all_but(&fitting, &Reject::unresolvable(REASON));
        Ok(())
    }

    fn lacks(&self, _: &Cycle<'_>, zones: &Vec<ZoneLabel>, node: NodeRef<'_>) -> Option<String> {
        let zone = zones.iter().find(|zone| !node.labels().is_some_and(|labels| zone.includes(labels)))?;
        let values: Vec<&str> = zone.values.iter().map(Str::as_str).collect();
        Some(format!("a volume is where {} is {}", zone.node_key, values.join(" or ")))
    }
}

impl ZoneLabel {
    /// Returns true if a node with these labels is where the volume is.
    fn includes(&self, node: &Labels) -> bool {
        let value = node.get(self.key).or_else(|| node.get(self.node_key));
        value.is_some_and(|value| self.values.contains(value))
    }
}

impl VolumeZone {
    /// Returns the volume of a claim, or `None` if the claim gets a volume once a node has been chosen for the pod.
    fn volume_of<'a>(
        &self,
        cx: &Cycle<'a>,
        name: &Str,
    ) -> Result<Option<&'a Custom<PersistentVolume>>, Stop> {
        let no = |reason: String| Stop::from(Reject::unresolvable(reason));
        if name.is_empty() {
            return Err(no("PersistentVolumeClaim had no name".to_owned()));
        }
        let (claims, volumes, classes) = self.watched(cx.objects);
        let claim = claims.get(&cx.pod.namespace, name).ok_or_else(|| no(claim::not_found(name)))?;
        if !claim.volume_name.is_empty() {
            let volume = volumes.get("", &claim.volume_name);
            return volume.map(Some).ok_or_else(|| no(volume::not_found(&claim.volume_name)));
        }
        if claim.class.is_empty() {
            return Err(no("PersistentVolumeClaim had no pv name and storageClass name".to_owned()));
        }
        let class = classes.get("", &claim.class).ok_or_else(|| no(class::not_found(&claim.class)))?;
        if class.volume_binding_mode.is_none() {
            return Err(no(format!("VolumeBindingMode not set for StorageClass {:?}", claim.class.as_str())));
        }
        if class.waits_for_consumer() { Ok(None) } else { Err(no("PersistentVolume had no name".to_owned())) }
    }

    fn after_class(&self, _: &PodInfo, class: Changed<'_, StorageClass>) -> PluginResult<Hint> {
        let helps = class.new.is_some_and(|class| class.waits_for_consumer());
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }

    fn after_claim(&self, pod: &PodInfo, claim: Changed<'_, PersistentVolumeClaim>) -> PluginResult<Hint> {
        let Some(new) = claim.new else { return Ok(Hint::Skip) };
        let names = |name: &Str| *name == new.metadata.name;
        let named = new.metadata.namespace == pod.namespace && claim::named_by(pod).any(names);
        Ok(if named { Hint::Queue } else { Hint::Skip })
    }

    fn after_volume(&self, _: &PodInfo, volume: Changed<'_, PersistentVolume>) -> PluginResult<Hint> {
        let Changed { old: Some(old), new: Some(new) } = volume else { return Ok(Hint::Queue) };
        Ok(if zone_labels_of(old).eq(zone_labels_of(new)) { Hint::Skip } else { Hint::Queue })
    }
}

#[cfg(test)]
mod tests;
