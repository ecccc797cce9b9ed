//! VolumeZone: pods go where the zones of their volumes are.
//!
//! # What it does
//! PreFilter, Filter. PreFilter collects the zone and region labels of the volumes that the pod's claims are bound to;
//! Filter compares them with the node's. Only claims that the pod names (`persistentVolumeClaim`) are looked at.
//!
//! # Rejects when
//! PreFilter, for all nodes:
//! - a claim, its class or its volume does not exist: `persistentvolumeclaim "x" not found` and the like;
//! - a claim has no volume, and no class that waits for a pod: `PersistentVolumeClaim had no pv name and storageClass
//!   name`, `VolumeBindingMode not set for StorageClass "x"`, `PersistentVolume had no name`;
//! - a claim has no name: `PersistentVolumeClaim had no name`.
//!
//! Filter: `node(s) had no available volume zone`, if some label of a volume has no counterpart on the node, or one with
//! another value. A label may list several values, `a__b`. A beta label of a volume is content with the node's stable one,
//! but not the other way round. A node without any such label takes every volume.
//!
//! No eviction resolves any of it.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! A new node, or one with other labels; a new class that waits for pods; a claim of the pod that appears or changes; a
//! new volume, or one whose zones change.
//!
//! # Differs from kube-scheduler
//! Without its PreFilter it lets every node pass instead of collecting zones for each of them. The signature has the
//! namespace, and pods with ephemeral volumes have none.

use harbormaster_api::{
    Str,
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
/// Between several values of one label.
const VALUES: &str = "__";

/// A label that counts, and the one of a node that stands in for it.
const LABELS: [(&str, &str); 4] = [
    (LABEL_ZONE_BETA, LABEL_ZONE),
    (LABEL_REGION_BETA, LABEL_REGION),
    (LABEL_ZONE, LABEL_ZONE),
    (LABEL_REGION, LABEL_REGION),
];

/// See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct VolumeZone;

/// A label of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    key: &'static str,
    stand_in: &'static str,
    /// Sorted, none twice.
    values: Vec<Str>,
}

impl Plugin for VolumeZone {
    const NAME: &'static str = "VolumeZone";
    type FilterState = Vec<Place>;
    type ScoreState = ();

    fn points(points: &mut Points<Self>) {
        points
            .pre_filter()
            .filter()
            .indexed()
            .resource::<PersistentVolumeClaim>()
            .resource::<PersistentVolume>()
            .resource::<StorageClass>();
    }

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

impl Build for VolumeZone {
    type Args = NoArgs;
    fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self)
    }
}

impl Indexed for VolumeZone {
    type Index = Supply;
}

/// The rows with some label that counts.
fn labelled(rows: &RowsByLabel) -> NodeSet {
    let mut all = NodeSet::default();
    LABELS.iter().filter_map(|(key, _)| rows.having(key)).for_each(|rows| all.unite(rows));
    all
}

/// The rows that are in such a place.
fn within(rows: &RowsByLabel, place: &Place) -> NodeSet {
    let mut all = rows.with(place.stand_in, &place.values);
    if place.key != place.stand_in {
        // The label itself counts where there is one.
        rows.having(place.key).into_iter().for_each(|own| all.subtract(own));
        all.unite(&rows.with(place.key, &place.values));
    }
    all
}

impl PreFilter for VolumeZone {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<Vec<Place>>, Stop> {
        let mut places = Vec::new();
        for name in claim::named_by(cx.pod) {
            if let Some(volume) = volume_of(cx, name)? {
                places.extend(places_of(volume));
            }
        }
        Ok(if places.is_empty() { PreFiltered::Skip } else { PreFiltered::state(places) })
    }
}

/// The volume of a claim; `None` if it gets one when the pod has a node.
fn volume_of<'a>(cx: &Cycle<'a>, name: &Str) -> Result<Option<&'a Custom<PersistentVolume>>, Stop> {
    let no = |reason: String| Stop::from(Reject::unresolvable(reason));
    if name.is_empty() {
        return Err(no("PersistentVolumeClaim had no name".to_owned()));
    }
    let claim = cx.objects.get::<PersistentVolumeClaim>(&cx.pod.namespace, name)?;
    let claim = claim.ok_or_else(|| no(claim::not_found(name)))?;
    if !claim.volume_name.is_empty() {
        let volume = cx.objects.get::<PersistentVolume>("", &claim.volume_name)?;
        return volume.map(Some).ok_or_else(|| no(volume::not_found(&claim.volume_name)));
    }
    if claim.class.is_empty() {
        return Err(no("PersistentVolumeClaim had no pv name and storageClass name".to_owned()));
    }
    let class = cx.objects.get::<StorageClass>("", &claim.class)?;
    let class = class.ok_or_else(|| no(class::not_found(&claim.class)))?;
    if class.volume_binding_mode.is_none() {
        return Err(no(format!("VolumeBindingMode not set for StorageClass {:?}", claim.class.as_str())));
    }
    if class.waits_for_consumer() { Ok(None) } else { Err(no("PersistentVolume had no name".to_owned())) }
}

/// The labels of a volume that count. One with an empty value among its values does not.
fn places_of(volume: &Custom<PersistentVolume>) -> impl Iterator<Item = Place> + '_ {
    LABELS.into_iter().filter_map(|(key, stand_in)| {
        let value = volume.metadata.labels.get(key)?;
        let mut values: Vec<Str> = value.split(VALUES).map(|value| value.trim().into()).collect();
        if values.iter().any(|value| value.is_empty()) {
            return None;
        }
        values.sort_unstable();
        values.dedup();
        Some(Place { key, stand_in, values })
    })
}

impl Filter for VolumeZone {
    fn filter(&self, _: &Cycle<'_>, places: &Vec<Place>, node: NodeRef<'_>) -> Verdict {
        let Some(labels) = node.labels() else { return Ok(()) };
        if LABELS.iter().all(|(key, _)| labels.get(key).is_none()) {
            return Ok(());
        }
        let is_in = |place: &Place| {
            let value = labels.get(place.key).or_else(|| labels.get(place.stand_in));
            value.is_some_and(|value| place.values.contains(value))
        };
        if places.iter().all(is_in) { Ok(()) } else { Err(Reject::unresolvable(REASON).into()) }
    }

    fn filter_batch(&self, cx: &Cycle<'_>, places: &Vec<Place>, sweep: &mut Sweep<'_>) -> PluginResult<()> {
        let rows = cx.index::<Supply>()?.rows();
        let labelled = labelled(rows);
        // Nodes without any of the labels take every volume.
        let mut fitting = sweep.rows().clone();
        fitting.subtract(&labelled);
        let mut inside = labelled;
        places.iter().for_each(|place| inside.intersect(&within(rows, place)));
        fitting.unite(&inside);
        sweep.reject_all_but(&fitting, &Reject::unresolvable(REASON));
        Ok(())
    }
}

impl VolumeZone {
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
        Ok(if places_of(old).eq(places_of(new)) { Hint::Skip } else { Hint::Queue })
    }
}

#[cfg(test)]
mod tests;
