//! Descriptions of the devices that a node lacks, for people.

use std::collections::BTreeMap;

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;

use super::{DynamicResources, demand::Demand};
use crate::devices::claim::{ALL, DeviceRequest};

impl DynamicResources {
    /// Compares the devices that the pod's claims want of each class with those that are free on the node, and returns
    /// the first class that has too few. If none has, the claims rule out devices that are free.
    pub(super) fn shortfall(&self, cx: &Cycle<'_>, demand: &Demand, node: NodeRef<'_>) -> Option<String> {
        let extended = demand.extended_on(cx.pod, node).ok()?;
        let claims = demand.to_allocate(extended.as_deref());
        let requests = claims.iter().flat_map(|claim| &claim.spec.devices.requests);
        let wanted = wanted_of_each_class(requests)?;
        let (_, classes, ..) = self.watched(cx.objects);
        let devices = self.index(cx).ok()?;
        let mut free = Vec::new();
        for (class, wants) in wanted {
            let (all, used) = devices.count_of_class(classes.get("", class)?, self.gates, node);
            let few = format!("{} of {all} devices of class {class} are free", all - used);
            if all - used < wants {
                return Some(format!("wants {wants}, {few}"));
            }
            free.push(few);
        }
        (!free.is_empty()).then(|| format!("{}, but the claims rule some out", free.join(", ")))
    }
}

/// Returns the number of devices that the requests want of each class; `None` if that depends on what there is.
fn wanted_of_each_class<'a>(
    requests: impl Iterator<Item = &'a DeviceRequest>,
) -> Option<BTreeMap<&'a Str, i64>> {
    let mut wanted = BTreeMap::new();
    for request in requests {
        let exactly = request.exactly.as_ref().filter(|exactly| exactly.allocation_mode != *ALL)?;
        // Devices that are accessed as an administrator stay free for others.
        if exactly.admin_access != Some(true) {
            *wanted.entry(&exactly.device_class_name).or_default() += exactly.count.max(1);
        }
    }
    Some(wanted)
}
