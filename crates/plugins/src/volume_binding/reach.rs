//! From which nodes something can be had.

use std::sync::Arc;

use harbormaster_api::{
    Labels, Str,
    selector::{LabelSelector, ParsedNodeSelector},
};
use harbormaster_framework::prelude::*;

use crate::storage::{CsiNode, PersistentVolume, csi, volume::Migrated};

/// The nodes on which something can be had, by their labels.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reach {
    Everywhere,
    /// A volume's. It is matched against labels alone, as upstream does: what it says of the node's name counts for nothing.
    Affinity(Arc<ParsedNodeSelector>),
    /// A storage capacity's.
    Labels(LabelSelector),
}

impl Reach {
    pub(super) fn of_affinity(affinity: Option<&Arc<ParsedNodeSelector>>) -> Self {
        affinity.map_or(Self::Everywhere, |affinity| Self::Affinity(affinity.clone()))
    }

    pub(super) fn includes(&self, node: &Labels) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Affinity(affinity) => affinity.matches(node, ""),
            Self::Labels(selector) => selector.matches(node),
        }
    }

    /// The label and its values, if nothing else counts.
    pub(super) fn one_label(&self) -> Option<(&Str, &[Str])> {
        match self {
            Self::Affinity(affinity) => affinity.one_label(),
            Self::Labels(selector) if selector.match_expressions.is_empty() => {
                let mut labels = selector.match_labels.iter();
                let (key, value) = labels.next()?;
                labels.next().is_none().then_some((key, std::slice::from_ref(value)))
            }
            Self::Everywhere | Self::Labels(_) => None,
        }
    }
}

/// The nodes from which a volume that a claim has can be used: of in-tree disks that depends on what serves them there.
#[derive(Clone, Debug)]
pub(super) struct VolumeReach {
    reach: Reach,
    migrated: Option<Migrated>,
}

/// What decides whether a volume can be used from a node.
pub(super) enum WhichNodes<'a> {
    /// Nothing: it can.
    All,
    /// Whether this label has one of these values.
    Labelled(&'a Str, &'a [Str]),
    /// More than that.
    Some,
}

impl VolumeReach {
    pub(super) fn of(volume: &PersistentVolume) -> Self {
        let reach = Reach::of_affinity(volume.node_affinity.as_ref());
        Self { reach, migrated: volume.migrated.clone() }
    }

    /// What of a node decides.
    pub(super) fn which_nodes(&self) -> WhichNodes<'_> {
        match (&self.reach, &self.migrated) {
            (Reach::Everywhere, None) => WhichNodes::All,
            (Reach::Everywhere, Some(Migrated { translation: Ok(translation), .. }))
                if translation.node_affinity.is_none() =>
            {
                WhichNodes::All
            }
            (reach, None) => reach
                .one_label()
                .map_or(WhichNodes::Some, |(label, values)| WhichNodes::Labelled(label, values)),
            _ => WhichNodes::Some,
        }
    }

    /// Whether what a node with these labels says of its drivers matters.
    pub(super) fn asks_for_drivers(&self, node: &Labels) -> bool {
        self.migrated.as_ref().is_some_and(|Migrated { translation, .. }| match translation {
            Ok(translation) => {
                let migrated = Reach::of_affinity(translation.node_affinity.as_ref());
                migrated.includes(node) != self.reach.includes(node)
            }
            Err(_) => true,
        })
    }

    /// Whether the volume can be used from a node with these labels and drivers.
    ///
    /// # Errors
    /// When a CSI driver serves it there, but cannot be told which volume it is.
    pub(super) fn includes(&self, node: &Labels, drivers: Option<&Custom<CsiNode>>) -> PluginResult<bool> {
        let is_served = |migrated: &&Migrated| {
            drivers.is_some_and(|drivers| csi::is_migrated(drivers, migrated.migration.plugin))
        };
        match self.migrated.as_ref().filter(is_served) {
            None => Ok(self.reach.includes(node)),
            Some(Migrated { translation: Ok(translation), .. }) => {
                Ok(Reach::of_affinity(translation.node_affinity.as_ref()).includes(node))
            }
            Some(Migrated { translation: Err(why), .. }) => {
                Err(format!("could not translate pv: {why}").into())
            }
        }
    }
}
