//! Every unfinished pod in the API server, whichever scheduler it names.

use std::sync::Arc;

use harbormaster_api::Str;
use harbormaster_framework::pod::PodInfo;
use rustc_hash::FxHashMap;

/// The latest version of each pod, keyed by UID.
#[derive(Debug, Default)]
pub(crate) struct Pods(FxHashMap<Str, Arc<PodInfo>>);

impl Pods {
    /// Adds or replaces a pod. Returns the old version.
    pub(crate) fn set(&mut self, pod: Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        self.0.insert(pod.uid.clone(), pod)
    }

    /// Removes a deleted or finished pod. Returns its last version.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        self.0.remove(uid)
    }

    /// All pods in no particular order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.0.values()
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.0.get(uid)
    }
}
