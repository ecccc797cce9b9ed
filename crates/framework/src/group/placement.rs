//! PlacementGenerate and PlacementScore: divide the nodes into placements, one of which must hold all members of a
//! group that are placed together (KEP-5732).

use std::sync::Arc;

use harbormaster_api::Str;

use super::{Assignment, GroupView};
use crate::{
    nodeset::NodeSet,
    objects::Objects,
    outcome::{PluginResult, Stop},
    plugin::Plugin,
    pod::PodInfo,
    table::NodeTable,
};

/// Nodes on which a group may be placed, for example the nodes of one rack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupPlacement {
    /// Human-readable name, for example that of the rack.
    pub name: Str,
    /// The nodes.
    pub nodes: NodeSet,
}

/// A member that has a node: it is bound there, or its node is decided.
#[derive(Clone, Debug)]
pub struct ScheduledMember {
    /// The member.
    pub pod: Arc<PodInfo>,
    /// Name of the node, which may not exist.
    pub node: Str,
}

/// View for PlacementGenerate and PlacementScore plugins. No member of [`Self::members`] has a node.
#[derive(Clone, Copy, Debug)]
pub struct GroupCycle<'a> {
    /// The group.
    pub group: GroupView<'a>,
    /// The members to be placed.
    pub members: &'a [Arc<PodInfo>],
    /// The members that have nodes, by name.
    pub scheduled: &'a [ScheduledMember],
    /// All nodes and the pods on them.
    pub nodes: &'a NodeTable,
    /// Objects other than nodes and pods.
    pub objects: &'a Objects,
}

/// A placement that is good enough for a group, and the nodes that the members would get there.
#[derive(Clone, Copy, Debug)]
pub struct ProposedPlacement<'a> {
    /// The placement.
    pub placement: &'a GroupPlacement,
    /// The members that would get nodes.
    pub assignments: &'a [Assignment],
}

/// Divides the nodes into placements. The members of a group are tried in each of them. At most one plugin of a profile
/// is enabled at this point.
pub trait PlacementGenerate: Plugin {
    /// Returns the placements in the order in which they are tried. They may overlap. A group without placements is
    /// rejected.
    ///
    /// # Errors
    /// When the plugin rejects the group or fails.
    fn generate_placements(&self, cx: &GroupCycle<'_>) -> Result<Vec<GroupPlacement>, Stop>;
}

/// Compares the placements in which enough members of a group found nodes.
pub trait PlacementScore: Plugin {
    /// Returns the score of one placement; more is better.
    ///
    /// # Errors
    /// When the plugin fails.
    fn score_placement(&self, cx: &GroupCycle<'_>, proposed: &ProposedPlacement<'_>) -> PluginResult<i64>;

    /// Converts the scores of all placements to 0..=100. By default, they are in this range already.
    ///
    /// # Errors
    /// When the plugin fails.
    fn normalize_placements(&self, cx: &GroupCycle<'_>, scores: &mut [i64]) -> PluginResult<()> {
        let _ = (cx, scores);
        Ok(())
    }
}
