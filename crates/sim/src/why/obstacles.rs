//! Finds pods that are in the way: they take what the pod needs, or one of the two repels the other.

use std::sync::Arc;

use harbormaster_api::{Node, Pod, Resources, Str, requests::spec_request};
use harbormaster_framework::{attempt::AttemptError, pod::PodInfo, table::NodeRef};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Change, Remedy,
    change::{Move, Place},
    ideas::ideas,
    trials::Trials,
    workload::workload_of,
};

/// Maximum number of obstacles of each kind that are tried, the smallest first.
const OBSTACLES: usize = 30;

/// Maximum number of single pods that are tried whatever they have to do with the pod.
const SINGLE_PODS: usize = 60;

/// Maximum number of nodes to which a pod is moved on trial.
const REFUGES: usize = 5;

/// Maximum number of pods of a workload that are moved or stopped.
const PODS: usize = 16;

/// Maximum number of nodes that are cleared of the pods of one workload, on trial.
const NODES: usize = 5;

/// Pods of one workload that may be in the way of the pod.
#[derive(Clone, Debug)]
struct Obstacle {
    /// The node that the pod gets without them; `None` for any.
    node: Option<Str>,
    /// The pods, with their nodes.
    pods: Vec<(Arc<PodInfo>, Str)>,
}

impl Obstacle {
    /// Returns one of the nodes, which are those on which the pod fits, that serves the purpose.
    fn opens(&self, nodes: &[Str]) -> Option<Str> {
        match &self.node {
            Some(node) => nodes.contains(node).then(|| node.clone()),
            None => nodes.first().cloned(),
        }
    }
}

impl Trials {
    /// Finds the smallest pod that makes enough room if it leaves its node, preferably one that fits elsewhere. If no
    /// single pod suffices, finds several pods of one workload.
    pub(super) fn make_room(&mut self) -> Result<Option<Remedy>, AttemptError> {
        if let Some(remedy) = self.smallest_room()? {
            return Ok(Some(remedy));
        }
        let single = self.single_pods();
        let mut obstacles = self.repelling_obstacles()?;
        obstacles.extend(self.crowds()?);
        obstacles.extend(self.workloads());
        obstacles.extend(single);
        self.smallest_clearing(obstacles)
    }

    /// Finds the smallest pod whose requests make room.
    pub(super) fn smallest_room(&mut self) -> Result<Option<Remedy>, AttemptError> {
        let lone = self.lone_obstacles()?;
        self.smallest_clearing(lone)
    }

    /// Returns the smallest way to clear one of the obstacles. Prefers moves.
    fn smallest_clearing(&mut self, mut obstacles: Vec<Obstacle>) -> Result<Option<Remedy>, AttemptError> {
        obstacles.sort_by_key(|obstacle| obstacle.pods.len());
        let mut best: Option<Remedy> = None;
        for obstacle in obstacles {
            let most = best.as_ref().map_or(PODS, |remedy| number_of_pods(&remedy.changes));
            if best.as_ref().is_some_and(is_move) && obstacle.pods.len() >= most {
                break;
            }
            let Some(remedy) = self.cleared(obstacle)? else { continue };
            if best.as_ref().is_none_or(|known| remedy.rank() < known.rank()) {
                best = Some(remedy);
            }
        }
        Ok(best)
    }

    /// Returns the remedy if the pod fits once the obstacle's pods have left.
    fn cleared(&mut self, mut obstacle: Obstacle) -> Result<Option<Remedy>, AttemptError> {
        self.minimise(&mut obstacle)?;
        let fits = self.fits_without(&obstacle.pods)?;
        let Some(node) = obstacle.opens(&fits).filter(|_| obstacle.pods.len() <= PODS) else {
            return Ok(None);
        };
        for attempt in 0..REFUGES {
            let Some(change) = self.moved_away(&obstacle.pods, &node, attempt)? else { break };
            if let Some(remedy) = self.remedy_on(&node, vec![change])? {
                return Ok(Some(remedy));
            }
        }
        let (changes, example) = (vec![stopped(&obstacle.pods)], node.as_str().to_owned());
        Ok(Some(Remedy { changes, fits: fits.len(), example, members: None }))
    }

    /// Returns the nodes on which the pod fits without some other pods.
    fn fits_without(&mut self, pods: &[(Arc<PodInfo>, Str)]) -> Result<Vec<Str>, AttemptError> {
        let removed = self.remove(pods);
        let fits = self.fits(&[]);
        self.undo(removed);
        fits
    }

    /// Leaves out the pods without whose removal the pod fits, too.
    fn minimise(&mut self, obstacle: &mut Obstacle) -> Result<(), AttemptError> {
        if !(2..=PODS).contains(&obstacle.pods.len()) {
            return Ok(());
        }
        if obstacle.opens(&self.fits_without(&obstacle.pods)?).is_none() {
            return Ok(());
        }
        // Later pods are tried first, so the positions of the earlier ones stay valid.
        for at in (0..obstacle.pods.len()).rev() {
            if obstacle.pods.len() == 1 {
                break;
            }
            let mut fewer = obstacle.pods.clone();
            fewer.remove(at);
            if obstacle.opens(&self.fits_without(&fewer)?).is_some() {
                obstacle.pods = fewer;
            }
        }
        Ok(())
    }

    /// Returns the change that moves the pods, which are on their nodes, to other nodes once the pod is on `node`. See
    /// [`Self::refuges`] for `attempt`.
    fn moved_away(
        &mut self,
        pods: &[(Arc<PodInfo>, Str)],
        node: &Str,
        attempt: usize,
    ) -> Result<Option<Change>, AttemptError> {
        let removed = self.remove(pods);
        let moves = self.refuges(pods, node, attempt);
        self.undo(removed);
        Ok(moves?.map(|mut moves| match (moves.pop(), &moves[..]) {
            (Some(Move { pod, from, to }), []) => {
                Change::MovePod { pod, workload: workload_of_first(pods), from, to }
            }
            (last, _) => {
                moves.extend(last);
                Change::MovePods { workload: workload_of(&pods[0].0), moves }
            }
        }))
    }

    /// Returns another node for each of the homeless pods, with the pod on `node`: for the first of them, the one with
    /// number `attempt`. Returns `None` if there are too few.
    fn refuges(
        &mut self,
        homeless: &[(Arc<PodInfo>, Str)],
        node: &Str,
        attempt: usize,
    ) -> Result<Option<Vec<Move>>, AttemptError> {
        let pod = self.info(&[]);
        self.judge.cache.assume(&pod, node);
        let moves = homeless.iter().enumerate().map(|(at, (victim, from))| {
            let without_node = self.judge.cache.info(Pod { node_name: None, ..Pod::clone(&victim.pod) });
            let fits = self.judge.fitting(&without_node)?;
            let elsewhere = fits.into_iter().filter(|to| to != from && to != node);
            let to = elsewhere.into_iter().nth(if at == 0 { attempt } else { 0 });
            Ok(to.map(|to| {
                self.judge.cache.set_pod(victim.clone(), &to);
                Move { pod: victim.full_name(), from: from.clone(), to }
            }))
        });
        let moves: Result<Option<Vec<Move>>, AttemptError> = moves.collect();
        homeless.iter().for_each(|(victim, _)| self.judge.cache.remove(&victim.uid));
        self.judge.cache.forget(&pod.uid);
        moves
    }

    /// Returns single pods, the smallest first, whose requests would make room on nodes where nothing is missing but
    /// what pods take from each other.
    fn lone_obstacles(&mut self) -> Result<Vec<Obstacle>, AttemptError> {
        let wanted = spec_request(&self.pod.spec);
        let contested = self.contested()?;
        let mut found = Vec::new();
        for (name, node, free) in self.with_free(&contested) {
            let makes_room = |pod: &&Arc<PodInfo>| {
                may_move(pod, self.pod.spec.priority) && covers(&free, [pod.request()], &wanted)
            };
            found.extend(node.pods().iter().filter(makes_room).map(|pod| (name.clone(), pod.clone())));
        }
        let size = |pod: &PodInfo| (pod.request().milli_cpu, pod.request().memory);
        found.sort_by_cached_key(|(_, pod)| (size(pod), pod.full_name()));
        found.truncate(OBSTACLES);
        let alone = found
            .into_iter()
            .map(|(node, pod)| Obstacle { node: Some(node.clone()), pods: vec![(pod, node)] });
        Ok(alone.collect())
    }

    /// Returns several pods of one workload on one node that make room together, the fewest first.
    fn crowds(&mut self) -> Result<Vec<Obstacle>, AttemptError> {
        let wanted = spec_request(&self.pod.spec);
        let contested = self.contested()?;
        let mut found = Vec::new();
        for (name, node, free) in self.with_free(&contested) {
            let mut crowds: FxHashMap<String, Vec<Arc<PodInfo>>> = FxHashMap::default();
            for pod in node.pods().iter().filter(|pod| may_move(pod, self.pod.spec.priority)) {
                crowds.entry(workload_of(pod)).or_default().push(pod.clone());
            }
            for pods in crowds.into_values() {
                if pods.len() > 1 && covers(&free, pods.iter().map(|pod| pod.request()), &wanted) {
                    let pods = pods.into_iter().map(|pod| (pod, name.clone())).collect();
                    found.push(Obstacle { node: Some(name.clone()), pods });
                }
            }
        }
        Ok(fewest(found))
    }

    /// Returns these nodes, each with what is free there.
    fn with_free<'a>(&'a self, names: &'a [Str]) -> impl Iterator<Item = (&'a Str, NodeRef<'a>, Resources)> {
        let cluster = &self.judge.cache.cluster;
        names.iter().filter_map(|name| {
            let node = cluster.node(cluster.find(name)?);
            let mut free = node.allocatable();
            free.sub(&node.requested());
            Some((name, node, free))
        })
    }

    /// Returns the nodes on which the pod would fit if pods took nothing from each other.
    fn contested(&mut self) -> Result<Vec<Str>, AttemptError> {
        let mut contested = ideas(&self.pod, &self.judge.cache.cluster);
        contested.retain(|change| {
            matches!(
                change,
                Change::LowerRequest { .. }
                    | Change::DropHostPort { .. }
                    | Change::SoftenSpread { .. }
                    | Change::DropPodAntiAffinity { .. }
            )
        });
        let full = self.full_nodes();
        for node in &full {
            let mut roomy = Node::clone(node);
            roomy.allocatable.pods = i64::MAX;
            self.judge.cache.set_node(Arc::new(roomy));
        }
        let rows = self.fits(&contested);
        full.into_iter().for_each(|node| drop(self.judge.cache.set_node(node)));
        rows
    }

    /// Returns the nodes that run as many pods as they may.
    fn full_nodes(&self) -> Vec<Arc<Node>> {
        let nodes = self.judge.cache.cluster.nodes().nodes();
        let full = nodes.filter(|node| node.requested().pods >= node.allocatable().pods);
        full.filter_map(|node| node.object().cloned()).collect()
    }

    /// Returns the pods of each workload that repels the pod or is repelled by it, near the nodes that are easiest to
    /// clear.
    fn repelling_obstacles(&mut self) -> Result<Vec<Obstacle>, AttemptError> {
        let mut found = Vec::new();
        for repelling in self.repelling() {
            let may_all_move = |(pod, _): &(Arc<PodInfo>, Str)| may_move(pod, self.pod.spec.priority);
            if !repelling.pods.iter().all(may_all_move) {
                continue;
            }
            let fits = self.fits_without(&repelling.pods)?;
            let near = fits.into_iter().take(10 * NODES).map(|node| {
                let pods = repelling.pods.iter().filter(|(_, at)| self.is_near(at, &node, &repelling.keys));
                Obstacle { pods: pods.cloned().collect(), node: Some(node) }
            });
            let mut near: Vec<Obstacle> = near.filter(|obstacle| !obstacle.pods.is_empty()).collect();
            near.sort_by_key(|obstacle| obstacle.pods.len());
            near.truncate(NODES);
            found.extend(near);
        }
        Ok(found)
    }

    /// Returns true if two nodes have the same value for one of the keys.
    fn is_near(&self, one: &Str, other: &Str, keys: &FxHashSet<Str>) -> bool {
        let cluster = &self.judge.cache.cluster;
        let labels = |name: &Str| cluster.find(name).and_then(|row| cluster.node(row).labels());
        let (Some(one), Some(other)) = (labels(one), labels(other)) else { return false };
        keys.iter().any(|key| one.get(key).is_some_and(|value| other.get(key) == Some(value)))
    }

    /// Returns all pods of each other workload of several pods, the smallest workloads first.
    fn workloads(&self) -> Vec<Obstacle> {
        let own = workload_of(&self.pod);
        let mut workloads: FxHashMap<String, Vec<(Arc<PodInfo>, Str)>> = FxHashMap::default();
        for node in self.judge.cache.cluster.nodes().nodes() {
            for pod in node.pods().iter().filter(|pod| pod.controller.is_some()) {
                workloads.entry(workload_of(pod)).or_default().push((pod.clone(), node.name().clone()));
            }
        }
        workloads.retain(|workload, pods| {
            let can_go = |(pod, _): &(Arc<PodInfo>, Str)| may_move(pod, self.pod.spec.priority);
            *workload != own && (2..=PODS).contains(&pods.len()) && pods.iter().all(can_go)
        });
        fewest(workloads.into_values().map(|pods| Obstacle { node: None, pods }).collect())
    }

    /// Returns single pods on any node, first those that the pod's spread constraints count.
    fn single_pods(&self) -> Vec<Obstacle> {
        let constraints = self.pod.spec.topology_spread.iter().filter(|constraint| constraint.hard);
        let selectors: Vec<_> =
            constraints.filter_map(|constraint| constraint.label_selector.as_ref()).collect();
        let counts = |pod: &PodInfo| {
            pod.namespace == self.pod.namespace
                && selectors.iter().any(|selector| selector.matches(&pod.labels))
        };
        let nodes = self.judge.cache.cluster.nodes().nodes();
        let pods = nodes.flat_map(|node| node.pods().iter().map(move |pod| (pod, node.name())));
        let mut pods: Vec<_> = pods.filter(|(pod, _)| may_move(pod, self.pod.spec.priority)).collect();
        pods.sort_by_cached_key(|(pod, _)| !counts(pod));
        let single = pods.into_iter().take(SINGLE_PODS);
        single.map(|(pod, node)| Obstacle { node: None, pods: vec![(pod.clone(), node.clone())] }).collect()
    }
}

/// Returns the obstacles with the fewest pods.
fn fewest(mut obstacles: Vec<Obstacle>) -> Vec<Obstacle> {
    obstacles.sort_by_cached_key(|obstacle| {
        (obstacle.pods.len(), obstacle.node.clone(), obstacle.pods[0].0.full_name())
    });
    obstacles.truncate(OBSTACLES);
    obstacles
}

/// Returns true if the pod may leave its node for a pod of this priority. Pods of DaemonSets and static pods would come
/// back.
pub(super) fn may_move(pod: &PodInfo, priority: i32) -> bool {
    let is_bound_to_node =
        pod.controller.as_ref().is_some_and(|owner| matches!(owner.kind.as_str(), "DaemonSet" | "Node"));
    pod.spec.priority <= priority && !pod.is_terminating() && !is_bound_to_node
}

/// Returns true if the free resources and those of the pods are enough.
fn covers<'a>(free: &Resources, pods: impl IntoIterator<Item = &'a Resources>, wanted: &Resources) -> bool {
    let mut room = free.clone();
    pods.into_iter().for_each(|pod| room.add(pod));
    let enough = |has: i64, wants: i64| wants == 0 || has >= wants;
    enough(room.milli_cpu, wanted.milli_cpu)
        && enough(room.memory, wanted.memory)
        && enough(room.ephemeral_storage, wanted.ephemeral_storage)
        && wanted.scalars.iter().all(|(name, wants)| enough(room.scalar(name), *wants))
}

fn is_move(remedy: &Remedy) -> bool {
    matches!(remedy.changes[..], [Change::MovePod { .. } | Change::MovePods { .. }])
}

fn number_of_pods(changes: &[Change]) -> usize {
    let count = |change: &Change| match change {
        Change::MovePods { moves, .. } => moves.len(),
        Change::StopPods { pods, .. } => pods.len(),
        _ => 1,
    };
    changes.iter().map(count).sum()
}

fn stopped(pods: &[(Arc<PodInfo>, Str)]) -> Change {
    match pods {
        [(pod, from)] => {
            Change::StopPod { pod: pod.full_name(), workload: workload_of_first(pods), from: from.clone() }
        }
        _ => Change::StopPods {
            workload: workload_of(&pods[0].0),
            pods: pods.iter().map(|(pod, from)| Place { pod: pod.full_name(), from: from.clone() }).collect(),
        },
    }
}

/// Returns the workload of the first pod, if it has a controller.
fn workload_of_first(pods: &[(Arc<PodInfo>, Str)]) -> Option<String> {
    let (pod, _) = pods.first()?;
    pod.controller.is_some().then(|| workload_of(pod))
}
