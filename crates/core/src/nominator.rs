//! Pods that are expected on a node once others are gone from it.

use harbormaster_api::Str;
use rustc_hash::FxHashMap;

/// Nominations: a pod is nominated to at most one node.
#[derive(Debug, Default)]
pub struct Nominator {
    by_node: FxHashMap<Str, Vec<Str>>,
    by_pod: FxHashMap<Str, Str>,
}

impl Nominator {
    /// Nominates the pod to `node`, in place of any earlier nomination.
    pub fn nominate(&mut self, uid: &Str, node: &Str) {
        self.clear(uid);
        self.by_pod.insert(uid.clone(), node.clone());
        self.by_node.entry(node.clone()).or_default().push(uid.clone());
    }

    /// Forgets the pod's nomination.
    pub fn clear(&mut self, uid: &str) {
        let Some(node) = self.by_pod.remove(uid) else { return };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|p| p != uid);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    /// Where the pod is nominated to.
    pub fn node_of(&self, uid: &str) -> Option<&Str> {
        self.by_pod.get(uid)
    }

    /// The pods that are nominated to a node, in the order in which they were.
    pub fn pods_on(&self, node: &str) -> &[Str] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Nodes with their nominated pods.
    pub fn iter(&self) -> impl Iterator<Item = (&Str, &[Str])> {
        self.by_node.iter().map(|(node, pods)| (node, pods.as_slice()))
    }

    /// Whether nobody is nominated.
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_nominated_to_one_node_at_a_time() {
        let mut nominator = Nominator::default();
        nominator.nominate(&"p".into(), &"a".into());
        nominator.nominate(&"p".into(), &"b".into());
        assert_eq!(nominator.node_of("p").map(Str::as_str), Some("b"));
        assert_eq!(nominator.iter().count(), 1);
        nominator.clear("p");
        assert!(nominator.is_empty());
    }
}
