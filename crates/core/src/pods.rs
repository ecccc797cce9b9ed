//! Every pod that the API server has told of and that is not finished, whoever schedules it.

use std::sync::Arc;

use harbormaster_api::Str;
use harbormaster_framework::pod::PodInfo;
use rustc_hash::FxHashMap;

/// Pods by UID, each as the API server had it last.
#[derive(Debug, Default)]
pub(crate) struct Pods(FxHashMap<Str, Arc<PodInfo>>);

impl Pods {
    /// A pod is new or changed; what it was before.
    pub(crate) fn set(&mut self, pod: Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        self.0.insert(pod.uid.clone(), pod)
    }

    /// A pod is gone or has finished; what it was.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        self.0.remove(uid)
    }

    /// All of them, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.0.values()
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.0.get(uid)
    }
}
