//! Nominated pods: each is expected to run on a certain node once other pods have left that node.

use std::sync::Arc;

use harbormaster_api::Str;
use harbormaster_framework::{attempt::NominatedRow, cluster::Cluster, outcome::Nomination, pod::PodInfo};
use rustc_hash::FxHashMap;

use crate::pods::Pods;

/// Change to a pod's nomination after a failed attempt.
#[derive(Clone, Debug)]
pub(crate) enum NewNomination {
    Keep,
    Clear,
    Set(Str),
}

impl From<Nomination> for NewNomination {
    fn from(nomination: Nomination) -> Self {
        match nomination {
            Nomination::Keep => Self::Keep,
            Nomination::Clear => Self::Clear,
        }
    }
}

/// Nominations. A pod is nominated to at most one node.
#[derive(Debug, Default)]
pub struct Nominator {
    by_node: FxHashMap<Str, Vec<Str>>,
    by_pod: FxHashMap<Str, Str>,
    /// True if plugins have not yet been told of the last change.
    changed: bool,
}

impl Nominator {
    /// Nominates the pod to `node`, in place of any earlier nomination.
    pub fn nominate(&mut self, uid: &Str, node: &Str) {
        self.clear(uid);
        self.by_pod.insert(uid.clone(), node.clone());
        self.by_node.entry(node.clone()).or_default().push(uid.clone());
        self.changed = true;
    }

    /// Updates the nomination after a failed attempt. `Keep` nominates the pod to the node in its status, if the status
    /// names a node.
    pub(crate) fn renominate(&mut self, pod: &PodInfo, nomination: &NewNomination) {
        match (nomination, &pod.status.nominated_node_name) {
            (NewNomination::Keep, Some(node)) | (NewNomination::Set(node), _) => {
                self.nominate(&pod.uid, node);
            }
            (NewNomination::Keep, None) => {}
            (NewNomination::Clear, _) => self.clear(&pod.uid),
        }
    }

    /// Updates the nomination after a change to the pod. If the status names a node neither before nor after the change,
    /// the engine's own nomination is kept; otherwise the nomination follows the new status.
    pub(crate) fn follow(&mut self, old: &PodInfo, new: &PodInfo) {
        self.changed |= self.by_pod.contains_key(&new.uid);
        match (&old.status.nominated_node_name, &new.status.nominated_node_name) {
            (None, None) => {}
            (_, Some(node)) => self.nominate(&new.uid, node),
            (Some(_), None) => self.clear(&new.uid),
        }
    }

    /// Shows plugins the nominated pods, which are in `pods`, if they have changed since the last call.
    pub(crate) fn show(&mut self, pods: &Pods, cluster: &mut Cluster) {
        if std::mem::take(&mut self.changed) {
            let pairs = self.by_node.iter().flat_map(|(node, uids)| uids.iter().map(move |uid| (node, uid)));
            let known = pairs.filter_map(|(node, uid)| Some((node.clone(), pods.get(uid)?.clone())));
            cluster.set_nominations(known.collect());
        }
    }

    /// Returns the nominations together with `pods`, which contains the nominated pods.
    pub(crate) fn of<'a>(&'a self, pods: &'a Pods) -> Nominated<'a> {
        Nominated { nominator: self, pods }
    }

    /// Removes the pod's nomination.
    pub fn clear(&mut self, uid: &str) {
        let Some(node) = self.by_pod.remove(uid) else { return };
        self.changed = true;
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|p| p != uid);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    /// Returns the node that the pod is nominated to.
    pub fn node_of(&self, uid: &str) -> Option<&Str> {
        self.by_pod.get(uid)
    }

    /// UIDs of the pods nominated to a node, in order of nomination.
    pub fn pods_on(&self, node: &str) -> &[Str] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Nodes that have nominated pods, each with the UIDs of these pods.
    pub fn iter(&self) -> impl Iterator<Item = (&Str, &[Str])> {
        self.by_node.iter().map(|(node, pods)| (node, pods.as_slice()))
    }

    /// Returns true if there are no nominations.
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }
}

/// Nominations and the nominated pods. For a given pod, only nominated pods of equal or higher priority count, and none
/// of its own group.
#[derive(Clone, Copy)]
pub(crate) struct Nominated<'a> {
    nominator: &'a Nominator,
    pods: &'a Pods,
}

impl Nominated<'_> {
    /// Returns the rows of nodes, each with its nominated pods that count for `pod`. Omits nodes without such pods.
    pub(crate) fn rows_for(&self, pod: &PodInfo, cluster: &Cluster) -> Vec<NominatedRow> {
        if self.nominator.is_empty() {
            return Vec::new();
        }
        let row = |(node, uids): (&Str, &[Str])| {
            let row = cluster.find(node)?;
            let pods = self.not_below(pod, uids);
            (!pods.is_empty()).then_some(NominatedRow { row, pods })
        };
        let mut rows: Vec<NominatedRow> = self.nominator.iter().filter_map(row).collect();
        rows.sort_by_key(|r| r.row);
        rows
    }

    /// Returns the pods nominated to `node` that count for `pod`.
    pub(crate) fn on_for(&self, node: &str, pod: &PodInfo) -> Vec<Arc<PodInfo>> {
        self.not_below(pod, self.nominator.pods_on(node))
    }

    /// Returns the pods nominated to `node` whose priority is lower than that of `pod`.
    pub(crate) fn below_on(&self, node: &str, pod: &PodInfo) -> Vec<Arc<PodInfo>> {
        let others = self.nominator.pods_on(node).iter().filter_map(|uid| self.pods.get(uid));
        others.filter(|other| other.priority() < pod.priority()).cloned().collect()
    }

    /// Returns the pods of equal or higher priority. Other members of the pod's group do not count, as in kube-scheduler:
    /// they are tried in the same cycle, and would otherwise block each other on a node with room for only some of them.
    fn not_below(&self, pod: &PodInfo, uids: &[Str]) -> Vec<Arc<PodInfo>> {
        let others = uids.iter().filter(|uid| **uid != pod.uid).filter_map(|uid| self.pods.get(uid));
        let is_companion = |other: &PodInfo| pod.group().is_some() && other.group() == pod.group();
        let counts = |other: &&Arc<PodInfo>| other.priority() >= pod.priority() && !is_companion(other);
        others.filter(counts).cloned().collect()
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

    #[test]
    fn plugins_see_nominations_until_they_end() {
        let (mut nominator, mut pods, mut cluster) =
            (Nominator::default(), Pods::default(), Cluster::default());
        let pod = harbormaster_testkit::pod("p").priority(-1).info();
        pods.set(pod.clone());
        nominator.nominate(&pod.uid, &"a".into());
        nominator.show(&pods, &mut cluster);
        assert_eq!(cluster.nominations().on("a").len(), 1);
        assert!(cluster.nominations().on("b").is_empty());
        nominator.clear(&pod.uid);
        nominator.show(&pods, &mut cluster);
        assert!(cluster.nominations().is_empty());
    }
}
