//! The data of the page. The JSON form is for the page only: it lists each resource, request and set of facts once,
//! because a large cluster has tens of thousands of pods and few different ones.

use std::collections::{BTreeSet, HashMap};

use harbormaster_api::{
    Resources,
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS},
};
use serde::{Serialize, Serializer};
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
}

/// A pod on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacedPod {
    /// Position of the node in [`Scene::nodes`].
    pub node: usize,
    /// The pod.
    pub pod: Member,
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

impl Scene {
    /// Returns the JSON form.
    pub fn to_json(&self) -> String {
        // Strings, numbers and objects with string keys can always be encoded.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the names of the resources that nodes offer or pods request.
    fn resources(&self) -> Vec<&str> {
        let of_nodes = self.nodes.iter().flat_map(|node| &node.allocatable.scalars);
        let scalars = of_nodes.filter(|(_, amount)| *amount != 0).map(|(name, _)| name.as_str());
        let scalars: BTreeSet<&str> = scalars.collect();
        let uses_disk = self.nodes.iter().any(|node| node.requested.ephemeral_storage != 0);
        let disk = uses_disk.then_some(EPHEMERAL_STORAGE);
        [CPU, MEMORY, PODS].into_iter().chain(disk).chain(scalars).collect()
    }
}

impl Serialize for Scene {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Encoded::of(self).serialize(to)
    }
}

/// The JSON form of a scene. Numbers in lists are positions in the lists `zones`, `nodes`, `requests` and `facts`.
#[derive(Serialize)]
struct Encoded<'a> {
    title: &'a str,
    notes: &'a [String],
    resources: Vec<&'a str>,
    zones: Vec<&'a str>,
    /// Name, zone, requested and allocatable amounts.
    nodes: Vec<(&'a str, usize, Vec<i64>, Vec<i64>)>,
    requests: Vec<Vec<i64>>,
    facts: Vec<&'a Value>,
    /// Name, request, facts, node.
    pods: Vec<(&'a str, usize, usize, usize)>,
    waiting: Vec<EncodedRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<Counters>,
}

#[derive(Serialize)]
struct EncodedRow<'a> {
    pods: &'a str,
    state: &'a str,
    message: &'a str,
    /// Name, request, facts.
    members: Vec<(&'a str, usize, usize)>,
}

/// Lists of requests and facts without repetitions.
#[derive(Default)]
struct Tables<'a> {
    resources: Vec<&'a str>,
    requests: Vec<Vec<i64>>,
    request_places: HashMap<&'a Resources, usize>,
    facts: Vec<&'a Value>,
    fact_places: HashMap<String, usize>,
}

impl<'a> Tables<'a> {
    fn member(&mut self, member: &'a Member) -> (&'a str, usize, usize) {
        let request = *self.request_places.entry(&member.request).or_insert_with(|| {
            // A pod occupies one place on its node.
            self.requests.push(amounts(&self.resources, &member.request, 1));
            self.requests.len() - 1
        });
        let facts = *self.fact_places.entry(member.facts.to_string()).or_insert_with(|| {
            self.facts.push(&member.facts);
            self.facts.len() - 1
        });
        (&member.name, request, facts)
    }
}

impl<'a> Encoded<'a> {
    fn of(scene: &'a Scene) -> Self {
        let mut tables = Tables { resources: scene.resources(), ..Tables::default() };
        let zones: BTreeSet<&str> = scene.nodes.iter().map(|node| node.zone.as_str()).collect();
        let zones: Vec<&str> = zones.into_iter().collect();
        let mut counts = vec![0; scene.nodes.len()];
        let mut pods = Vec::with_capacity(scene.pods.len());
        for PlacedPod { node, pod } in &scene.pods {
            if let Some(count) = counts.get_mut(*node) {
                *count += 1;
                let (name, request, facts) = tables.member(pod);
                pods.push((name, request, facts, *node));
            }
        }
        let node = |(node, count): (&'a Node, i64)| {
            let zone = zones.binary_search(&node.zone.as_str()).unwrap_or_default();
            let requested = amounts(&tables.resources, &node.requested, count);
            let offered = amounts(&tables.resources, &node.allocatable, node.allocatable.pods);
            (node.name.as_str(), zone, requested, offered)
        };
        let nodes = scene.nodes.iter().zip(counts).map(node).collect();
        let row = |row: &'a WaitingRow| EncodedRow {
            pods: &row.pods,
            state: &row.state,
            message: &row.message,
            members: row.members.iter().map(|member| tables.member(member)).collect(),
        };
        let waiting = scene.waiting.iter().map(row).collect();
        let Tables { resources, requests, facts, .. } = tables;
        let (title, notes, counters) = (scene.title.as_str(), &scene.notes[..], scene.counters);
        Self { title, notes, resources, zones, nodes, requests, facts, pods, waiting, counters }
    }
}

/// Returns the amounts of the resources, with the given number of pods.
fn amounts(resources: &[&str], all: &Resources, pods: i64) -> Vec<i64> {
    let amount = |name: &&str| if *name == PODS { pods } else { all.named(name) };
    resources.iter().map(amount).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(name: &str, milli_cpu: i64, facts: Value) -> Member {
        let request = Resources { milli_cpu, ..Resources::default() };
        Member { name: name.to_owned(), request, facts }
    }

    #[test]
    fn equal_requests_and_facts_are_listed_once() {
        let node = |name: &str, zone: &str, scalars: &[(&str, i64)]| Node {
            name: name.to_owned(),
            zone: zone.to_owned(),
            requested: Resources { milli_cpu: 500, ..Resources::default() },
            allocatable: Resources {
                milli_cpu: 4000,
                pods: 110,
                scalars: scalars.iter().map(|(name, amount)| ((*name).into(), *amount)).collect(),
                ..Resources::default()
            },
        };
        let placed = |node: usize, name: &str| PlacedPod { node, pod: member(name, 250, Value::Null) };
        let scene = Scene {
            title: "t".to_owned(),
            nodes: vec![
                node("b", "z2", &[]),
                node("a", "z1", &[("example.com/gpu", 8), ("example.com/no", 0)]),
            ],
            pods: vec![placed(1, "x/1"), placed(1, "x/2"), placed(7, "lost")],
            waiting: vec![WaitingRow {
                pods: "x/3".to_owned(),
                state: "gated".to_owned(),
                members: vec![member("x/3", 1000, json!({"tried": 1}))],
                ..WaitingRow::default()
            }],
            ..Scene::default()
        };
        let told: Value = serde_json::from_str(&scene.to_json()).expect("JSON");
        let expected = json!({
            "title": "t",
            "notes": [],
            "resources": ["cpu", "memory", "pods", "example.com/gpu"],
            "zones": ["z1", "z2"],
            "nodes": [["b", 1, [500, 0, 0, 0], [4000, 0, 110, 0]], ["a", 0, [500, 0, 2, 0], [4000, 0, 110, 8]]],
            "requests": [[250, 0, 1, 0], [1000, 0, 1, 0]],
            "facts": [null, {"tried": 1}],
            "pods": [["x/1", 0, 0, 1], ["x/2", 0, 0, 1]],
            "waiting": [{"pods": "x/3", "state": "gated", "message": "", "members": [["x/3", 1, 1]]}],
        });
        assert_eq!(told, expected);
    }
}
