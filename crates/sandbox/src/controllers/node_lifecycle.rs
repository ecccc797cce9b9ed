//! Node lifecycle: conditions, taints and pods of nodes that are not ready or whose kubelet no longer reports.
//!
//! A real cluster waits about 50 s before it declares a node unreachable. Here, a stopped node is unreachable
//! immediately. The rate at which nodes are tainted is not limited.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::ControllerContext;
use crate::{
    events::{Kind, Source},
    fields::{condition, is_finished, is_ready, list, name, namespace, now, text},
    kubelet::is_stopped,
    mirror::Mirror,
    sandbox::carry_on,
};

const WHO: &str = "The node lifecycle controller";
const COMPONENT: &str = "node-controller";
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// Condition, status, and the key of the taint that a node gets if its condition has this status.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Conditions that only kubelets report.
const OF_KUBELETS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Stand-in for the node lifecycle controller.
#[derive(Debug, Default)]
pub(super) struct NodeLifecycle {
    /// Revision of the nodes at the last reconciliation.
    seen: u64,
    /// Readiness of each node at the last reconciliation. Keyed by name.
    ready: HashMap<String, bool>,
}

impl NodeLifecycle {
    pub(super) fn reconcile(&mut self, tools: &ControllerContext, nodes: &Mirror, pods: &Mirror) {
        if nodes.revision() != self.seen {
            self.seen = nodes.revision();
            let ready = nodes.all().map(|node| (name(node).to_owned(), self.look_at(tools, node))).collect();
            self.ready = ready;
        }
        let not_ready: HashSet<&str> =
            self.ready.iter().filter(|(_, ready)| !**ready).map(|(name, _)| name.as_str()).collect();
        if not_ready.is_empty() {
            return;
        }
        let is_there = |pod: &&Value| not_ready.contains(text(pod, "/spec/nodeName"));
        for pod in pods.all().filter(is_there).filter(|pod| is_ready(pod) && !is_finished(pod)) {
            mark_unready(tools, pod);
        }
    }

    /// Brings a node's conditions and taints up to date. Returns true if the node is ready.
    fn look_at(&self, tools: &ControllerContext, node: &Value) -> bool {
        let Some(condition) = condition(node, "Ready") else { return true };
        let is_ready = text(condition, "/status") == "True";
        if is_stopped(node) && text(condition, "/status") != "Unknown" {
            let written = tools.store.update_status("nodes", "", name(node), |node| {
                // The node may have been started again in the meantime.
                if is_stopped(node) {
                    forget(node);
                }
            });
            carry_on(WHO, written.map(|_| ()));
        }
        if !is_ready && self.ready.get(name(node)) == Some(&true) {
            let message = format!("Node {} status is now: NodeNotReady", name(node));
            tools.events.tell(Source::controller(COMPONENT), node, Kind::Normal, "NodeNotReady", &message);
        }
        if swapped(node).is_some() {
            let written = tools.store.update("nodes", "", name(node), |node| {
                if let Some(taints) = swapped(node) {
                    node["spec"]["taints"] = taints.into();
                }
            });
            carry_on(WHO, written.map(|_| ()));
        }
        is_ready
    }
}

/// Sets the kubelet's conditions of a node to Unknown, because the kubelet no longer reports.
fn forget(node: &mut Value) {
    for name in OF_KUBELETS {
        let all = node["status"]["conditions"].as_array_mut();
        let Some(all) = all else { return };
        match all.iter_mut().find(|condition| text(condition, "/type") == name) {
            Some(condition) if text(condition, "/status") == "Unknown" => {}
            Some(condition) => {
                condition["status"] = "Unknown".into();
                condition["reason"] = "NodeStatusUnknown".into();
                condition["message"] = "Kubelet stopped posting node status.".into();
                condition["lastTransitionTime"] = now().into();
            }
            None => all.push(json!({
                "type": name, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.", "lastTransitionTime": now(),
            })),
        }
    }
}

/// Returns the taints that a node should have, or `None` if it already has exactly those taints.
fn swapped(node: &Value) -> Option<Vec<Value>> {
    let status = |name: &str| condition(node, name).map_or("", |condition| text(condition, "/status"));
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (_, _, key) in TAINTS.iter().filter(|(name, of, _)| status(name) == *of) {
        wanted.push((key, NO_SCHEDULE));
    }
    if node["spec"]["unschedulable"] == true {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    let evicting = TAINTS.iter().filter(|(name, of, _)| *name == "Ready" && status(name) == *of);
    wanted.extend(evicting.map(|(_, _, key)| (*key, NO_EXECUTE)));

    let is_own = |taint: &Value| {
        let (key, effect) = (text(taint, "/key"), text(taint, "/effect"));
        let mut known = TAINTS.iter().filter(|(_, _, known)| *known == key);
        match effect {
            NO_SCHEDULE => key == UNSCHEDULABLE || known.next().is_some(),
            NO_EXECUTE => known.any(|(name, ..)| *name == "Ready"),
            _ => false,
        }
    };
    let taints = list(node, "/spec/taints");
    let is_wanted = |taint: &Value| wanted.contains(&(text(taint, "/key"), text(taint, "/effect")));
    let mut new: Vec<Value> =
        taints.iter().filter(|taint| !is_own(taint) || is_wanted(taint)).cloned().collect();
    let missing = wanted.iter().filter(|(key, effect)| {
        !taints.iter().any(|taint| text(taint, "/key") == *key && text(taint, "/effect") == *effect)
    });
    let missing: Vec<Value> =
        missing.map(|(key, effect)| json!({"key": key, "effect": effect, "timeAdded": now()})).collect();
    let is_changed = new.len() != taints.len() || !missing.is_empty();
    new.extend(missing);
    is_changed.then_some(new)
}

/// Sets a pod's `Ready` condition to False.
fn mark_unready(tools: &ControllerContext, pod: &Value) {
    let changed = tools.store.update_status("pods", namespace(pod), name(pod), |pod| {
        let all = pod["status"]["conditions"].as_array_mut().into_iter().flatten();
        for ready in all.filter(|c| text(c, "/type") == "Ready" && text(c, "/status") == "True") {
            ready["status"] = "False".into();
            ready["lastTransitionTime"] = now().into();
        }
    });
    if changed.is_ok() {
        let source = Source::controller(COMPONENT);
        tools.events.tell(source, pod, Kind::Warning, "NodeNotReady", "Node is not ready");
    }
    carry_on(WHO, changed.map(|_| ()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(ready: &str, taints: &Value) -> Value {
        json!({
            "metadata": {"name": "n"}, "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": ready}, {"type": "DiskPressure", "status": "False"}]},
        })
    }

    fn taint(key: &str, effect: &str) -> Value {
        json!({"key": key, "effect": effect})
    }

    fn taints(node: &Value) -> Option<Vec<(String, String)>> {
        let pair = |taint: &Value| (text(taint, "/key").to_owned(), text(taint, "/effect").to_owned());
        Some(swapped(node)?.iter().map(pair).collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(pairs.iter().map(|(key, effect)| ((*key).to_owned(), (*effect).to_owned())).collect())
    }

    #[test]
    fn conditions_become_taints_and_other_taints_stay() {
        let (not_ready, unreachable) = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable");
        let own = taint("dedicated", NO_EXECUTE);
        let both = [("dedicated", NO_EXECUTE), (not_ready, NO_SCHEDULE), (not_ready, NO_EXECUTE)];
        assert_eq!(taints(&node("False", &json!([own]))), pairs(&both));
        let was_not_ready = json!([own, taint(not_ready, NO_SCHEDULE), taint(not_ready, NO_EXECUTE)]);
        let both = [("dedicated", NO_EXECUTE), (unreachable, NO_SCHEDULE), (unreachable, NO_EXECUTE)];
        assert_eq!(taints(&node("False", &was_not_ready)), None);
        assert_eq!(taints(&node("Unknown", &was_not_ready)), pairs(&both));
        assert_eq!(taints(&node("True", &was_not_ready)), pairs(&[("dedicated", NO_EXECUTE)]));
        assert_eq!(taints(&node("True", &json!([own]))), None);
        let mut cordoned = node("True", &json!([]));
        cordoned["spec"]["unschedulable"] = true.into();
        cordoned["status"]["conditions"][1]["status"] = "True".into();
        let both = [("node.kubernetes.io/disk-pressure", NO_SCHEDULE), (UNSCHEDULABLE, NO_SCHEDULE)];
        assert_eq!(taints(&cordoned), pairs(&both));
    }

    #[test]
    fn the_conditions_of_a_silent_node_are_unknown() {
        let mut node = node("True", &json!([]));
        forget(&mut node);
        let statuses: Vec<_> = list(&node, "/status/conditions")
            .iter()
            .map(|c| (text(c, "/status"), text(c, "/reason")))
            .collect();
        let (told, never) = (("Unknown", "NodeStatusUnknown"), ("Unknown", "NodeStatusNeverUpdated"));
        assert_eq!(statuses, [told, told, never, never]);
    }
}
