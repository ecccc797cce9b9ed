//! A view of the API server's groups of pods.
//!
//! kube-scheduler tries a rejected group again and again, each time after its backoff, even if nothing has changed. So
//! it is never idle while a group is pending. Instead, the player waits for as long as the longest backoff: a step is
//! over when every pending group has been tried since the last change and its pods have not changed.
//!
//! The number of attempts then depends on timing, and so does the order in which two groups are tried. Therefore, only
//! one group at a time is pending that has enough members, and no other pod is pending meanwhile.
//!
//! If a member of any group is on a node that has been deleted, kube-scheduler 1.37.2 fails to look for pods that other
//! groups could preempt. Therefore, nodes are drained before they are deleted.
//!
//! kube-scheduler tries a gang as soon as it has enough members, and a basic group with its first member. So that the
//! other members are not tried later than these, one member has a scheduling gate, which holds the whole group back,
//! until all members exist.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::paths::{POD_GROUP, path};

/// Number of members of the largest group.
pub(super) const MOST_MEMBERS: usize = 9;

/// Time after which every group has been tried again: the longest backoff, which is a second multiplied by the square
/// root of [`MOST_MEMBERS`], a second by which the queue may round it up, and some time for the attempt.
pub(super) const LONGEST_BACKOFF: Duration = Duration::from_millis(4500);

/// Known groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The groups passed to [`Groups::change`], by path.
    by_path: BTreeMap<String, Value>,
    /// Paths of groups that have been scheduled.
    scheduled: BTreeSet<String>,
}

impl Groups {
    /// Updates a group.
    pub(super) fn change(&mut self, is_deleted: bool, group: Value) {
        if is_deleted {
            self.by_path.remove(&path(&group));
            self.scheduled.remove(&path(&group));
        } else {
            if condition(&group).is_some_and(|condition| condition["status"] == "True") {
                self.scheduled.insert(path(&group));
            }
            self.by_path.insert(path(&group), group);
        }
    }

    /// All groups, in the order of their paths.
    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.by_path.values()
    }

    /// Returns true if the pod is a member of a group that a scheduler does not try yet, because the group does not
    /// exist, or because it has too few members among `pods`, or because one of them has a scheduling gate, or because
    /// the group waits for the end of pods that it has preempted.
    pub(super) fn holds_back<'a>(&self, pod: &Value, pods: impl Iterator<Item = &'a Value> + Clone) -> bool {
        let Some(name) = group_path(pod) else { return false };
        let Some(group) = self.by_path.get(&name) else { return true };
        let is_own = |other: &&Value| group_path(other).as_ref() == Some(&name);
        let members: Vec<&Value> = pods.clone().filter(is_own).collect();
        let needed = group["spec"]["schedulingPolicy"]["gang"]["minCount"].as_u64().unwrap_or(1);
        let is_nominated = |pod: &&Value| pod["status"]["nominatedNodeName"].is_string();
        let is_terminating = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        (members.len() as u64) < needed
            || members.iter().any(|pod| is_gated(pod))
            || members.iter().any(is_nominated) && pods.clone().any(is_terminating)
    }

    /// Describes the condition of the pod's group.
    ///
    /// A group that has been scheduled keeps that condition. kube-scheduler breaks this rule if it tries the remaining
    /// members before it has received its own change of the condition. Whether it does so depends on timing.
    pub(super) fn outcome(&self, pod: &Value) -> String {
        let Some(name) = group_path(pod) else { return String::new() };
        if self.scheduled.contains(&name) {
            return "True Scheduled".to_owned();
        }
        let Some(condition) = self.by_path.get(&name).and_then(condition) else { return String::new() };
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        format!("{} {} {}", text("status"), text("reason"), text("message"))
    }
}

/// The group's condition that tells whether it has been scheduled.
fn condition(group: &Value) -> Option<&Value> {
    let mut conditions = group["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|one| one["type"] == "PodGroupInitiallyScheduled")
}

/// Returns true if the pod is a member of a group.
pub(super) fn is_member(pod: &Value) -> bool {
    group_path(pod).is_some()
}

/// Returns true if the pod has scheduling gates.
pub(super) fn is_gated(pod: &Value) -> bool {
    pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty())
}

/// Path of the pod's group.
fn group_path(pod: &Value) -> Option<String> {
    let name = pod["spec"]["schedulingGroup"]["podGroupName"].as_str()?;
    Some(path(&json!({
        "kind": POD_GROUP,
        "metadata": {"namespace": pod["metadata"]["namespace"], "name": name},
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(min_count: u64, status: &str) -> Value {
        let condition =
            json!({"type": "PodGroupInitiallyScheduled", "status": status, "reason": "R", "message": "m"});
        json!({
            "kind": POD_GROUP, "metadata": {"name": "g"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
            "status": {"conditions": [condition]},
        })
    }

    fn member() -> Value {
        json!({"kind": "Pod", "spec": {"schedulingGroup": {"podGroupName": "g"}}})
    }

    #[test]
    fn a_group_that_was_scheduled_once_stays_so() {
        let mut groups = Groups::default();
        for (status, expected) in
            [("False", "False R m"), ("True", "True Scheduled"), ("False", "True Scheduled")]
        {
            groups.change(false, group(2, status));
            assert_eq!(groups.outcome(&member()), expected);
        }
        groups.change(true, group(2, "False"));
        assert_eq!(groups.outcome(&member()), "");
    }

    #[test]
    fn a_group_is_tried_once_it_exists_and_has_enough_members_without_gates() {
        let mut groups = Groups::default();
        let mut pods = [member(), member()];
        assert!(groups.holds_back(&pods[0], pods.iter()));
        groups.change(false, group(3, "False"));
        assert!(groups.holds_back(&pods[0], pods.iter()));
        groups.change(false, group(2, "False"));
        assert!(!groups.holds_back(&pods[0], pods.iter()));
        pods[1]["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
        assert!(groups.holds_back(&pods[0], pods.iter()));
    }

    #[test]
    fn a_group_is_not_tried_while_its_victims_terminate() {
        let mut groups = Groups::default();
        groups.change(false, group(1, "False"));
        let mut pods = [member(), json!({"kind": "Pod", "metadata": {"deletionTimestamp": "now"}})];
        assert!(!groups.holds_back(&pods[0], pods.iter()));
        pods[0]["status"]["nominatedNodeName"] = "n".into();
        assert!(groups.holds_back(&pods[0], pods.iter()));
    }
}
