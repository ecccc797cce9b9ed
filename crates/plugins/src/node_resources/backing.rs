//! Extended resources that device classes provide (KEP-5004).
//!
//! On nodes that do not offer such a resource themselves, it is left to DynamicResources. A class may come and go, and
//! scores count devices, so answers for pods that request such resources depend on more than the row.

use harbormaster_api::{Resources, Str, features::Feature};
use harbormaster_framework::{prelude::*, row_log::RowLog};

use super::lanes::{ResourceColumn, ScoredResource};
use crate::devices::{DeviceClass, DeviceGates, Devices, ResourceClaim, ResourceSlice};

/// Finds out which resources device classes provide.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backing {
    /// `None` if the feature gate `DRAExtendedResource` is off.
    gates: Option<DeviceGates>,
}

/// The devices of a class that provides a scored resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassDevices<'a> {
    devices: &'a Devices,
    class: &'a DeviceClass,
    gates: DeviceGates,
}

impl ClassDevices<'_> {
    /// Returns the number of devices that a node can reach, and how many of them are in use.
    pub(super) fn on(&self, node: NodeRef<'_>) -> (i64, i64) {
        self.devices.count_of_class(self.class, self.gates, node)
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

    /// If scores count devices, adds the provided resources to `reads`.
    pub(super) fn read_scored(backed: &[Str], scored: &[ScoredResource], reads: &mut Reads) {
        if scored.iter().any(|resource| is_among(resource, backed)) {
            reads.of(backed);
        }
    }

    /// Returns the log of the rows whose devices have changed, if scores count devices.
    pub(super) fn changed_rows<'a, P>(
        self,
        plugin: &P,
        cx: &Cycle<'a>,
        scored: &[ScoredResource],
    ) -> PluginResult<Option<&'a RowLog>>
    where
        P: Indexed<Index = Devices>,
    {
        let backed = self.backed(plugin, cx, &cx.pod.derived.request)?;
        let counts = scored.iter().any(|resource| is_among(resource, &backed));
        Ok(if counts { Some(plugin.index(cx)?.changed_rows()) } else { None })
    }

    /// Returns the devices for each scored resource that the pod requests and a device class provides, in the order of
    /// the resources; empty if no device counts.
    pub(super) fn devices<'a, P>(
        self,
        plugin: &P,
        cx: &RowCycle<'a>,
        scored: &[ScoredResource],
    ) -> PluginResult<Vec<Option<ClassDevices<'a>>>>
    where
        P: Indexed<Index = Devices> + Watches<Resources = (ResourceClaim, DeviceClass, ResourceSlice)>,
    {
        let (Some(gates), Some(cx)) = (self.gates, cx.cluster()) else { return Ok(Vec::new()) };
        let backed = self.backed(plugin, &cx, &cx.pod.derived.request)?;
        if !scored.iter().any(|resource| is_among(resource, &backed)) {
            return Ok(Vec::new());
        }
        let (devices, (_, classes, _)) = (plugin.index(&cx)?, plugin.watched(cx.objects));
        let of_class = |resource: &ScoredResource| {
            let ResourceColumn::Scalar(name) = &resource.column else { return None };
            let name = backed.iter().find(|backed| *backed == name)?;
            let class = classes.get("", devices.class_of_extended_resource(name)?)?;
            Some(ClassDevices { devices, class, gates })
        };
        Ok(scored.iter().map(of_class).collect())
    }
}

fn is_among(resource: &ScoredResource, backed: &[Str]) -> bool {
    matches!(&resource.column, ResourceColumn::Scalar(name) if backed.contains(name))
}

#[cfg(test)]
#[path = "backing_tests.rs"]
mod tests;
