//! NodeResourceTopologyMatch: keeps pods off nodes whose kubelet would refuse them because no NUMA node has room for
//! them, and prefers nodes by their NUMA nodes.
//!
//! The plugin has the name, the arguments and the custom resource of the plugin of
//! [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins). `README.md` lists the differences.
//!
//! Reading order: [`topology`] (the custom resource), this file (extension points and hints), `alignment` (which NUMA
//! nodes a container would use), `score`, `demand` and `amount` (requests), [`mod@fingerprint`] (which pods a topology
//! contains), [`args`].

mod alignment;
mod amount;
pub mod args;
mod demand;
pub mod fingerprint;
mod score;
pub mod topology;

use std::{borrow::Cow, sync::Arc};

use harbormaster::{
    api::pod::{Container, Phase},
    prelude::*,
};

use alignment::{owned, single_numa_node};
use amount::amounts;
use args::{Args, Scoring};
use fingerprint::fingerprint;
use topology::{NodeResourceTopology, NumaNode};

/// Places pods by NUMA nodes. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct NodeResourceTopologyMatch {
    scoring: Scoring,
}

/// Number of pods of each row that have not started. Their requests may be missing in the node's topology. Rows past
/// the end have none.
#[derive(Debug, Default)]
pub struct StartingPods(Vec<usize>);

impl StartingPods {
    fn on(&self, row: NodeIdx) -> usize {
        self.0.get(row.at()).copied().unwrap_or(0)
    }
}

/// Rows past the end are equal to rows without starting pods.
impl PartialEq for StartingPods {
    fn eq(&self, other: &Self) -> bool {
        let rows = self.0.len().max(other.0.len());
        (0..rows).map(NodeIdx::from).all(|row| self.on(row) == other.on(row))
    }
}

impl Index for StartingPods {
    fn pod_joined(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        if is_starting(pod) {
            if self.0.len() <= row.at() {
                self.0.resize(row.at() + 1, 0);
            }
            self.0[row.at()] += 1;
        }
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        if is_starting(pod)
            && let Some(count) = self.0.get_mut(row.at())
        {
            *count = count.saturating_sub(1);
        }
    }
}

fn is_starting(pod: &PodInfo) -> bool {
    pod.status.phase == Phase::Pending
}

impl Plugin for NodeResourceTopologyMatch {
    const NAME: &'static str = "NodeResourceTopologyMatch";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![
            Registration::always(EventResource::AssignedPod, Action::DELETE),
            Registration::hinted(EventResource::AssignedPod, Action::UPDATE, Self::after_pod),
            Registration::always(EventResource::Node, Action::ADD | Action::UPDATE_NODE_ALLOCATABLE),
            // A deleted topology no longer restricts its node.
            Registration::on(Action::ALL, Self::after_topology),
        ])
    }
}

impl Build for NodeResourceTopologyMatch {
    type Args = Args;

    fn build(args: Args, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self { scoring: args.scoring()? })
    }
}

impl Watches for NodeResourceTopologyMatch {
    type Resources = NodeResourceTopology;
}

impl Indexed for NodeResourceTopologyMatch {
    type Index = StartingPods;
}

impl Filter for NodeResourceTopologyMatch {
    fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let (spec, qos) = (&cx.pod.spec, cx.pod.derived.qos);
        if demand::is_indifferent(spec, qos) {
            return Ok(());
        }
        let Some(topology) = self.watched(cx.objects).get("", node.name()) else { return Ok(()) };
        if !topology.manager.is_single_numa_node {
            return Ok(());
        }
        let mut numa_nodes = self.numa_nodes(cx, topology, node)?;
        if topology.manager.is_pod_scope {
            let fits = single_numa_node(&numa_nodes, qos, node, &demand::of_pod(spec)).is_some();
            return if fits { Ok(()) } else { Err(cannot_align("pod")) };
        }
        let mut align = |container: &Container, kind: &'static str, stays: bool| {
            let requests = amounts(&container.requests);
            let Some(id) = single_numa_node(&numa_nodes, qos, node, &requests) else {
                return Err(cannot_align(kind));
            };
            if stays {
                let owned = owned(qos, &requests);
                let chosen = numa_nodes.to_mut().iter_mut().filter(|numa_node| numa_node.id == id);
                chosen.for_each(|numa_node| numa_node.take(&owned));
            }
            Ok(())
        };
        for container in &spec.init_containers {
            let sidecar = container.restart_always;
            align(container, if sidecar { "sidecar container" } else { "init container" }, sidecar)?;
        }
        spec.containers.iter().try_for_each(|container| align(container, "container", true))
    }
}

fn cannot_align(what: &str) -> Stop {
    Reject::evictable(format!("cannot align {what}")).into()
}

impl Score for NodeResourceTopologyMatch {
    fn score(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        if cx.pod.derived.qos != harbormaster::api::QosClass::Guaranteed {
            return Ok(100);
        }
        let Some(topology) = self.watched(cx.objects).get("", node.name()) else { return Ok(0) };
        Ok(match self.numa_nodes(cx, topology, node)? {
            Cow::Borrowed(_) => score::score(&self.scoring, topology, &cx.pod.spec),
            Cow::Owned(numa_nodes) => {
                let changed = NodeResourceTopology { numa_nodes, ..NodeResourceTopology::clone(topology) };
                score::score(&self.scoring, &changed, &cx.pod.spec)
            }
        })
    }
}

impl NodeResourceTopologyMatch {
    /// Returns the NUMA nodes without what pods occupy that the topology does not contain yet. It is not known which
    /// NUMA node such a pod will use, so each of them could be the one.
    fn numa_nodes<'a>(
        &self,
        cx: &Cycle<'_>,
        topology: &'a NodeResourceTopology,
        node: NodeRef<'_>,
    ) -> PluginResult<Cow<'a, [NumaNode]>> {
        let numa_nodes = topology.numa_nodes.as_slice();
        if self.index(cx)?.on(node.idx()) == 0 || contains(topology, node.pods()) {
            return Ok(Cow::Borrowed(numa_nodes));
        }
        let mut left = numa_nodes.to_vec();
        for pod in node.pods().iter().filter(|pod| is_starting(pod)) {
            let owned = owned(pod.derived.qos, &demand::of_pod(&pod.spec));
            left.iter_mut().for_each(|numa_node| numa_node.take(&owned));
        }
        Ok(Cow::Owned(left))
    }

    /// A pod that has started is in its node's topology, and no longer counts twice.
    fn after_pod(&self, _: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(old), new: Some(new) } = change else { return Ok(Hint::Queue) };
        let has_started = old.status.phase == Phase::Pending && new.status.phase != Phase::Pending;
        Ok(if has_started { Hint::Queue } else { Hint::Skip })
    }

    /// Wakes pods if the topology differs in what the plugin reads.
    fn after_topology(&self, _: &PodInfo, change: Changed<'_, NodeResourceTopology>) -> PluginResult<Hint> {
        let read = |topology: &Custom<NodeResourceTopology>| {
            (topology.manager, topology.numa_nodes.clone(), topology.fingerprint.clone())
        };
        Ok(if change.old.map(read) == change.new.map(read) { Hint::Skip } else { Hint::Queue })
    }
}

/// Returns true if the topology's fingerprint is that of the pods.
fn contains(topology: &NodeResourceTopology, pods: &[Arc<PodInfo>]) -> bool {
    topology.fingerprint.as_ref().is_some_and(|known| {
        let counted = pods.iter().filter(|pod| !known.only_exclusive || demand::has_exclusive(pod, topology));
        *known.text == *fingerprint(counted.map(|pod| (pod.namespace.as_str(), pod.name.as_str())))
    })
}

#[cfg(test)]
mod tests;
