//! Nodes that the templates of DaemonSets allow.

use std::collections::HashMap;

use harbormaster_api::{Node, wire::Decoder};
use harbormaster_world::daemons::{self, NodeFit, tolerate};
use serde_json::{Value, json};

use crate::{
    fields::{number, uid},
    mirror::Mirror,
};

/// Nodes of each DaemonSet, computed once per template until nodes change.
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
pub(super) type Fits = HashMap<String, NodeFit>;

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
    daemons::fits(&pod, nodes).map(|(node, fit)| (node.name.to_string(), fit)).collect()
}
