//! Which nodes a DaemonSet's template allows.

use std::collections::HashMap;

use harbormaster_api::{
    Node, PodSpec,
    selector::RequiredNodeAffinity,
    taint::{Taint, TaintEffect},
    wire::Decoder,
};
use serde_json::{Value, json};

use crate::{
    fields::{list, number, text, uid},
    mirror::Mirror,
};

/// What the controller lets its pods tolerate, whatever their template says, with the effects.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const TOLERATED_BY_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// What a node is to a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It is to have a pod.
    Runs,
    /// It gets no pod, and may keep the one that it has.
    Keeps,
    /// It is to have none.
    Refuses,
}

/// Which nodes each DaemonSet runs on; found once for a template, until nodes change.
#[derive(Debug, Default)]
pub(super) struct Placement {
    decoder: Decoder,
    nodes: Vec<Node>,
    /// The revision of the nodes.
    revision: u64,
    /// By UID: the generation, and every node's verdict.
    known: HashMap<String, (i64, Fits)>,
}

/// Verdicts by the names of nodes.
pub(super) type Fits = HashMap<String, Fit>;

impl Placement {
    /// Reads the nodes, if they have changed.
    pub(super) fn take_in(&mut self, nodes: &Mirror) {
        if self.revision != nodes.revision() {
            self.revision = nodes.revision();
            self.known.clear();
            self.nodes = nodes.all().filter_map(|node| self.decoder.node_value(node).ok()).collect();
        }
    }

    /// Every node's verdict on a DaemonSet. None at all if its template cannot be read.
    pub(super) fn of(&mut self, set: &Value) -> &Fits {
        let generation = number(set, "/metadata/generation").unwrap_or(0);
        let known = self.known.entry(uid(set).to_owned()).or_insert((i64::MIN, Fits::new()));
        if known.0 != generation {
            *known = (generation, fits(&mut self.decoder, set, &self.nodes));
        }
        &known.1
    }
}

fn fits(decoder: &mut Decoder, set: &Value, nodes: &[Node]) -> Fits {
    let mut pod = json!({"metadata": {"name": "any"}, "spec": set["spec"]["template"]["spec"]});
    tolerate(&mut pod["spec"]);
    let pod = match decoder.pod_value(&pod) {
        Ok(pod) => pod,
        Err(error) => {
            tracing::warn!(err = %error, "The template of a DaemonSet cannot be read");
            return Fits::new();
        }
    };
    let spec = &pod.spec;
    let demands = RequiredNodeAffinity::new(spec.node_selector.as_ref(), spec.node_affinity.as_ref());
    let fit = |node: &Node| {
        if pod.node_name.as_ref().is_some_and(|only| *only != node.name)
            || !demands.matches(&node.labels, &node.name)
        {
            return Fit::Refuses;
        }
        let is_free_of =
            |effect: TaintEffect| node.taints.iter().all(|t| t.effect != effect || is_tolerated(spec, t));
        match (is_free_of(TaintEffect::NoExecute), is_free_of(TaintEffect::NoSchedule)) {
            (true, true) => Fit::Runs,
            (true, false) => Fit::Keeps,
            (false, _) => Fit::Refuses,
        }
    };
    nodes.iter().map(|node| (node.name.to_string(), fit(node))).collect()
}

fn is_tolerated(spec: &PodSpec, taint: &Taint) -> bool {
    spec.tolerations.iter().any(|toleration| toleration.tolerates(taint, false))
}

/// Adds the controller's own tolerations to the spec of a pod.
pub(super) fn tolerate(spec: &mut Value) {
    let own = (spec["hostNetwork"] == true).then_some(&TOLERATED_BY_HOST_NETWORK);
    let tolerations: Vec<Value> = TOLERATED
        .iter()
        .chain(own)
        .map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}))
        .filter(|toleration| !list(spec, "/tolerations").contains(toleration))
        .collect();
    if !spec["tolerations"].is_array() {
        spec["tolerations"] = json!([]);
    }
    if let Some(all) = spec["tolerations"].as_array_mut() {
        all.extend(tolerations);
    }
}

/// Ties the spec of a pod to a node, in a way that leaves the placing to the scheduler.
pub(super) fn tie(spec: &mut Value, node: &str) {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
}

/// The node that a pod runs on or is tied to.
pub(super) fn target(pod: &Value) -> Option<&str> {
    const TERMS: &str =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let node = text(pod, "/spec/nodeName");
    if !node.is_empty() {
        return Some(node);
    }
    let [term] = list(pod, TERMS) else { return None };
    let [field] = list(term, "/matchFields") else { return None };
    if text(field, "/key") != "metadata.name" || text(field, "/operator") != "In" {
        return None;
    }
    list(field, "/values").first()?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit_of(template: Value, node: Value) -> Fit {
        let mut decoder = Decoder::new();
        let mut node = node;
        node["metadata"]["name"] = "n".into();
        let node = decoder.node_value(&node).unwrap();
        let set = json!({"spec": {"template": {"spec": template}}});
        fits(&mut decoder, &set, &[node])["n"]
    }

    #[test]
    fn a_template_allows_nodes_by_selector_affinity_name_and_taints() {
        let labelled = json!({"metadata": {"labels": {"disk": "ssd"}}});
        let tainted = |key: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "effect": effect}]}});
        let named = |operator: &str| {
            let field = json!({"key": "metadata.name", "operator": operator, "values": ["n"]});
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": [field]}]}}}})
        };
        let pressure = "node.kubernetes.io/network-unavailable";
        for (template, node, expected) in [
            (json!({}), json!({}), Fit::Runs),
            (json!({"nodeSelector": {"disk": "ssd"}}), labelled.clone(), Fit::Runs),
            (json!({"nodeSelector": {"disk": "hdd"}}), labelled, Fit::Refuses),
            (named("In"), json!({}), Fit::Runs),
            (named("NotIn"), json!({}), Fit::Refuses),
            (json!({"nodeName": "other"}), json!({}), Fit::Refuses),
            (json!({}), tainted("a", "NoSchedule"), Fit::Keeps),
            (json!({}), tainted("a", "PreferNoSchedule"), Fit::Runs),
            (json!({}), tainted("a", "NoExecute"), Fit::Refuses),
            (json!({"tolerations": [{"operator": "Exists"}]}), tainted("a", "NoExecute"), Fit::Runs),
            (json!({}), tainted("node.kubernetes.io/unreachable", "NoExecute"), Fit::Runs),
            (json!({}), tainted("node.kubernetes.io/unschedulable", "NoSchedule"), Fit::Runs),
            (json!({}), tainted(pressure, "NoSchedule"), Fit::Keeps),
            (json!({"hostNetwork": true}), tainted(pressure, "NoSchedule"), Fit::Runs),
        ] {
            assert_eq!(fit_of(template.clone(), node.clone()), expected, "{template} {node}");
        }
    }

    #[test]
    fn a_pod_is_tied_to_one_node_whatever_its_template_demands() {
        let mut pod = json!({"spec": {"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}, {}]}}}}});
        assert_eq!(target(&pod), None);
        tie(&mut pod["spec"], "n");
        assert_eq!(target(&pod), Some("n"));
        pod["spec"]["nodeName"] = "m".into();
        assert_eq!(target(&pod), Some("m"));
    }
}
