//! Calls to the plugin that defines groups.

use harbormaster_api::{Pod, Str, points::ExtensionPoint};

use super::{Call, GuardedPlugin, PointError, caught};
use crate::{
    api_call::ApiCall,
    group::{Feasibility, GroupCondition, GroupPostFilterCycle, GroupPostFiltered, GroupView, PodGroup},
    meter::Stage,
    points::GroupCalls,
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

    /// See [`crate::group::PodGroupPostFilter`].
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn group_post_filter(
        &self,
        cx: &mut GroupPostFilterCycle<'_>,
    ) -> Result<GroupPostFiltered, PointError> {
        let no_help = GroupPostFiltered::NoHelp { reasons: Vec::new() };
        let Some(run) = self.calls.shims.group_post_filter else { return Ok(no_help) };
        self.evaluated(Stage::PodGroupPostFilter, || 1);
        self.try_call(Call::Point(ExtensionPoint::PodGroupPostFilter), |this| run(this, cx))
    }

    fn about_groups<T>(&self, otherwise: T, run: impl FnOnce(&GroupCalls) -> T) -> Result<T, PointError> {
        let Some(groups) = &self.calls.groups else { return Ok(otherwise) };
        caught(self.name(), Call::Groups, || run(groups))
    }
}
