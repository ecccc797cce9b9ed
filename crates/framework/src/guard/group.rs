//! Calls to the plugin that defines groups.

use harbormaster_api::{Pod, Str, points::ExtensionPoint};

use super::{Call, GuardedPlugin, PointError, Stopped, caught};
use crate::{
    api_call::ApiCall,
    group::{
        Feasibility, GroupCondition, GroupCycle, GroupPlacement, GroupPostFilterCycle, GroupPostFiltered,
        GroupView, PodGroup, ProposedPlacement,
    },
    meter::Stage,
    points::{GroupCalls, Slot},
    resource::{AnyCustom, ResourceName},
};

impl GuardedPlugin {
    /// Kind of the objects that describe groups; `None` if the plugin does not implement [`crate::group::Groups`].
    pub fn group_resource(&self) -> Option<ResourceName> {
        self.calls.groups.as_ref().map(|groups| groups.resource)
    }

    /// See [`crate::group::Groups::group_of`].
    ///
    /// # Errors
    /// When the plugin panics.
    pub fn group_of(&self, pod: &Pod) -> Result<Option<Str>, PointError> {
        self.about_groups(None, |groups| (groups.group_of)(&*self.plugin, pod))
    }

    /// Returns the group that an object describes; see [`crate::group::Groups::describe`]. `None` if the object is of
    /// another kind.
    ///
    /// # Errors
    /// When the plugin panics.
    pub fn describe_group(&self, object: &AnyCustom) -> Result<Option<PodGroup>, PointError> {
        self.about_groups(None, |groups| (groups.describe)(&*self.plugin, object))
    }

    /// See [`crate::group::Groups::feasibility`].
    ///
    /// # Errors
    /// When the plugin panics.
    pub fn group_feasibility(
        &self,
        group: GroupView<'_>,
        remaining: usize,
    ) -> Result<Feasibility, PointError> {
        self.about_groups(Feasibility::Enough, |groups| (groups.feasibility)(&*self.plugin, group, remaining))
    }

    /// See [`crate::group::Groups::record`].
    ///
    /// # Errors
    /// When the plugin panics.
    pub fn record_group(
        &self,
        group: &PodGroup,
        condition: &GroupCondition,
    ) -> Result<Option<ApiCall>, PointError> {
        self.about_groups(None, |groups| (groups.record)(&*self.plugin, group, condition))
    }

    /// See [`crate::group::PodGroupPostFilter`]. `slots` contains the state of each member.
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn group_post_filter(
        &self,
        cx: &mut GroupPostFilterCycle<'_>,
        slots: &[Option<Slot>],
    ) -> Result<GroupPostFiltered, PointError> {
        let no_help = GroupPostFiltered::NoHelp { reasons: Vec::new() };
        let Some(run) = self.calls.shims.group_post_filter else { return Ok(no_help) };
        self.evaluated(Stage::PodGroupPostFilter, || 1);
        self.try_call(Call::Point(ExtensionPoint::PodGroupPostFilter), |this| run(this, cx, slots))
    }

    /// See [`crate::group::PlacementGenerate`].
    ///
    /// # Errors
    /// When the plugin rejects the group or fails.
    pub fn generate_placements(&self, cx: &GroupCycle<'_>) -> Result<Vec<GroupPlacement>, Stopped> {
        let Some(run) = self.calls.shims.generate_placements else { return Ok(Vec::new()) };
        self.ask(Call::Point(ExtensionPoint::PlacementGenerate), |this| run(this, cx))
    }

    /// See [`crate::group::PlacementScore::score_placement`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn score_placement(
        &self,
        cx: &GroupCycle<'_>,
        proposed: &ProposedPlacement<'_>,
    ) -> Result<i64, PointError> {
        let Some(run) = self.calls.shims.score_placement else { return Ok(0) };
        self.try_call(Call::Point(ExtensionPoint::PlacementScore), |this| run(this, cx, proposed))
    }

    /// See [`crate::group::PlacementScore::normalize_placements`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn normalize_placements(&self, cx: &GroupCycle<'_>, scores: &mut [i64]) -> Result<(), PointError> {
        let Some(run) = self.calls.shims.normalize_placements else { return Ok(()) };
        self.try_call(Call::NormalizePlacements, |this| run(this, cx, scores))
    }

    fn about_groups<T>(&self, otherwise: T, run: impl FnOnce(&GroupCalls) -> T) -> Result<T, PointError> {
        let Some(groups) = &self.calls.groups else { return Ok(otherwise) };
        caught(self.name(), Call::Groups, || run(groups))
    }
}
