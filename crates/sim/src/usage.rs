//! Use of the nodes: what their pods request, and what they offer.

use std::collections::{BTreeMap, HashMap};

use harbormaster_api::{
    Pod, Resources, Str,
    node::LABEL_ZONE,
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY},
};
use harbormaster_framework::pod::{PodInfo, SpecTable};
use serde::{Serialize, Serializer, ser::SerializeMap as _};

use crate::{drain::kind_of_node_pod, inventory::Inventory, lack::short, report::Report};

/// Use of all nodes, in the order of the manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Usage {
    /// The nodes.
    pub nodes: Vec<NodeUsage>,
}

/// Use of a node, or of several nodes together. The JSON form is stable, since tools read it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeUsage {
    /// Name of the node.
    pub node: Str,
    /// Value of the label `topology.kubernetes.io/zone`.
    pub zone: Option<Str>,
    /// Number of pods, and how many of them belong to the node: DaemonSet and static pods.
    pub pods: (usize, usize),
    /// Amounts that the pods request.
    pub requested: Resources,
    /// Amounts that the node offers.
    pub allocatable: Resources,
}

impl NodeUsage {
    /// Adds another node.
    pub fn add(&mut self, other: &Self) {
        self.pods = (self.pods.0 + other.pods.0, self.pods.1 + other.pods.1);
        self.requested.add(&other.requested);
        self.allocatable.add(&other.allocatable);
    }

    /// Returns the names of the resources that the node offers: cpu, memory, and scalar resources.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        let scalars = self.allocatable.scalars.iter().filter(|(_, amount)| *amount != 0);
        let more = Some(EPHEMERAL_STORAGE).filter(|_| self.requested.ephemeral_storage != 0);
        [CPU, MEMORY].into_iter().chain(more).chain(scalars.map(|(name, _)| name.as_str()))
    }

    /// Returns the requested and the offered amount of a resource as people write them.
    pub fn amounts(&self, resource: &str) -> [String; 2] {
        [&self.requested, &self.allocatable].map(|all| short(resource, all.named(resource)))
    }

    /// Returns the requested part of a resource, in percent rounded down; `None` if the node offers none.
    pub fn percent(&self, resource: &str) -> Option<i64> {
        let [requested, all] =
            [&self.requested, &self.allocatable].map(|all| i128::from(all.named(resource)));
        (all > 0).then(|| i64::try_from(requested * 100 / all).unwrap_or(i64::MAX))
    }

    /// Returns true if the node runs no pods but those that belong to it.
    pub fn is_idle(&self) -> bool {
        self.pods.0 == self.pods.1
    }

    fn count(&mut self, pod: &PodInfo, sign: Sign) {
        let own = usize::from(kind_of_node_pod(pod).is_some());
        match sign {
            Sign::Plus => {
                self.pods = (self.pods.0 + 1, self.pods.1 + own);
                self.requested.add(pod.request());
            }
            Sign::Minus => {
                self.pods = (self.pods.0 - 1, self.pods.1 - own);
                self.requested.sub(pod.request());
            }
        }
    }
}

/// Use of all nodes together during a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Total {
    /// Number of attempts so far.
    pub attempts: usize,
    /// The use, of a node without a name.
    pub usage: NodeUsage,
}

enum Sign {
    Plus,
    Minus,
}

impl Serialize for NodeUsage {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let resources = self.resources().map(|resource| {
            let [requested, allocatable] = self.amounts(resource);
            (resource, BTreeMap::from([("requested", requested), ("allocatable", allocatable)]))
        });
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("node", &self.node)?;
        map.serialize_entry("zone", &self.zone)?;
        map.serialize_entry("pods", &self.pods.0)?;
        map.serialize_entry("idle", &self.is_idle())?;
        map.serialize_entry("resources", &resources.collect::<BTreeMap<_, _>>())?;
        map.end()
    }
}

/// Use of a cluster's nodes before a simulation, and what is needed to tell it afterwards.
pub struct UsageBefore {
    usage: Usage,
    /// Position of each node.
    places: HashMap<Str, usize>,
    /// All pods by `namespace/name`.
    pods: HashMap<String, std::sync::Arc<PodInfo>>,
}

impl UsageBefore {
    /// Takes stock of the cluster.
    pub fn of(cluster: &Inventory) -> Self {
        let mut specs = SpecTable::default();
        let nodes: Vec<NodeUsage> = cluster
            .nodes
            .iter()
            .map(|node| NodeUsage {
                node: node.name.clone(),
                zone: node.labels.get(LABEL_ZONE).cloned(),
                allocatable: node.allocatable.clone(),
                ..NodeUsage::default()
            })
            .collect();
        let places = nodes.iter().enumerate().map(|(at, node)| (node.node.clone(), at)).collect();
        let info = |pod: &Pod| (pod.full_name(), PodInfo::new(pod.clone(), &mut specs).into());
        let pods = cluster.bound.iter().chain(&cluster.pending).map(info).collect();
        let mut before = Self { usage: Usage { nodes }, places, pods };
        for pod in &cluster.bound {
            before.count(&pod.full_name(), pod.node_name.as_deref(), Sign::Plus);
        }
        before
    }

    /// Returns all pods by `namespace/name`, each with its node after the simulation of the same cluster.
    pub fn pods_after(&self, report: &Report) -> BTreeMap<&str, (&PodInfo, Option<Str>)> {
        let mut pods: BTreeMap<&str, (&PodInfo, Option<Str>)> =
            self.pods.iter().map(|(name, pod)| (name.as_str(), (&**pod, pod.node_name.clone()))).collect();
        for pod in &report.pods {
            if let Some((_, node)) = pods.get_mut(pod.pod.as_str()) {
                *node = pod.node.as_deref().map(Str::from);
            }
        }
        pods
    }

    /// Returns the use of all nodes together at the start of a simulation of the same cluster, after some of the attempts
    /// that changed it, and at the end. Returns nothing if the report tells no course.
    pub fn course(&self, report: &Report, most: usize) -> Vec<Total> {
        if report.course.is_empty() {
            return Vec::new();
        }
        let mut usage = NodeUsage::default();
        self.usage.nodes.iter().for_each(|node| usage.add(node));
        let every = report.course.len().div_ceil(most.max(1));
        let mut course = vec![Total { attempts: 0, usage: usage.clone() }];
        for (number, turn) in (1..).zip(&report.course) {
            if let Some(pod) = self.pods.get(&turn.pod) {
                usage.count(pod, if turn.is_placed { Sign::Plus } else { Sign::Minus });
            }
            if number % every == 0 {
                course.push(Total { attempts: turn.attempts, usage: usage.clone() });
            }
        }
        course.push(Total { attempts: report.attempts(), usage });
        course
    }

    /// Returns the use after the simulation of the same cluster.
    pub fn after(mut self, report: &Report) -> Usage {
        for pod in &report.pods {
            let known = self.pods.get(&pod.pod).and_then(|known| known.node_name.clone());
            self.count(&pod.pod, known.as_deref(), Sign::Minus);
            self.count(&pod.pod, pod.node.as_deref(), Sign::Plus);
        }
        self.usage
    }

    fn count(&mut self, pod: &str, node: Option<&str>, sign: Sign) {
        let place = node.and_then(|node| self.places.get(node));
        if let (Some(pod), Some(at)) = (self.pods.get(pod), place) {
            self.usage.nodes[*at].count(pod, sign);
        }
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::pod::OwnerReference;
    use harbormaster_testkit::{node, pod};

    use super::*;
    use crate::report::{PodReport, Turn};

    fn told(usage: &Usage) -> Vec<(usize, [String; 2], Option<i64>, bool)> {
        let told = |node: &NodeUsage| (node.pods.0, node.amounts(CPU), node.percent(CPU), node.is_idle());
        usage.nodes.iter().map(told).collect()
    }

    #[test]
    fn the_use_counts_pods_that_get_or_lose_a_node() {
        let bound = |name: &str, cpu: &str| pod(name).cpu(cpu).on("a").build();
        let mut cluster = Inventory {
            nodes: vec![
                node("a").allocatable("4", "1Gi", 9).build(),
                node("b").allocatable("8", "1Gi", 9).build(),
            ],
            bound: vec![bound("stays", "1"), bound("goes", "500m")],
            pending: vec![pod("comes").cpu("2").build()],
            ..Inventory::default()
        };
        cluster.bound[0].controller = Some(OwnerReference { kind: "DaemonSet".into(), ..Default::default() });
        let names = ["1.5", "4", "0", "8"].map(str::to_owned);
        let [a_has, a, b_has, b] = names;
        let before = UsageBefore::of(&cluster);
        assert_eq!(
            told(&before.usage),
            [(2, [a_has, a.clone()], Some(37), false), (0, [b_has, b.clone()], Some(0), true)]
        );
        let report = |pod: &str, node: Option<&str>| PodReport {
            pod: format!("default/{pod}"),
            node: node.map(str::to_owned),
            ..PodReport::default()
        };
        let pods = vec![report("comes", Some("b")), report("goes", None)];
        let report = Report { pods, ..Report::default() };
        let nodes: Vec<(&str, Option<Str>)> =
            before.pods_after(&report).into_iter().map(|(name, (_, node))| (name, node)).collect();
        let (a_node, b_node) = (Some("a".into()), Some("b".into()));
        assert_eq!(nodes, [("default/comes", b_node), ("default/goes", None), ("default/stays", a_node)]);
        let after = before.after(&report);
        assert_eq!(
            told(&after),
            [(1, ["1".to_owned(), a], Some(25), true), (1, ["2".to_owned(), b], Some(25), false)],
            "a node with DaemonSet pods alone is idle"
        );
        let mut both = after.nodes[0].clone();
        both.add(&after.nodes[1]);
        assert_eq!((both.pods.0, both.percent(CPU), both.percent("example.com/gpu")), (2, Some(25), None));
    }

    #[test]
    fn the_course_begins_with_the_cluster_and_ends_with_the_last_attempt() {
        let cluster = Inventory {
            nodes: vec![node("a").allocatable("4", "1Gi", 9).build()],
            bound: vec![pod("victim").cpu("2").on("a").build()],
            pending: ["one", "two", "large"].map(|name| pod(name).cpu("1").build()).to_vec(),
            ..Inventory::default()
        };
        let turn =
            |attempts, pod: &str, is_placed| Turn { attempts, pod: format!("default/{pod}"), is_placed };
        let course = vec![
            turn(1, "one", true),
            turn(2, "victim", false),
            turn(3, "two", true),
            turn(4, "large", true),
        ];
        let tried = PodReport { attempts: 9, ..PodReport::default() };
        let report = Report { pods: vec![tried], course, ..Report::default() };
        let told = |most| -> Vec<(usize, usize, i64)> {
            let course = UsageBefore::of(&cluster).course(&report, most);
            let told = |total: &Total| (total.attempts, total.usage.pods.0, total.usage.requested.milli_cpu);
            course.iter().map(told).collect()
        };
        assert_eq!(
            told(9),
            [(0, 1, 2000), (1, 2, 3000), (2, 1, 1000), (3, 2, 2000), (4, 3, 3000), (9, 3, 3000)]
        );
        assert_eq!(told(2), [(0, 1, 2000), (2, 1, 1000), (4, 3, 3000), (9, 3, 3000)]);
        assert_eq!(UsageBefore::of(&cluster).course(&Report::default(), 9), []);
    }
}
