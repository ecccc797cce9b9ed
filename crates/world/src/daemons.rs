//! Pods of DaemonSets as their controller creates them, and the nodes that get a pod.

use harbormaster_api::{
    Node, Pod,
    selector::RequiredNodeAffinity,
    taint::{Taint, TaintEffect},
};
use harbormaster_validation::value::{list, text};
use serde_json::{Value, json};

/// Taints, with their effects, that pods of DaemonSets always tolerate.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
const TOLERATED_BY_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Relation of a node to a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFit {
    /// The node gets a pod.
    Runs,
    /// The node gets no pod, but keeps the pod that it has.
    Keeps,
    /// The node gets no pod, and loses the pod that it has.
    Refuses,
}

/// Returns the relation of each node to a DaemonSet. `pod` is a pod made from the DaemonSet's template, after
/// [`tolerate`] and before [`tie`].
pub fn fits<'a>(pod: &'a Pod, nodes: &'a [Node]) -> impl Iterator<Item = (&'a Node, NodeFit)> {
    let demands = RequiredNodeAffinity::new(pod.spec.node_selector.as_ref(), pod.spec.node_affinity.as_ref());
    nodes.iter().map(move |node| {
        let is_elsewhere = pod.node_name.as_ref().is_some_and(|only| *only != node.name);
        let fit = match is_elsewhere || !demands.matches(&node.labels, &node.name) {
            true => NodeFit::Refuses,
            false => taints_leave(pod, node),
        };
        (node, fit)
    })
}

fn taints_leave(pod: &Pod, node: &Node) -> NodeFit {
    let is_free_of =
        |effect: TaintEffect| node.taints.iter().all(|t| t.effect != effect || is_tolerated(pod, t));
    match (is_free_of(TaintEffect::NoExecute), is_free_of(TaintEffect::NoSchedule)) {
        (true, true) => NodeFit::Runs,
        (true, false) => NodeFit::Keeps,
        (false, _) => NodeFit::Refuses,
    }
}

fn is_tolerated(pod: &Pod, taint: &Taint) -> bool {
    pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint, false))
}

/// Adds the tolerations of the DaemonSet controller to the spec of a pod.
pub fn tolerate(spec: &mut Value) {
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

/// Ties the spec of a pod to a node by affinity rather than by `nodeName`, so that the scheduler binds the pod.
pub fn tie(spec: &mut Value, node: &str) {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
}

/// Returns the node that a pod runs on or is tied to.
pub fn target(pod: &Value) -> Option<&str> {
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
    use harbormaster_api::wire::Decoder;

    use super::*;

    fn fit_of(template: Value, node: Value) -> NodeFit {
        let mut decoder = Decoder::new();
        let (mut node, mut pod) = (node, json!({"metadata": {"name": "p"}, "spec": template}));
        node["metadata"]["name"] = "n".into();
        tolerate(&mut pod["spec"]);
        let (pod, node) = (decoder.pod_value(&pod).unwrap(), decoder.node_value(&node).unwrap());
        fits(&pod, &[node]).next().unwrap().1
    }

    #[test]
    fn the_template_and_the_taints_of_nodes_decide_which_nodes_get_a_pod() {
        let labelled = json!({"metadata": {"labels": {"disk": "ssd"}}});
        let tainted = |key: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "effect": effect}]}});
        let named = |operator: &str| {
            let field = json!({"key": "metadata.name", "operator": operator, "values": ["n"]});
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchFields": [field]}]}}}})
        };
        let pressure = "node.kubernetes.io/network-unavailable";
        for (template, node, expected) in [
            (json!({}), json!({}), NodeFit::Runs),
            (json!({"nodeSelector": {"disk": "ssd"}}), labelled.clone(), NodeFit::Runs),
            (json!({"nodeSelector": {"disk": "hdd"}}), labelled, NodeFit::Refuses),
            (named("In"), json!({}), NodeFit::Runs),
            (named("NotIn"), json!({}), NodeFit::Refuses),
            (json!({"nodeName": "other"}), json!({}), NodeFit::Refuses),
            (json!({}), tainted("a", "NoSchedule"), NodeFit::Keeps),
            (json!({}), tainted("a", "PreferNoSchedule"), NodeFit::Runs),
            (json!({}), tainted("a", "NoExecute"), NodeFit::Refuses),
            (json!({"tolerations": [{"operator": "Exists"}]}), tainted("a", "NoExecute"), NodeFit::Runs),
            (json!({}), tainted("node.kubernetes.io/unreachable", "NoExecute"), NodeFit::Runs),
            (json!({}), tainted("node.kubernetes.io/unschedulable", "NoSchedule"), NodeFit::Runs),
            (json!({}), tainted(pressure, "NoSchedule"), NodeFit::Keeps),
            (json!({"hostNetwork": true}), tainted(pressure, "NoSchedule"), NodeFit::Runs),
        ] {
            assert_eq!(fit_of(template.clone(), node.clone()), expected, "{template} {node}");
        }
    }

    #[test]
    fn a_pod_is_tied_to_one_node_whatever_its_template_requires() {
        let mut pod = json!({"spec": {"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}, {}]}}}}});
        assert_eq!(target(&pod), None);
        tie(&mut pod["spec"], "n");
        assert_eq!(target(&pod), Some("n"));
        pod["spec"]["nodeName"] = "m".into();
        assert_eq!(target(&pod), Some("m"));
    }
}
