//! Every unfinished pod in the API server, whichever scheduler it names.

use std::sync::Arc;

use harbormaster_api::Str;
use harbormaster_framework::pod::PodInfo;
use rustc_hash::{FxHashMap, FxHashSet};

/// The latest version of each pod, keyed by UID.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    all: FxHashMap<Str, Arc<PodInfo>>,
    /// UIDs of the pods without a node.
    without_node: FxHashSet<Str>,
}

impl Pods {
    /// Adds or replaces a pod. Returns the old version.
    pub(crate) fn set(&mut self, pod: Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        let (uid, has_node) = (pod.uid.clone(), pod.node_name.is_some());
        let old = self.all.insert(uid.clone(), pod);
        let had_node = old.as_ref().is_none_or(|old| old.node_name.is_some());
        if had_node && !has_node {
            self.without_node.insert(uid);
        } else if !had_node && has_node {
            self.without_node.remove(&uid);
        }
        old
    }

    /// Removes a deleted or finished pod. Returns its last version.
    pub(crate) fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let old = self.all.remove(uid)?;
        if old.node_name.is_none() {
            self.without_node.remove(uid);
        }
        Some(old)
    }

    /// All pods in no particular order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.all.values()
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.all.get(uid)
    }

    /// The pods without a node, in no particular order.
    pub(crate) fn without_node(&self) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.without_node.iter().filter_map(|uid| self.all.get(uid))
    }

    /// Returns true if every pod has a node.
    pub(crate) fn all_have_nodes(&self) -> bool {
        self.without_node.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::Pod;

    use super::*;

    #[test]
    fn pods_without_a_node_are_known_without_a_search() {
        let pod = |uid: &str, node: Option<&str>| {
            let pod = Pod { uid: uid.into(), node_name: node.map(Into::into), ..Pod::default() };
            PodInfo::standalone(pod)
        };
        let mut pods = Pods::default();
        let open = |pods: &Pods| {
            let mut open: Vec<String> = pods.without_node().map(|pod| pod.uid.to_string()).collect();
            open.sort();
            open.join(" ")
        };
        for (step, expected) in [
            (Ok(("a", None)), "a"),
            (Ok(("b", None)), "a b"),
            (Ok(("c", Some("n"))), "a b"),
            (Ok(("a", None)), "a b"),
            (Ok(("a", Some("n"))), "b"),
            (Ok(("a", Some("n"))), "b"),
            (Err("c"), "b"),
            (Err("b"), ""),
        ] {
            match step {
                Ok((uid, node)) => drop(pods.set(pod(uid, node))),
                Err(uid) => drop(pods.remove(uid)),
            }
            assert_eq!((open(&pods).as_str(), pods.all_have_nodes()), (expected, expected.is_empty()));
        }
    }
}
