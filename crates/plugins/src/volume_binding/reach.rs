//! The nodes from which storage is accessible.

use std::sync::Arc;

use harbormaster_api::{
    Labels, Str,
    selector::{LabelSelector, ParsedNodeSelector},
};
use harbormaster_framework::prelude::*;

use crate::storage::{CsiNode, PersistentVolume, csi, volume::Migrated};

/// A set of nodes, determined by their labels.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reach {
    Everywhere,
    /// Node affinity of a volume. As in upstream, only labels are matched: requirements on the node's name are
    /// ignored.
    Affinity(Arc<ParsedNodeSelector>),
    /// Topology of a storage capacity.
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

    /// Returns the label and its values, if only one label matters.
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

/// The nodes with access to a claim's volume. For an in-tree disk, access depends on the driver that serves the disk
/// on the node.
#[derive(Clone, Debug)]
pub(super) struct VolumeReach {
    reach: Reach,
    migrated: Option<Migrated>,
}

/// Condition for access to a volume.
pub(super) enum AccessCondition<'a> {
    /// No condition: every node has access.
    Always,
    /// A label must have one of these values.
    Label(&'a Str, &'a [Str]),
    /// Any other condition.
    Other,
}

impl VolumeReach {
    pub(super) fn of(volume: &PersistentVolume) -> Self {
        let reach = Reach::of_affinity(volume.node_affinity.as_ref());
        Self { reach, migrated: volume.migrated.clone() }
    }

    /// Returns the condition for access.
    pub(super) fn access_condition(&self) -> AccessCondition<'_> {
        match (&self.reach, &self.migrated) {
            (Reach::Everywhere, None) => AccessCondition::Always,
            (Reach::Everywhere, Some(Migrated { translation: Ok(translation), .. }))
                if translation.node_affinity.is_none() =>
            {
                AccessCondition::Always
            }
            (reach, None) => reach
                .one_label()
                .map_or(AccessCondition::Other, |(label, values)| AccessCondition::Label(label, values)),
            _ => AccessCondition::Other,
        }
    }

    /// Returns true if access from a node with these labels depends on the node's drivers.
    pub(super) fn depends_on_drivers(&self, node: &Labels) -> bool {
        self.migrated.as_ref().is_some_and(|Migrated { translation, .. }| match translation {
            Ok(translation) => {
                let migrated = Reach::of_affinity(translation.node_affinity.as_ref());
                migrated.includes(node) != self.reach.includes(node)
            }
            Err(_) => true,
        })
    }

    /// Returns true if a node with these labels and drivers has access to the volume.
    ///
    /// # Errors
    /// If a CSI driver serves the volume on the node, but the volume cannot be translated.
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
