//! PodGroupPostFilter: looks for a way to place a group for which too few nodes were found.

use std::{borrow::Cow, sync::Arc};

use harbormaster_api::Str;

use super::{GroupId, GroupView, PodGroup};
use crate::{
    api_call::ApiCall,
    cycle::Cycle,
    nodeset::NodeIdx,
    objects::Objects,
    outcome::PluginResult,
    plugin::{Plugin, State},
    pod::PodInfo,
    table::NodeTable,
};

/// Looks for a way to place a group, for example by evictions. Called when a group was rejected.
pub trait PodGroupPostFilter<S: State = ()>: Plugin {
    /// Looks for a way to place the group. `states` contains the state of each of the members' latest attempts, in the
    /// order of [`GroupPostFilterCycle::members`]; `None` if the PreFilter method of this plugin was not called for the
    /// member.
    fn group_post_filter(
        &self,
        cx: &mut GroupPostFilterCycle<'_>,
        states: &[Option<&S>],
    ) -> PluginResult<GroupPostFiltered>;
}

/// View for PodGroupPostFilter plugins.
pub struct GroupPostFilterCycle<'a> {
    /// The group.
    pub group: GroupView<'a>,
    /// The members without nodes. A plugin that calls another one may show it fewer of them.
    pub members: &'a [Arc<PodInfo>],
    /// True if the PreFilter method of this plugin was called for a member in this attempt.
    pub pre_filtered: bool,
    /// Requests to the API server that the plugin wants to make; see
    /// [`PostFilterCycle::calls`](crate::cycle::PostFilterCycle::calls).
    pub calls: &'a mut Vec<ApiCall>,
    /// Dry runs, which show whether the group could be placed without certain other pods.
    pub what_if: &'a mut dyn GroupWhatIf,
}

/// A member and the node that it could have.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The member.
    pub pod: Arc<PodInfo>,
    /// The node.
    pub row: NodeIdx,
}

/// Evaluates changes to the cluster for a group. All changes are undone once the plugin returns.
pub trait GroupWhatIf {
    /// All nodes and the pods on them.
    fn nodes(&self) -> &NodeTable;

    /// Objects other than nodes and pods.
    fn objects(&self) -> &Objects;

    /// Returns the view for an attempt to schedule a member. Its indexes know which pods have been removed.
    fn cycle<'a>(&'a self, pod: &'a PodInfo) -> Cycle<'a>;

    /// Returns a group whose object exists.
    fn group(&self, id: &GroupId) -> Option<&PodGroup>;

    /// Returns the members of a group that are on nodes, in the order of the rows and of the pods on a node.
    fn members_on_nodes(&self, id: &GroupId) -> Vec<(NodeIdx, Arc<PodInfo>)>;

    /// Takes a pod off its node.
    fn remove(&mut self, row: NodeIdx, pod: &Arc<PodInfo>);

    /// Puts back a pod that was removed.
    fn restore(&mut self, row: NodeIdx, pod: &Arc<PodInfo>);

    /// Repeats the cycle of the group with these members. Returns the nodes of those that were placed, or the group's
    /// message if there are too few of them.
    ///
    /// # Errors
    /// When the cycle fails.
    fn place(&mut self, members: &[Arc<PodInfo>]) -> PluginResult<Result<Vec<Assignment>, String>>;

    /// Returns true if the members fit the nodes that are assigned to them, each beside those before it.
    ///
    /// # Errors
    /// When a plugin fails.
    fn fits(&mut self, assignments: &[Assignment]) -> PluginResult<bool>;

    /// Returns true if the last [`Self::place`] has shown that whether a member fits a node depends on that node alone.
    fn is_local(&self) -> bool;
}

/// Result of PodGroupPostFilter.
#[derive(Clone, Debug)]
pub enum GroupPostFiltered {
    /// The group is expected to fit once the `victims` are gone: they are evicted, and their resources are reserved for
    /// the members.
    Nominate {
        /// UID of each member that has a node, with the name of the node.
        nodes: Vec<(Str, Str)>,
        /// Pods to evict; may be empty.
        victims: Vec<Arc<PodInfo>>,
        /// Number of victims whose eviction violates a disruption budget, for measurements.
        violations: usize,
        /// Human-readable additions to the group's message; may be empty.
        reasons: Vec<Cow<'static, str>>,
    },
    /// This plugin found no way to place the group; the next plugin is called.
    NoHelp {
        /// Human-readable reasons; may be empty.
        reasons: Vec<Cow<'static, str>>,
    },
    /// This plugin found no way to place the group, and no other plugin is called.
    Unresolvable {
        /// Human-readable reasons; may be empty.
        reasons: Vec<Cow<'static, str>>,
    },
}
