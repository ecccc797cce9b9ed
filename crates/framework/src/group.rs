//! Groups of pods that are placed together: a scheduling cycle gives nodes to enough members of a group, or to none
//! (KEP-4671).
//!
//! Groups come from a plugin that implements [`Groups`]: it knows to which group a pod belongs, and reads the object that
//! describes the group. The engine does the rest: it queues the members of a group as one element, decides about all of
//! them in one cycle, and undoes what it has decided if too few members find nodes.

mod placement;
mod post_filter;

use std::{fmt, ops::Deref};

use harbormaster_api::{Pod, Str, Timestamp};

use crate::{
    api_call::ApiCall,
    plugin::Plugin,
    resource::{Custom, Resource},
};

pub use placement::{
    GroupCycle, GroupPlacement, PlacementGenerate, PlacementScore, ProposedPlacement, ScheduledMember,
};
pub use post_filter::{Assignment, GroupPostFilterCycle, GroupPostFiltered, GroupWhatIf, PodGroupPostFilter};

/// Namespace and name of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId {
    /// Namespace of the group and of its members.
    pub namespace: Str,
    /// Name of the group.
    pub name: Str,
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Number of members that must have nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupPolicy {
    /// Any number will do: the members share a cycle, and nothing else.
    #[default]
    Basic,
    /// At least `min_count` members must have nodes, or none gets one.
    Gang {
        /// Number of members; at least 1.
        min_count: usize,
    },
}

/// Treatment of a group in preemption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disruption {
    /// Members are evicted one by one.
    #[default]
    Single,
    /// All members are evicted if one is.
    All,
}

/// Description of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupSpec {
    /// Number of members that must have nodes.
    pub policy: GroupPolicy,
    /// Priority of all members; `None` if each member has its own.
    pub priority: Option<i32>,
    /// Whether the group may preempt no other pods; `None` if its members decide.
    pub never_preempts: Option<bool>,
    /// Treatment of the group as a victim.
    pub disruption: Disruption,
    /// Key of the node label whose value must be the same for all members; `None` if the members may be anywhere.
    pub topology_key: Option<Str>,
    /// The condition that the group's object has; `None` if it has none.
    pub condition: Option<GroupCondition>,
}

impl GroupSpec {
    /// Number of members that must have nodes; 1 without a gang.
    pub fn min_count(&self) -> usize {
        match self.policy {
            GroupPolicy::Basic => 1,
            GroupPolicy::Gang { min_count } => min_count,
        }
    }

    /// Returns true if a minimum number of members must have nodes.
    pub fn is_gang(&self) -> bool {
        matches!(self.policy, GroupPolicy::Gang { .. })
    }
}

/// A group of pods. Derefs to its [`GroupSpec`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroup {
    /// Namespace and name.
    pub id: GroupId,
    /// UID of the object.
    pub uid: Str,
    /// `metadata.generation` of the object.
    pub generation: i64,
    /// Description.
    pub spec: GroupSpec,
}

impl Deref for PodGroup {
    type Target = GroupSpec;
    fn deref(&self) -> &GroupSpec {
        &self.spec
    }
}

/// Condition that tells whether a group has been scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCondition {
    /// True once the group has been scheduled.
    pub is_scheduled: bool,
    /// `Scheduled`, `Unschedulable` or `SchedulerError`.
    pub reason: Str,
    /// Human-readable message.
    pub message: String,
    /// Generation of the object that the condition is about.
    pub observed_generation: i64,
    /// Time at which [`Self::is_scheduled`] last changed.
    pub last_transition: Timestamp,
}

/// A group, and the number of its members.
#[derive(Clone, Copy, Debug)]
pub struct GroupView<'a> {
    /// The group.
    pub group: &'a PodGroup,
    /// Number of unfinished members, with and without nodes.
    pub pods: usize,
    /// Number of members that have nodes: those that are bound, and those whose nodes are decided.
    pub scheduled: usize,
}

impl Deref for GroupView<'_> {
    type Target = PodGroup;
    fn deref(&self) -> &PodGroup {
        self.group
    }
}

/// Answer to the question whether the members that have nodes are enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Feasibility {
    /// They are enough.
    Enough,
    /// More members must find nodes, for this reason.
    NotYet(String),
    /// They would not be enough even if all remaining members found nodes, for this reason.
    Never(String),
}

/// Defines groups of pods. At most one plugin of a profile implements this trait; it must be enabled at some point.
pub trait Groups: Plugin {
    /// Kind of the objects that describe groups. The scheduler watches it.
    type Object: Resource;

    /// Returns the name of the pod's group, which is in the pod's namespace. `None` if the pod is on its own. The answer
    /// for a pod must never change.
    fn group_of(&self, pod: &Pod) -> Option<Str>;

    /// Returns the description of a group.
    fn describe(&self, object: &Custom<Self::Object>) -> GroupSpec;

    /// Decides whether the members that have nodes are enough. `remaining` members have not been tried.
    fn feasibility(&self, group: GroupView<'_>, remaining: usize) -> Feasibility {
        let (min_count, scheduled) = (group.min_count(), group.scheduled);
        let counts = format!("{scheduled} scheduled, {remaining} remaining");
        if scheduled >= min_count {
            Feasibility::Enough
        } else if scheduled + remaining < min_count {
            Feasibility::Never(format!("minCount ({min_count}) cannot be satisfied: {counts}"))
        } else {
            Feasibility::NotYet(format!("minCount ({min_count}) is not yet satisfied: {counts}"))
        }
    }

    /// Returns the request that records a new condition in the group's object, if the object has conditions.
    fn record(&self, group: &PodGroup, condition: &GroupCondition) -> Option<ApiCall> {
        let _ = (group, condition);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{implemented_points, resource::ResourceScope};

    #[derive(serde::Deserialize)]
    struct Team {}

    impl Resource for Team {
        const GROUP: &'static str = "example.com";
        const VERSION: &'static str = "v1";
        const KIND: &'static str = "Team";
        const PLURAL: &'static str = "teams";
        const SCOPE: ResourceScope = ResourceScope::Namespaced;
    }

    struct Teams;

    impl Plugin for Teams {
        const NAME: &'static str = "Teams";
        implemented_points!();
    }

    impl Groups for Teams {
        type Object = Team;

        fn group_of(&self, pod: &Pod) -> Option<Str> {
            pod.spec.pod_group.clone()
        }

        fn describe(&self, _: &Custom<Team>) -> GroupSpec {
            GroupSpec::default()
        }
    }

    fn answer(policy: GroupPolicy, scheduled: usize, remaining: usize) -> Feasibility {
        let id = GroupId { namespace: "default".into(), name: "g".into() };
        let spec = GroupSpec { policy, ..GroupSpec::default() };
        let group = PodGroup { id, uid: "u".into(), generation: 1, spec };
        Teams.feasibility(GroupView { group: &group, pods: 4, scheduled }, remaining)
    }

    #[test]
    fn a_gang_needs_its_minimum_and_a_basic_group_one_member() {
        let gang = GroupPolicy::Gang { min_count: 3 };
        assert_eq!(answer(gang, 3, 0), Feasibility::Enough);
        let not_yet = "minCount (3) is not yet satisfied: 1 scheduled, 2 remaining";
        assert_eq!(answer(gang, 1, 2), Feasibility::NotYet(not_yet.to_owned()));
        let never = "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining";
        assert_eq!(answer(gang, 1, 1), Feasibility::Never(never.to_owned()));
        assert_eq!(answer(GroupPolicy::Basic, 1, 5), Feasibility::Enough);
        let none = "minCount (1) cannot be satisfied: 0 scheduled, 0 remaining";
        assert_eq!(answer(GroupPolicy::Basic, 0, 0), Feasibility::Never(none.to_owned()));
    }
}
