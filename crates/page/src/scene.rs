//! The data of the page. The JSON form, which is in `encoding`, is for the page only.

mod encoding;

use harbormaster_api::Resources;
use serde::Serialize;
use serde_json::Value;

/// Everything that the page shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// Title of the page.
    pub title: String,
    /// Remarks about the whole cluster.
    pub notes: Vec<String>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The pods on these nodes.
    pub pods: Vec<PlacedPod>,
    /// Pods without a node; pods that are alike share a row.
    pub waiting: Vec<WaitingRow>,
    /// Numbers since the start, if the scheduler runs.
    pub counters: Option<Counters>,
    /// Answers about the cluster, such as what a change does.
    pub sections: Vec<Section>,
    /// Sizes of the pod whose copies are shown on the nodes.
    pub sizes: Vec<Size>,
    /// Amounts in use after some of a simulation's attempts, in order.
    pub course: Vec<Total>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Name of the node.
    pub name: String,
    /// Value of the label `topology.kubernetes.io/zone`; empty if there is none.
    pub zone: String,
    /// Amounts that the node's pods request. The number of pods is counted from [`Scene::pods`].
    pub requested: Resources,
    /// Amounts that the node offers.
    pub allocatable: Resources,
    /// Difference that a change of the cluster makes to the node; `None` if it makes none.
    pub mark: Option<Mark>,
}

/// Difference that a change of the cluster makes to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// True if the node is new.
    pub is_new: bool,
    /// True if the node accepts no more pods.
    pub is_cordoned: bool,
    /// Number of pods that came.
    pub came: usize,
    /// Number of pods that left.
    pub left: usize,
}

/// A pod on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacedPod {
    /// Position of the node in [`Scene::nodes`].
    pub node: usize,
    /// The pod.
    pub pod: Member,
    /// Place of the pod without the change of the cluster, such as another node; `None` if it is the same.
    pub before: Option<String>,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    /// `namespace/name`.
    pub name: String,
    /// Amounts that the pod requests.
    pub request: Resources,
    /// Further facts, an object; null if there are none.
    pub facts: Value,
}

/// Pods without a node that are alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitingRow {
    /// Title of the row, such as `shop/web-* (12 pods)`.
    pub pods: String,
    /// State that the pods share, such as `unschedulable`.
    pub state: String,
    /// Message of the first pod; empty if there is none.
    pub message: String,
    /// The pods.
    pub members: Vec<Member>,
}

/// Numbers since the scheduler's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Time of the numbers, in milliseconds since 1970.
    pub at: u64,
    /// Number of pods that got a node.
    pub placed: u64,
    /// Sum of the times that these pods waited, in seconds.
    pub waited: f64,
}

/// An answer: sentences, a table, and perhaps bars.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Section {
    /// Title of the section.
    pub title: String,
    /// Sentences above the table.
    pub lines: Vec<String>,
    /// Titles of the table's columns.
    pub columns: Vec<String>,
    /// Rows of the table. The page links names of nodes and pods.
    pub rows: Vec<Vec<String>>,
    /// Names and numbers that are drawn as bars.
    pub bars: Vec<(String, usize)>,
}

/// Copies of a pod of one size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Size {
    /// Name of the size, such as `cpu=500m`.
    pub title: String,
    /// Amounts that a copy requests.
    pub request: Resources,
    /// Number of copies on each node, in the order of [`Scene::nodes`].
    pub copies: Vec<usize>,
}

/// Amounts in use on all nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Total {
    /// Number of attempts so far.
    pub attempts: usize,
    /// Number of pods on nodes.
    pub pods: usize,
    /// Amounts that these pods request.
    pub requested: Resources,
}

impl Scene {
    /// Returns the JSON form.
    pub fn to_json(&self) -> String {
        // Strings, numbers and objects with string keys can always be encoded.
        serde_json::to_string(self).unwrap_or_default()
    }
}
