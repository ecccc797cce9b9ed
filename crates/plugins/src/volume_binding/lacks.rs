//! Descriptions of what keeps a pod's claims off a node, for people.

use std::fmt::Write as _;

use harbormaster_api::{Labels, Str};
use harbormaster_framework::prelude::*;

use super::{
    Supply, VolumeBinding,
    claims::{Claims, DelayedClaim},
    on_node::NodeProblem,
    reach::{AccessCondition, VolumeReach},
};
use crate::storage::claim;

impl VolumeBinding {
    /// Returns the first volume of the pod that the node cannot access, or the first claim that would get none there.
    pub(super) fn shortfall(&self, cx: &Cycle<'_>, claims: &Claims, node: NodeRef<'_>) -> Option<String> {
        let labels = node.labels().cloned().unwrap_or_default();
        self.far_volume(cx, node, &labels).or_else(|| {
            let supply: &Supply = self.index(cx).ok()?;
            claims.delayed.iter().find_map(|delayed| delayed.shortfall(supply, node.name(), &labels))
        })
    }

    fn far_volume(&self, cx: &Cycle<'_>, node: NodeRef<'_>, labels: &Labels) -> Option<String> {
        let objects = self.volume_objects(cx);
        let drivers = self.csi_nodes(cx).get("", node.name());
        claim::claimed_by(cx.pod).find_map(|claimed| {
            let name = &objects.claims.get(&cx.pod.namespace, &claimed.name)?.volume_name;
            let reach = VolumeReach::of(objects.volumes.get("", name)?);
            if reach.includes(labels, drivers).ok()? {
                return None;
            }
            let mut text = format!("volume {name} of claim {}", claimed.name);
            match reach.access_condition() {
                AccessCondition::Label(key, values) => {
                    let values: Vec<&str> = values.iter().map(Str::as_str).collect();
                    let _ = write!(text, " is where {key} is {}", values.join(" or "));
                }
                AccessCondition::Always | AccessCondition::Other => text += " is elsewhere",
            }
            Some(text)
        })
    }
}

impl DelayedClaim {
    fn shortfall(&self, supply: &Supply, node: &str, labels: &Labels) -> Option<String> {
        let (claim, class) = (&self.claim.name, &self.demand.class);
        match &self.selected_node {
            Some(selected) if *selected != node => {
                return Some(format!("claim {claim} gets its volume on node {selected}"));
            }
            None if self.volume(supply, labels, &[]).is_some() => return None,
            _ => {}
        }
        if let Some((volume, _)) = &self.set_aside {
            return Some(format!("volume {} is set aside for claim {claim} and is elsewhere", volume.name));
        }
        Some(match self.capacity(supply, labels).err()? {
            NodeProblem::Capacity => format!("class {class} has too little storage left for claim {claim}"),
            _ if class.is_empty() => format!("no free volume without a class suits claim {claim}"),
            _ if self.provision.class.is_provisioned() => {
                format!("class {class} provides no volume here for claim {claim}")
            }
            _ => format!("no free volume of class {class} suits claim {claim}"),
        })
    }
}
