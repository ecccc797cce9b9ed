//! The JSON form of a scene. It lists each resource, request and set of facts once, because a large cluster has tens of
//! thousands of pods and few different ones.

use std::collections::{BTreeSet, HashMap};

use harbormaster_api::{
    Resources,
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS},
};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Counters, Mark, Member, Node, PlacedPod, Scene, Section, Size, Total, WaitingRow};

impl Scene {
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

/// The JSON form of a scene. Numbers in lists are positions in the lists `zones`, `nodes`, `requests`, `facts`,
/// `pods` and `places`.
#[derive(Serialize)]
struct Encoded<'a> {
    title: &'a str,
    notes: &'a [String],
    resources: Vec<&'a str>,
    zones: Vec<&'a str>,
    /// Name, zone, requested and allocatable amounts.
    nodes: Vec<(&'a str, usize, Vec<i64>, Vec<i64>)>,
    /// Node, whether it is new, whether it is cordoned, numbers of pods that came and left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    marks: Vec<(usize, bool, bool, usize, usize)>,
    requests: Vec<Vec<i64>>,
    facts: Vec<&'a Value>,
    /// Name, request, facts, node.
    pods: Vec<(&'a str, usize, usize, usize)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<&'a str>,
    /// Pod, and its place without the change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<(usize, usize)>,
    waiting: Vec<EncodedRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<Counters>,
    #[serde(skip_serializing_if = "<[Section]>::is_empty")]
    sections: &'a [Section],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sizes: Vec<EncodedSize<'a>>,
    /// Number of attempts, and amounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    course: Vec<(usize, Vec<i64>)>,
}

#[derive(Serialize)]
struct EncodedSize<'a> {
    title: &'a str,
    request: Vec<i64>,
    copies: &'a [usize],
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
        let places: BTreeSet<&str> = scene.pods.iter().filter_map(|pod| pod.before.as_deref()).collect();
        let places: Vec<&str> = places.into_iter().collect();
        let mut counts = vec![0; scene.nodes.len()];
        let mut pods = Vec::with_capacity(scene.pods.len());
        let mut moved = Vec::new();
        for PlacedPod { node, pod, before } in &scene.pods {
            let Some(count) = counts.get_mut(*node) else { continue };
            *count += 1;
            let (name, request, facts) = tables.member(pod);
            let before = before.as_deref().and_then(|before| places.binary_search(&before).ok());
            moved.extend(before.map(|before| (pods.len(), before)));
            pods.push((name, request, facts, *node));
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
        let sizes = scene.sizes.iter().map(|size| EncodedSize::of(size, &tables.resources)).collect();
        let total = |total: &Total| {
            let pods = i64::try_from(total.pods).unwrap_or(i64::MAX);
            (total.attempts, amounts(&tables.resources, &total.requested, pods))
        };
        let course = scene.course.iter().map(total).collect();
        let Tables { resources, requests, facts, .. } = tables;
        Self {
            title: &scene.title,
            notes: &scene.notes,
            resources,
            zones,
            nodes,
            marks: marks(&scene.nodes),
            requests,
            facts,
            pods,
            places,
            before: moved,
            waiting,
            counters: scene.counters,
            sections: &scene.sections,
            sizes,
            course,
        }
    }
}

impl<'a> EncodedSize<'a> {
    fn of(Size { title, request, copies }: &'a Size, resources: &[&str]) -> Self {
        Self { title, request: amounts(resources, request, 1), copies }
    }
}

fn marks(nodes: &[Node]) -> Vec<(usize, bool, bool, usize, usize)> {
    let marked = nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.mark?)));
    marked
        .map(|(at, Mark { is_new, is_cordoned, came, left })| (at, is_new, is_cordoned, came, left))
        .collect()
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
            mark: None,
        };
        let placed =
            |node: usize, name: &str| PlacedPod { node, pod: member(name, 250, Value::Null), before: None };
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

    #[test]
    fn changes_copies_and_attempts_name_nodes_and_pods_by_position() {
        let mark = Mark { is_cordoned: true, left: 2, ..Mark::default() };
        let node = |name: &str, mark| Node { name: name.to_owned(), mark, ..Node::default() };
        let placed = |name: &str, before: Option<&str>| PlacedPod {
            node: 1,
            pod: member(name, 0, Value::Null),
            before: before.map(str::to_owned),
        };
        let requested = Resources { milli_cpu: 500, ..Resources::default() };
        let scene = Scene {
            nodes: vec![node("a", None), node("b", Some(mark))],
            pods: vec![placed("x/1", None), placed("x/2", Some("a")), placed("x/3", Some("new"))],
            sections: vec![Section { title: "s".to_owned(), ..Section::default() }],
            sizes: vec![Size { title: "cpu=1".to_owned(), request: requested.clone(), copies: vec![3, 0] }],
            course: vec![Total { attempts: 7, pods: 2, requested }],
            ..Scene::default()
        };
        let told: Value = serde_json::from_str(&scene.to_json()).expect("JSON");
        assert_eq!(told["marks"], json!([[1, false, true, 0, 2]]));
        assert_eq!((&told["places"], &told["before"]), (&json!(["a", "new"]), &json!([[1, 0], [2, 1]])));
        assert_eq!(told["sections"][0]["title"], "s");
        assert_eq!(told["sizes"], json!([{"title": "cpu=1", "request": [500, 0, 1], "copies": [3, 0]}]));
        assert_eq!(told["course"], json!([[7, [500, 0, 2]]]));
    }
}
