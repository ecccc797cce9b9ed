//! Taint-based evictions: pods leave nodes whose `NoExecute` taints they do not tolerate, or no longer tolerate.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use harbormaster_api::{
    Timestamp,
    taint::{Taint, TaintEffect, Toleration, TolerationOperator},
};
use serde_json::{Value, json};

use super::{ControllerContext, delete};
use crate::{
    events::{Kind, Source},
    fields::{is_ending, key, list, name, namespace, number, set_condition, text, uid},
    mirror::Mirror,
    sandbox::carry_on,
};

const COMPONENT: &str = "taint-eviction-controller";
const REASON: &str = "TaintManagerEviction";

/// Stand-in for the taint eviction controller.
#[derive(Debug, Default)]
pub(super) struct TaintEvictions {
    /// Pods whose time on their node is limited. Keyed by UID.
    planned: HashMap<String, PlannedEviction>,
}

#[derive(Debug)]
struct PlannedEviction {
    at: Timestamp,
    about: Value,
}

impl TaintEvictions {
    /// Evicts the pods whose time is up. Returns the time of the next eviction.
    pub(super) fn reconcile(
        &mut self,
        tools: &ControllerContext,
        nodes: &Mirror,
        pods: &Mirror,
    ) -> Option<Timestamp> {
        let taints = nodes.all().map(|node| (name(node), taints(node)));
        let tainted: HashMap<&str, Vec<Taint>> = taints.filter(|(_, taints)| !taints.is_empty()).collect();
        if tainted.is_empty() && self.planned.is_empty() {
            return None;
        }
        let now = tools.clock.now();
        let mut limited = HashSet::new();
        for pod in pods.all().filter(|pod| !is_ending(pod)) {
            let Some(taints) = tainted.get(text(pod, "/spec/nodeName")) else { continue };
            let Some(patience) = patience(pod, taints) else { continue };
            limited.insert(uid(pod).to_owned());
            // A planned time is kept, unless the pod must leave immediately.
            let planned = self.planned.get(uid(pod)).filter(|_| !patience.is_zero());
            let at = planned.map_or(now + patience, |planned| planned.at);
            if at <= now {
                evict(tools, pod);
            }
            self.planned.insert(uid(pod).to_owned(), PlannedEviction { at, about: about(pod) });
        }
        self.planned.retain(|uid, planned| {
            if !limited.contains(uid) && planned.at > now {
                tell(tools, &planned.about, "Cancelling deletion of Pod");
            }
            limited.contains(uid)
        });
        self.planned.values().map(|planned| planned.at).filter(|at| *at > now).min()
    }
}

fn taints(node: &Value) -> Vec<Taint> {
    let taints = list(node, "/spec/taints").iter().filter(|taint| text(taint, "/effect") == "NoExecute");
    let taint = |taint: &Value| Taint {
        key: text(taint, "/key").into(),
        value: text(taint, "/value").into(),
        effect: TaintEffect::NoExecute,
    };
    taints.map(taint).collect()
}

/// Returns the time for which a pod may stay on a node with the given taints, or `None` if it may stay forever.
fn patience(pod: &Value, taints: &[Taint]) -> Option<Duration> {
    let tolerations: Vec<(Toleration, Option<i64>)> =
        list(pod, "/spec/tolerations").iter().map(toleration).collect();
    let mut least: Option<u64> = None;
    for taint in taints {
        // For each taint, only the first matching toleration is considered.
        match tolerations.iter().find(|(toleration, _)| toleration.tolerates(taint, false)) {
            None => return Some(Duration::ZERO),
            Some((_, None)) => {}
            Some((_, Some(seconds))) => {
                let seconds = u64::try_from(*seconds).unwrap_or(0);
                least = Some(least.map_or(seconds, |least| least.min(seconds)));
            }
        }
    }
    least.map(Duration::from_secs)
}

/// Returns a toleration, and the number of seconds for which it lasts (`None` for forever).
fn toleration(value: &Value) -> (Toleration, Option<i64>) {
    let toleration = Toleration {
        key: text(value, "/key").into(),
        operator: TolerationOperator::parse(text(value, "/operator")),
        value: text(value, "/value").into(),
        effect: TaintEffect::parse(text(value, "/effect")),
    };
    (toleration, number(value, "/tolerationSeconds"))
}

/// Returns the reference to a pod for events. It contains only what the real controller knows about the pod.
fn about(pod: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "namespace": namespace(pod), "name": name(pod)})
}

fn tell(tools: &ControllerContext, about: &Value, what: &str) {
    let message = format!("{what} {}/{}", text(about, "/namespace"), text(about, "/name"));
    tools.events.tell_about(Source::controller(COMPONENT), about, Kind::Normal, REASON, &message);
}

fn evict(tools: &ControllerContext, pod: &Value) {
    tracing::debug!(v = 2, pod = %key(pod), "Evicting a pod for a taint");
    tell(tools, &about(pod), "Marking for deletion Pod");
    let changed = tools.store.update_status("pods", namespace(pod), name(pod), |pod| {
        let message = "Taint manager: deleting due to NoExecute taint";
        set_condition(pod, "DisruptionTarget", true, "DeletionByTaintManager", message);
    });
    carry_on("The taint eviction controller", changed.map(|_| ()));
    delete(&tools.store, "pods", pod, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_stays_for_the_shortest_time_of_the_tolerations_that_it_needs() {
        let tolerate = |key: &str, seconds: Option<i64>| {
            let mut toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
            if let Some(seconds) = seconds {
                toleration["tolerationSeconds"] = json!(seconds);
            }
            toleration
        };
        let node = json!({"spec": {"taints": [
            {"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "NoExecute"},
            {"key": "c", "effect": "NoSchedule"}]}});
        let taints = taints(&node);
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (tolerations, expected) in [
            (json!([]), seconds(0)),
            (json!([tolerate("a", None)]), seconds(0)),
            (json!([tolerate("a", None), tolerate("b", None)]), None),
            (json!([tolerate("a", Some(60)), tolerate("b", None)]), seconds(60)),
            (json!([tolerate("a", Some(60)), tolerate("b", Some(30))]), seconds(30)),
            (json!([tolerate("a", Some(-1)), tolerate("b", None)]), seconds(0)),
            (json!([{"operator": "Exists"}]), None),
        ] {
            let pod = json!({"spec": {"tolerations": tolerations}});
            assert_eq!(patience(&pod, &taints), expected, "{pod}");
        }
    }
}
