//! Places a group of pods on trial, again and again, in a cluster that is otherwise at rest.

use std::sync::Arc;

use harbormaster_api::{
    Node, Pod, Str,
    pod::{PodSpec, PodStatus},
};
use harbormaster_core::{Input, cache::Cache};
use harbormaster_framework::{
    group::GroupId,
    pod::PodInfo,
    resource::{CustomKey, RawObject},
};
use harbormaster_plugins::gang_scheduling::PodGroupObject;
use serde_json::Value;

use super::{SimulatedCluster, checkpoint::Checkpoint};
use crate::report::PodReport;

/// A cluster at the end of a simulation.
pub(crate) struct Settled(SimulatedCluster<'static>);

/// A gang of which too few members have nodes.
pub(crate) struct Gang {
    /// Namespace and name.
    pub(crate) id: GroupId,
    /// Number of members that must have nodes.
    pub(crate) min_count: usize,
    /// Number of members that have nodes.
    pub(crate) placed: usize,
    /// Members without a node, in the order of the manifests, without their gates.
    pub(crate) waiting: Vec<Pod>,
}

impl From<SimulatedCluster<'static>> for Settled {
    fn from(world: SimulatedCluster<'static>) -> Self {
        Self(world)
    }
}

impl Settled {
    /// Returns the pods on their nodes, and all other objects.
    pub(crate) fn into_cache(self) -> Cache {
        self.0.engine.into_cache()
    }

    /// Returns the gang that keeps the pod with this UID waiting.
    pub(crate) fn open_gang(&self, uid: &Str) -> Option<Gang> {
        let world = &self.0;
        let group_of = |uid: &Str| world.engine.queue().get(uid).and_then(|entry| entry.pod.group());
        let id = group_of(uid)?;
        let view = world.engine.cache().at(world.now).groups.view(id)?;
        let waiting = world.order.iter().filter(|uid| group_of(uid) == Some(id));
        let waiting = waiting.filter_map(|uid| world.objects.get(uid)).filter(|pod| pod.node_name.is_none());
        (view.is_gang() && view.scheduled < view.min_count()).then(|| Gang {
            id: id.clone(),
            min_count: view.min_count(),
            placed: view.scheduled,
            waiting: waiting.map(as_created).collect(),
        })
    }
}

impl SimulatedCluster<'_> {
    /// Lets the members on nodes preempt nobody. All members of a group must agree in this.
    fn calm(&mut self, group: &GroupId) {
        let nodes = self.engine.cache().cluster.nodes().nodes();
        let members = nodes.flat_map(|node| {
            let members = node.pods().iter().filter(|pod| pod.group() == Some(group));
            members.map(move |pod| Pod { node_name: Some(node.name().clone()), ..never_preempting(&pod.pod) })
        });
        for member in members.collect::<Vec<Pod>>() {
            // Terms of a group's members are noted when they come.
            self.input(Input::PodGone(member.uid.clone()));
            self.input(Input::Pod(member));
        }
    }
}

/// Returns the pod without the permission to preempt others.
pub(crate) fn never_preempting(pod: &Pod) -> Pod {
    let spec = PodSpec { never_preempts: true, ..PodSpec::clone(&pod.spec) };
    Pod { spec: Arc::new(spec), ..pod.clone() }
}

/// Returns the pod as it was before it was tried, without its gates.
fn as_created(pod: &Pod) -> Pod {
    let resource_claims = pod.status.resource_claims.clone();
    let status = PodStatus { resource_claims, ..PodStatus::default() };
    Pod { status, scheduling_gates: Vec::new(), ..pod.clone() }
}

/// Objects that appear or change for one trial.
#[derive(Default)]
pub(crate) struct Scene {
    /// The PodGroup.
    pub(crate) group: Value,
    /// New and changed nodes.
    pub(crate) nodes: Vec<Node>,
    /// New objects.
    pub(crate) parts: Vec<RawObject>,
    /// Claims of new members.
    pub(crate) claims: Vec<Value>,
    /// The members.
    pub(crate) pods: Vec<Pod>,
}

/// A cluster in which groups are placed on trial.
pub(crate) struct Rehearsal {
    world: SimulatedCluster<'static>,
    start: Checkpoint,
    members: Vec<Arc<PodInfo>>,
    /// Nodes of the last scene, each with the node that it replaced.
    nodes: Vec<(Str, Option<Node>)>,
    parts: Vec<CustomKey>,
}

impl Rehearsal {
    /// Removes all pods that wait, and keeps the group with this name from preempting others.
    pub(crate) fn new(settled: Settled, group: &GroupId) -> Self {
        let mut world = settled.0;
        world.dismiss_waiting();
        world.calm(group);
        let start = world.checkpoint();
        Self { world, start, members: Vec::new(), nodes: Vec::new(), parts: Vec::new() }
    }

    /// Returns the cluster with what the last scene left in it.
    pub(crate) fn cache(&self) -> &Cache {
        self.world.engine.cache()
    }

    /// Like [`Self::cache`], at the end.
    pub(crate) fn into_cache(self) -> Cache {
        self.world.engine.into_cache()
    }

    /// Places the pods of the scene as far as the group allows. Returns their results, in order.
    pub(crate) fn play(&mut self, scene: Scene) -> Vec<PodReport> {
        let Scene { group, nodes, parts, claims, pods } = scene;
        self.world.publish_custom::<PodGroupObject>(group);
        for part in parts {
            self.parts.push(part.key.clone());
            self.world.input(Input::Custom(part));
        }
        for node in nodes {
            let old = self.world.engine.cache().node(&node.name).map(|old| Node::clone(old));
            self.nodes.push((node.name.clone(), old));
            self.world.input(Input::Node(node));
        }
        self.world.add_claims(claims);
        let uids: Vec<Str> = pods.iter().map(|pod| pod.uid.clone()).collect();
        for pod in pods {
            let info = PodInfo::standalone(pod.clone());
            self.world.reports.insert(pod.uid.clone(), PodReport::of(&info));
            self.world.objects.insert(pod.uid.clone(), pod.clone());
            self.members.push(info);
            self.world.input(Input::Pod(pod));
        }
        self.world.run(&mut |_, _| {});
        uids.iter().filter_map(|uid| self.world.reports.remove(uid)).collect()
    }

    /// Removes the pods of the last scene, and takes back its changes. The PodGroup stays as the scene had it.
    pub(crate) fn clear(&mut self) {
        for member in std::mem::take(&mut self.members) {
            self.world.objects.remove(&member.uid);
            self.world.input(Input::PodGone(member.uid.clone()));
        }
        self.world.restore(&self.start);
        for (name, old) in std::mem::take(&mut self.nodes).into_iter().rev() {
            self.world.input(old.map_or(Input::NodeGone(name), Input::Node));
        }
        for key in std::mem::take(&mut self.parts) {
            self.world.input(Input::CustomGone(key));
        }
        self.world.fruitless.clear();
    }
}
