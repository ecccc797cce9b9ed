//! Verdicts of single plugins, outside an attempt.

use harbormaster_api::points::ExtensionPoint;
use harbormaster_framework::{
    cycle::EnqueueCycle, group::GroupView, guard::Stopped, objects::Objects, pod::PodInfo, profile::Profile,
};

use crate::report::Status;

/// Returns the rejection by the first PreEnqueue plugin that holds the pod back. `group` is the pod's group, if it has
/// one.
pub(crate) fn pre_enqueue(
    profile: &Profile,
    objects: &Objects,
    pod: &PodInfo,
    group: Option<GroupView<'_>>,
) -> Option<Status> {
    profile.at(ExtensionPoint::PreEnqueue).iter().find_map(|plugin| {
        let plugin = profile.plugin(*plugin);
        match plugin.pre_enqueue(EnqueueCycle { group, ..EnqueueCycle::new(pod, objects) }) {
            Ok(()) => None,
            Err(Stopped::Reject(plugin, reject)) => Some(Status::new(Some(plugin), reject)),
            Err(Stopped::Error(error)) => Some(Status {
                plugin: plugin.name().into(),
                code: "Error".into(),
                reasons: vec![error.to_string().into()],
            }),
        }
    })
}
