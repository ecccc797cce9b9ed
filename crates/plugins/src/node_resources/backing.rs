//! Extended resources that device classes provide (KEP-5004).
//!
//! On nodes that do not offer such a resource themselves, it is left to DynamicResources. A class may come and go, and
//! scores count devices, so answers for pods that request such resources depend on more than the row.

use harbormaster_api::{Resources, Str, features::Feature};
use harbormaster_framework::prelude::*;

use super::lanes::{ResourceColumn, ScoredResource};
use crate::devices::{DeviceClass, DeviceGates, Devices, ResourceClaim, ResourceSlice};

/// Finds out which resources device classes provide.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backing {
    /// `None` if the feature gate `DRAExtendedResource` is off.
    gates: Option<DeviceGates>,
}

/// Devices that provide a scored resource, by row: their number, and the number in use.
pub(super) type DeviceCounts = Vec<(i64, i64)>;

/// Devices that provide scored resources, in the order of the resources. Empty if no device counts.
#[derive(Debug, Default)]
pub struct CountedDevices(Vec<Option<DeviceCounts>>);

impl CountedDevices {
    /// Returns the devices that provide the scored resource with this index.
    pub(super) fn of(&self, resource: usize) -> Option<&DeviceCounts> {
        self.0.get(resource)?.as_ref()
    }
}

impl Backing {
    pub(super) fn new(cx: &BuildCycle) -> Self {
        let is_on = cx.features.enabled(Feature::DRAExtendedResource);
        Self { gates: is_on.then(|| DeviceGates::of(cx.features)) }
    }

    /// Returns true if the feature gate is on.
    pub(super) fn is_on(self) -> bool {
        self.gates.is_some()
    }

    /// Returns the requested resources that device classes provide.
    pub(super) fn backed<P>(self, plugin: &P, cx: &Cycle<'_>, request: &Resources) -> PluginResult<Vec<Str>>
    where
        P: Indexed<Index = Devices>,
    {
        let requested = request.scalars.iter().filter(|(_, amount)| *amount != 0).map(|(name, _)| name);
        if self.gates.is_none() || requested.clone().next().is_none() {
            return Ok(Vec::new());
        }
        let devices = plugin.index(cx)?;
        let is_backed = |name: &&Str| devices.class_of_extended_resource(name).is_some();
        Ok(requested.filter(is_backed).cloned().collect())
    }

    /// If scores count devices, adds everything that the counts depend on to `reads`.
    pub(super) fn read_scored<P>(
        plugin: &P,
        cx: &Cycle<'_>,
        backed: &[Str],
        scored: &[ScoredResource],
        reads: &mut Reads,
    ) -> PluginResult<()>
    where
        P: Indexed<Index = Devices>,
    {
        if scored.iter().any(|resource| is_among(resource, backed)) {
            reads.of(backed).of(&plugin.index(cx)?.version());
        }
        Ok(())
    }

    /// Counts the devices for each scored resource that the pod requests and a device class provides.
    pub(super) fn counts<P>(
        self,
        plugin: &P,
        cx: &RowCycle<'_>,
        scored: &[ScoredResource],
    ) -> PluginResult<CountedDevices>
    where
        P: Indexed<Index = Devices> + Watches<Resources = (ResourceClaim, DeviceClass, ResourceSlice)>,
    {
        let (Some(gates), Some(cx)) = (self.gates, cx.cluster()) else {
            return Ok(CountedDevices::default());
        };
        let backed = self.backed(plugin, &cx, &cx.pod.derived.request)?;
        if !scored.iter().any(|resource| is_among(resource, &backed)) {
            return Ok(CountedDevices::default());
        }
        let (devices, (_, classes, _)) = (plugin.index(&cx)?, plugin.watched(cx.objects));
        let counts = scored.iter().map(|resource| {
            let ResourceColumn::Scalar(name) = &resource.column else { return None };
            let name = backed.iter().find(|backed| *backed == name)?;
            let class = classes.get("", devices.class_of_extended_resource(name)?)?;
            let rows = (0..cx.nodes.rows()).map(NodeIdx::from).map(|row| cx.nodes.node(row));
            Some(rows.map(|node| devices.count_of_class(class, gates, node)).collect())
        });
        Ok(CountedDevices(counts.collect()))
    }
}

fn is_among(resource: &ScoredResource, backed: &[Str]) -> bool {
    matches!(&resource.column, ResourceColumn::Scalar(name) if backed.contains(name))
}
