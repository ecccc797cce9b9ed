//! Groups of pods: the groups of the pending pods, and the reasons why members have not been tried.

use harbormaster_api::Str;
use harbormaster_framework::{group::GroupId, profile::Profile};

use super::SimulatedCluster;
use crate::{report::Status, verdict::pre_enqueue};

impl SimulatedCluster<'_> {
    /// Records the groups of the pending pods.
    pub(super) fn note_groups(&mut self) {
        let queue = self.engine.queue();
        for (uid, report) in &mut self.reports {
            let group = queue.get(uid).and_then(|entry| entry.pod.group());
            report.group = group.map(ToString::to_string);
        }
    }

    /// Returns `namespace/name` of the pod or the group with this UID.
    pub(super) fn name_of_preemptor(&self, uid: &Str) -> Option<String> {
        let pod = self.objects.get(uid).map(|pod| format!("{}/{}", pod.namespace, pod.name));
        pod.or_else(|| self.engine.cache().at(self.now).groups.by_uid(uid).map(|group| group.id.to_string()))
    }

    /// Records why members of groups that were never tried are held back.
    pub(super) fn explain_untried_members(&mut self) {
        let (queue, moment) = (self.engine.queue(), self.engine.cache().at(self.now));
        let untried = self.reports.iter_mut().filter(|(_, report)| {
            report.attempts == 0 && report.group.is_some() && report.pre_enqueue.is_none()
        });
        for (uid, report) in untried {
            let Some(entry) = queue.get(uid) else { continue };
            let Some(id) = entry.pod.group() else { continue };
            let profile = &self.profiles[entry.profile];
            let status = match moment.groups.view(id) {
                Some(group) => pre_enqueue(profile, moment.objects, &entry.pod, Some(group))
                    .or_else(|| Some(held_by(id, queue.entity_of(uid)?.gated_by?))),
                None => Some(without_object(id, profile)),
            };
            report.message = status.as_ref().map(Status::text);
            report.pre_enqueue = status;
        }
    }
}

/// Verdict on a member whose group does not exist.
fn without_object(id: &GroupId, profile: &Profile) -> Status {
    let plugin = profile.grouping().map(|plugin| plugin.name()).unwrap_or_default();
    held_back(plugin, format!("waiting for PodGroup {id}, which does not exist"))
}

/// Verdict on a member that waits because a plugin holds another member of its group back.
fn held_by(id: &GroupId, plugin: &'static str) -> Status {
    held_back(plugin, format!("waiting for another member of PodGroup {id}"))
}

fn held_back(plugin: &'static str, why: String) -> Status {
    let code = harbormaster_framework::outcome::Fix::NothingHelps.code();
    Status { plugin: plugin.into(), code: code.into(), reasons: vec![why.into()] }
}
