//! Patches that have not been written yet, at most one waiting per pod.

use std::collections::{VecDeque, hash_map::Entry};

use harbormaster_api::Str;
use harbormaster_core::StatusPatch;
use rustc_hash::{FxHashMap, FxHashSet};

/// A queue with at most one patch per pod.
#[derive(Default)]
pub(super) struct PatchQueue {
    patches: FxHashMap<Str, StatusPatch>,
    /// Pods in `patches` for which no patch is being written.
    order: VecDeque<Str>,
    /// Pods with a patch that is being written.
    writing: FxHashSet<Str>,
}

impl PatchQueue {
    /// Adds a patch. Returns true if it was merged with an earlier patch for the same pod.
    pub(super) fn add(&mut self, patch: StatusPatch) -> bool {
        match self.patches.entry(patch.pod.uid.clone()) {
            Entry::Occupied(mut waiting) => {
                let earlier = waiting.insert(patch);
                let merged = waiting.get_mut();
                merged.condition = merged.condition.take().or(earlier.condition);
                merged.nominated_node = merged.nominated_node.take().or(earlier.nominated_node);
                true
            }
            Entry::Vacant(place) => {
                if !self.writing.contains(place.key()) {
                    self.order.push_back(place.key().clone());
                }
                place.insert(patch);
                false
            }
        }
    }

    /// Returns the number of patches, including those being written.
    pub(super) fn len(&self) -> usize {
        self.patches.len() + self.writing.len()
    }

    /// Returns true if [`Self::next`] will return a patch.
    pub(super) fn has_next(&self) -> bool {
        !self.order.is_empty()
    }

    /// Returns a patch to write. The caller must then call [`Self::written`] for its pod.
    pub(super) fn next(&mut self) -> Option<StatusPatch> {
        let uid = self.order.pop_front()?;
        let patch = self.patches.remove(&uid)?;
        self.writing.insert(uid);
        Some(patch)
    }

    /// Marks the patch for the pod `uid` as written.
    pub(super) fn written(&mut self, uid: &Str) {
        self.writing.remove(uid);
        if self.patches.contains_key(uid) {
            self.order.push_back(uid.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use harbormaster_api::Timestamp;
    use harbormaster_core::Condition;
    use harbormaster_framework::pod::PodInfo;
    use harbormaster_testkit::pod;

    use super::*;

    fn patch(pod: &Arc<PodInfo>, message: &str, node: Option<&str>) -> StatusPatch {
        let condition = (!message.is_empty()).then(|| Condition {
            reason: "Unschedulable",
            message: message.to_owned(),
            last_transition: Timestamp::from_secs(1),
        });
        StatusPatch { pod: pod.clone(), condition, nominated_node: node.map(|node| Some(node.into())) }
    }

    fn content(patch: Option<StatusPatch>) -> (String, Option<Option<Str>>) {
        let patch = patch.unwrap();
        (patch.condition.map(|condition| condition.message).unwrap_or_default(), patch.nominated_node)
    }

    #[test]
    fn patches_of_one_pod_are_merged_and_the_newest_wins() {
        let (mut waiting, a) = (PatchQueue::default(), pod("a").info());
        assert!(!waiting.add(patch(&a, "first", Some("n1"))));
        assert!(waiting.add(patch(&a, "second", None)));
        assert!(waiting.add(patch(&a, "", Some("n2"))));
        assert_eq!(content(waiting.next()), ("second".to_owned(), Some(Some("n2".into()))));
        assert!(!waiting.has_next());
    }

    #[test]
    fn one_patch_per_pod_is_written_at_a_time_and_other_pods_do_not_wait_for_it() {
        let (mut waiting, a, b) = (PatchQueue::default(), pod("a").info(), pod("b").info());
        waiting.add(patch(&a, "a1", None));
        assert_eq!(content(waiting.next()).0, "a1");
        waiting.add(patch(&a, "a2", None));
        waiting.add(patch(&b, "b1", None));
        assert_eq!(waiting.len(), 3);
        assert_eq!(content(waiting.next()).0, "b1");
        assert!(waiting.next().is_none());
        waiting.written(&a.uid);
        assert_eq!(content(waiting.next()).0, "a2");
        waiting.written(&a.uid);
        waiting.written(&b.uid);
        assert!(waiting.len() == 0 && waiting.order.is_empty());
    }
}
