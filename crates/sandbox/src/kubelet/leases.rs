//! Leases with which kubelets show that they are alive.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, SystemTime},
};

use harbormaster_api::Timestamp;
use harbormaster_apiserver::{Failure, Store};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fields::{name, uid};

const LEASES: &str = "leases.coordination.k8s.io";
const NAMESPACE: &str = "kube-node-lease";
/// Interval between renewals of a lease.
const PERIOD: Duration = Duration::from_secs(10);
/// Duration of a lease, in seconds.
const SECONDS: i64 = 40;
/// Number of parts of a period over which the first renewals are spread, so that leases are not all renewed at the same
/// time.
const PARTS: u32 = 50;

/// Leases of all nodes, each renewed every ten seconds.
#[derive(Debug)]
pub(super) struct Leases {
    store: Store,
    /// Number of each node's entry in `due`. Keyed by node name.
    nodes: HashMap<String, u64>,
    due: BTreeMap<(Instant, u64), String>,
    entries: u64,
}

impl Leases {
    pub(super) fn new(store: &Store) -> Self {
        Self { store: store.clone(), nodes: HashMap::new(), due: BTreeMap::new(), entries: 0 }
    }

    /// Adds a node: creates its lease, or renews the lease if it exists. Does nothing if the node was added before.
    pub(super) fn add(&mut self, node: &Value, at: Instant) -> Result<(), Failure> {
        if self.nodes.contains_key(name(node)) {
            return Ok(());
        }
        let part = u32::try_from(self.entries % u64::from(PARTS)).unwrap_or(0);
        self.enter(at + PERIOD * (part + 1) / PARTS, name(node).to_owned());
        if self.store.get(LEASES, NAMESPACE, name(node)).is_ok() {
            return self.renew(name(node));
        }
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name(node), "uid": uid(node)});
        let lease = json!({
            "metadata": {"name": name(node), "namespace": NAMESPACE, "ownerReferences": [owner]},
            "spec": {"holderIdentity": name(node), "leaseDurationSeconds": SECONDS, "renewTime": now()},
        });
        self.store.create(LEASES, lease).map(|_| ())
    }

    /// Deletes the lease of a deleted node.
    pub(super) fn remove(&mut self, node: &str) -> Result<(), Failure> {
        self.nodes.remove(node);
        self.store.delete(LEASES, NAMESPACE, node, None)
    }

    /// Returns the time of the next renewal.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// Renews the leases that are due, except those of nodes whose kubelets no longer report.
    pub(super) fn renew_due(&mut self, at: Instant, is_silent: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let mut done = Ok(());
        while let Some(first) = self.due.first_entry().filter(|entry| entry.key().0 <= at) {
            let ((due, number), node) = first.remove_entry();
            if self.nodes.get(&node) != Some(&number) {
                continue;
            }
            if !is_silent(&node) {
                done = done.and(self.renew(&node));
            }
            // Missed renewals are skipped.
            self.enter((due + PERIOD).max(at), node);
        }
        done
    }

    fn renew(&self, node: &str) -> Result<(), Failure> {
        let change = |lease: &mut Value| lease["spec"]["renewTime"] = now().into();
        self.store.update(LEASES, NAMESPACE, node, change).map(|_| ())
    }

    fn enter(&mut self, at: Instant, node: String) {
        self.entries += 1;
        self.due.insert((at, self.entries), node.clone());
        self.nodes.insert(node, self.entries);
    }
}

fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (Timestamp::default() + since).to_rfc3339_micro()
}

#[cfg(test)]
mod tests {
    use harbormaster_apiserver::{ApiServer, Options};

    use super::*;

    #[tokio::test]
    async fn leases_are_renewed_every_ten_seconds_unless_their_kubelet_is_silent() {
        let store = ApiServer::new(Options::default()).store();
        let (mut leases, begin) = (Leases::new(&store), Instant::now());
        let node = |name: &str| json!({"metadata": {"name": name, "uid": name}});
        for name in ["a", "b"] {
            leases.add(&node(name), begin).unwrap();
        }
        let version = |name: &str| store.get(LEASES, NAMESPACE, name).unwrap().version();
        let lease = store.get(LEASES, NAMESPACE, "a").unwrap().value();
        assert_eq!(lease["spec"]["leaseDurationSeconds"], SECONDS);
        assert_eq!(lease["metadata"]["ownerReferences"][0]["kind"], "Node");
        let before = ["a", "b"].map(version);
        leases.renew_due(begin + PERIOD, |node| node == "b").unwrap();
        let after = ["a", "b"].map(version);
        assert!(after[0] > before[0] && after[1] == before[1]);
        leases.renew_due(begin + PERIOD, |_| false).unwrap();
        assert_eq!(["a", "b"].map(version), after, "not until another ten seconds have passed");
        leases.remove("a").unwrap();
        leases.add(&node("a"), begin + PERIOD).unwrap();
        leases.renew_due(begin + 3 * PERIOD, |_| false).unwrap();
        assert!(version("b") > after[1]);
        assert_eq!(leases.due.len(), 2, "a node that comes back has one lease, not two");
    }
}
