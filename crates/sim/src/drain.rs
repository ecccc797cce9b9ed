//! Order in which the pods of some nodes can be evicted. The JSON form is stable, since tools read it.

mod budgets;

use std::collections::BTreeSet;

use harbormaster_api::{Pod, Str};
use harbormaster_core::EngineConfig;
use serde::Serialize;

use crate::{inventory::Inventory, report::Report, simulate::Leaving};
use budgets::Budgets;

/// Evictions that empty some nodes, in an order that disruption budgets allow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainPlan {
    /// The nodes, which are cordoned first.
    pub nodes: Vec<String>,
    /// Rounds of evictions. A round can begin when the pods that came back after the rounds before it run.
    pub rounds: Vec<Round>,
    /// Pods that disruption budgets keep on their nodes.
    pub blocked: Vec<BlockedPod>,
    /// Pods that are not evicted.
    pub staying: Vec<StayingPod>,
    /// Pods of other nodes (`namespace/name`) that are preempted for evicted pods.
    pub preempted: Vec<String>,
}

/// Evictions that are possible at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Round {
    /// The evictions.
    pub evictions: Vec<Eviction>,
}

/// A pod that leaves its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Eviction {
    /// `namespace/name`.
    pub pod: String,
    /// The node that the pod leaves.
    pub node: String,
    /// Controller that creates the pod again, such as `ReplicaSet shop/web-6d4f`; `None` if nobody does.
    pub owner: Option<String>,
    /// Node that the pod gets when it comes back.
    pub to: Option<String>,
    /// The reason why the pod that comes back has no node, in kube-scheduler's words.
    pub message: Option<String>,
}

/// A pod that cannot be evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockedPod {
    /// `namespace/name`.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// The disruption budgets (`namespace/name`) of the pod.
    pub budgets: Vec<String>,
    /// The reason.
    pub message: String,
}

/// A pod that a drain leaves alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StayingPod {
    /// `namespace/name`.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// The reason: `DaemonSet`, `static` or `terminating`.
    pub reason: &'static str,
}

impl DrainPlan {
    /// Returns all evictions, in order.
    pub fn evictions(&self) -> impl Iterator<Item = &Eviction> {
        self.rounds.iter().flat_map(|round| &round.evictions)
    }

    /// Returns true if a pod cannot be evicted, or finds no room when it comes back.
    pub fn is_incomplete(&self) -> bool {
        !self.blocked.is_empty() || self.evictions().any(|one| one.owner.is_some() && one.to.is_none())
    }
}

/// Plans the drain of some nodes of the cluster. All of them are cordoned first, and the pending pods are scheduled as far
/// as they fit. Also returns what becomes of the pods that were pending, that come back, and that are preempted.
pub fn drain_plan(config: EngineConfig, mut cluster: Inventory, nodes: &[String]) -> (DrainPlan, Report) {
    let is_drained = |name: &str| nodes.iter().any(|node| node == name);
    for node in cluster.nodes.iter_mut().filter(|node| is_drained(&node.name)) {
        node.unschedulable = true;
    }
    let mut plan = DrainPlan { nodes: nodes.to_vec(), ..DrainPlan::default() };
    let mut waiting = Vec::new();
    for node in nodes {
        for pod in cluster.bound.iter().filter(|pod| pod.node_name.as_deref() == Some(node)) {
            match reason_to_stay(pod) {
                Some(reason) => {
                    plan.staying.push(StayingPod { pod: pod.full_name(), node: node.clone(), reason });
                }
                None => waiting.push(pod.clone()),
            }
        }
    }
    let (bound, pending) = (cluster.bound.clone(), cluster.pending.clone());
    let all = bound.iter().chain(&pending);
    let uids: Vec<(String, Str)> = all.map(|pod| (pod.full_name(), pod.uid.clone())).collect();
    let missing_nodes = cluster.missing_nodes.clone();
    let mut drain =
        Drain { budgets: Budgets::new(&cluster), lost: BTreeSet::new(), bound, absent: Vec::new() };
    let mut world = Leaving::new(config, cluster);
    drain.absent.extend(pending);
    drain.settle(&world);
    while !waiting.is_empty() {
        let (now, later) = drain.choose(waiting);
        waiting = later;
        if now.is_empty() {
            break;
        }
        now.iter().for_each(|pod| world.evict(pod));
        world.settle();
        plan.rounds.push(Round { evictions: now.iter().map(eviction).collect() });
        drain.absent.extend(now.into_iter().filter(|pod| pod.controller.is_some()));
        drain.settle(&world);
    }
    plan.blocked = waiting.iter().map(|pod| drain.blocked(pod)).collect();
    for eviction in plan.rounds.iter_mut().flat_map(|round| &mut round.evictions) {
        let uid = uids.iter().find(|(name, _)| *name == eviction.pod).map(|(_, uid)| uid);
        if let Some(report) = uid.and_then(|uid| world.report(uid)) {
            eviction.to = report.node.clone();
            eviction.message = report.message.clone();
        }
    }
    plan.preempted = world.preempted().iter().map(|pod| pod.pod.clone()).collect();
    let pods = uids.iter().filter_map(|(_, uid)| world.report(uid).cloned());
    let pods = pods.chain(world.preempted().iter().cloned()).collect();
    (plan, Report { pods, missing_nodes, ..Report::default() })
}

fn reason_to_stay(pod: &Pod) -> Option<&'static str> {
    if pod.is_terminating() { Some("terminating") } else { kind_of_node_pod(pod) }
}

/// Returns the kind of a pod that belongs to its node: `DaemonSet` or `static`.
pub(crate) fn kind_of_node_pod(pod: &Pod) -> Option<&'static str> {
    match pod.controller.as_ref().map(|owner| owner.kind.as_str()) {
        Some("DaemonSet") => Some("DaemonSet"),
        Some("Node") => Some("static"),
        _ if pod.annotations.get("kubernetes.io/config.mirror").is_some() => Some("static"),
        _ => None,
    }
}

fn eviction(pod: &Pod) -> Eviction {
    let owner = pod.controller.as_ref();
    Eviction {
        pod: pod.full_name(),
        node: pod.node_name.as_deref().unwrap_or_default().to_owned(),
        owner: owner.map(|owner| format!("{} {}/{}", owner.kind, pod.namespace, owner.name)),
        ..Eviction::default()
    }
}

/// State of the budgets during a drain.
struct Drain {
    budgets: Budgets,
    /// Pods of the beginning that had a node.
    bound: Vec<Pod>,
    /// Pods that do not run yet: pending ones, and evicted ones that came back.
    absent: Vec<Pod>,
    /// Pods (`namespace/name`) that were preempted, and count no more.
    lost: BTreeSet<String>,
}

impl Drain {
    /// Counts the pods that got a node and those that were preempted.
    fn settle(&mut self, world: &Leaving) {
        let (run, absent): (Vec<Pod>, Vec<Pod>) =
            std::mem::take(&mut self.absent).into_iter().partition(|pod| world.node_of(&pod.uid).is_some());
        self.absent = absent;
        run.iter().for_each(|pod| self.budgets.count(pod, 1));
        for victim in world.preempted() {
            if self.lost.insert(victim.pod.clone())
                && let Some(pod) = self.bound.iter().find(|pod| pod.full_name() == victim.pod)
            {
                self.budgets.count(pod, -1);
            }
        }
    }

    /// Splits pods into those that can be evicted now and the others.
    fn choose(&mut self, pods: Vec<Pod>) -> (Vec<Pod>, Vec<Pod>) {
        pods.into_iter().partition(|pod| match self.budgets.of(pod)[..] {
            [] => true,
            [budget] if self.budgets.allows(budget) => {
                self.budgets.count(pod, -1);
                true
            }
            _ => false,
        })
    }

    fn blocked(&self, pod: &Pod) -> BlockedPod {
        let budgets = self.budgets.of(pod);
        let message = match budgets[..] {
            [budget] => {
                let mut text = self.budgets.state(budget);
                let waits = self.absent.iter().filter(|absent| self.budgets.of(absent).contains(&budget));
                let names: Vec<String> = waits.map(Pod::full_name).collect();
                if !names.is_empty() {
                    text += &format!(", because these find no room: {}", names.join(", "));
                }
                text
            }
            _ => "the API server evicts no pod that has more than one disruption budget".to_owned(),
        };
        BlockedPod {
            pod: pod.full_name(),
            node: pod.node_name.as_deref().unwrap_or_default().to_owned(),
            budgets: budgets.into_iter().map(|at| self.budgets.name(at).to_owned()).collect(),
            message,
        }
    }
}
