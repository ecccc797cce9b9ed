//! Placement of DaemonSets: the nodes that their templates allow.

use std::collections::HashMap;

use harbormaster_api::{Node, wire::Decoder};
use harbormaster_world::daemons::{self, NodeFit, tolerate};
use serde_json::{Value, json};

use crate::{
    fields::{number, uid},
    mirror::Mirror,
};

/// Nodes for each DaemonSet, computed again only if the DaemonSet's generation or the nodes change.
#[derive(Debug, Default)]
pub(super) struct Placement {
    decoder: Decoder,
    nodes: Vec<Node>,
    /// Revision of the nodes.
    revision: u64,
    /// Keyed by UID: the generation of the DaemonSet, and its verdict for every node.
    known: HashMap<String, (i64, Fits)>,
}

/// Verdicts by node name.
pub(super) type Fits = HashMap<String, NodeFit>;

impl Placement {
    /// Reads the nodes if they have changed.
    pub(super) fn take_in(&mut self, nodes: &Mirror) {
        if self.revision != nodes.revision() {
            self.revision = nodes.revision();
            self.known.clear();
            self.nodes = nodes.all().filter_map(|node| self.decoder.node_value(node).ok()).collect();
        }
    }

    /// Returns the verdict for every node: should the DaemonSet have a pod there? Returns no verdicts if the template
    /// of the DaemonSet cannot be read.
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
