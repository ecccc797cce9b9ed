//! NodeResourceTopologyMatch: keeps pods off nodes whose kubelet would refuse them because no NUMA node has room for
//! them, and prefers nodes by their NUMA nodes.
//!
//! The plugin has the name, the arguments and the custom resource of the plugin of
//! [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins). `README.md` lists the differences.
//!
//! Reading order: [`topology`] (the custom resource), this file (extension points and hints), `alignment` (which NUMA
//! nodes a container would use), `score`, `demand` and `amount` (requests), [`books`] and [`mod@fingerprint`] (which pods
//! a topology contains), `placement` (where they are), [`args`].

mod alignment;
mod amount;
pub mod args;
pub mod books;
mod demand;
pub mod fingerprint;
mod placement;
mod score;
pub mod topology;

use std::{borrow::Cow, sync::Arc};

use harbormaster::{
    api::{
        QosClass,
        pod::{Container, Phase},
    },
    framework::RowLog,
    prelude::*,
};

use alignment::{owned, single_numa_node};
use amount::amounts;
use args::{Args, Scoring};
use books::{Books, Page};
use topology::{NodeResourceTopology, NumaNode};

/// Places pods by NUMA nodes. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct NodeResourceTopologyMatch {
    scoring: Scoring,
    /// True if evictions give NUMA nodes their resources back.
    preempts: bool,
}

impl Plugin for NodeResourceTopologyMatch {
    const NAME: &'static str = "NodeResourceTopologyMatch";
    const MAY_BLOCK: bool = false;
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
        Ok(Self { preempts: args.preempts(), scoring: args.scoring()? })
    }
}

impl Watches for NodeResourceTopologyMatch {
    type Resources = NodeResourceTopology;
}

impl Indexed for NodeResourceTopologyMatch {
    type Index = Books;
}

impl ReadsCluster for NodeResourceTopologyMatch {
    fn reads_cluster(&self, cx: &Cycle<'_>, reads: &mut Reads) -> PluginResult<()> {
        if !demand::is_indifferent(&cx.pod.spec, cx.pod.derived.qos) {
            // All else that answers depend on is in the log.
            reads.of(&"topologies");
        }
        Ok(())
    }

    fn changed_rows<'a>(&self, cx: &Cycle<'a>) -> PluginResult<Option<&'a RowLog>> {
        Ok(Some(self.index(cx)?.log()))
    }
}

impl Filter<Row> for NodeResourceTopologyMatch {
    fn filter(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let (spec, qos) = (&cx.pod.derived.spec, cx.pod.derived.qos);
        if demand::is_indifferent(spec, qos) {
            return Ok(());
        }
        let Some((cluster, topology)) = self.topology(cx, node) else { return Ok(()) };
        if !topology.manager.is_single_numa_node {
            return Ok(());
        }
        let mut numa_nodes = self.numa_nodes(&cluster, topology, node)?;
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

impl Score<Row> for NodeResourceTopologyMatch {
    fn score(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        if cx.pod.derived.qos != QosClass::Guaranteed {
            return Ok(100);
        }
        let Some((cluster, topology)) = self.topology(cx, node) else { return Ok(0) };
        let numa_nodes = match self.numa_nodes(&cluster, topology, node) {
            Ok(numa_nodes) => numa_nodes,
            Err(Stop::Reject(_)) => return Ok(0),
            Err(Stop::Error(error)) => return Err(error),
        };
        let spec = &cx.pod.derived.spec;
        Ok(score::score(&self.scoring, topology.manager, &numa_nodes, spec))
    }
}

/// Keeps a pod from evicting more pods while a topology still contains those that it has evicted.
impl PostFilter for NodeResourceTopologyMatch {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, (): &()) -> PluginResult<PostFiltered> {
        let what_if = &*cx.what_if;
        let nominated = cx.pod.status.nominated_node_name.as_ref().filter(|_| self.preempts);
        let row = nominated.and_then(|name| what_if.nodes().find(name));
        let row = row.filter(|row| what_if.rejected_by(*row) == Some(Self::NAME));
        let (Some(name), Some(row)) = (nominated, row) else { return Ok(no_help()) };
        let Some(topology) = self.watched(what_if.objects()).get("", name) else { return Ok(no_help()) };
        let cycle = what_if.cycle(cx.pod);
        if self.index(&cycle)?.page(row).is_none_or(|page| page.lack(topology).is_exact) {
            return Ok(no_help());
        }
        let why = format!("the NodeResourceTopology of the nominated node {name} is not up to date");
        Ok(PostFiltered::Unresolvable { reasons: vec![why.into()], nomination: Nomination::Keep })
    }
}

fn no_help() -> PostFiltered {
    PostFiltered::NoHelp { reasons: Vec::new(), nomination: Nomination::Keep }
}

impl NodeResourceTopologyMatch {
    /// Returns the topology of a node, and the cluster.
    fn topology<'a>(
        &self,
        cx: &RowCycle<'a>,
        node: NodeRef<'_>,
    ) -> Option<(Cycle<'a>, &'a Custom<NodeResourceTopology>)> {
        let cluster = cx.cluster()?;
        Some((cluster, self.watched(cluster.objects).get("", node.name())?))
    }

    /// Returns the NUMA nodes without what pods occupy that the topology does not contain yet. It is not known which
    /// NUMA node such a pod will use, so each of them could be the one.
    fn numa_nodes<'a>(
        &self,
        cluster: &Cycle<'_>,
        topology: &'a Custom<NodeResourceTopology>,
        node: NodeRef<'_>,
    ) -> Result<Cow<'a, [NumaNode]>, Stop> {
        let numa_nodes = topology.numa_nodes.as_slice();
        let Some(page) = self.index(cluster)?.page(node.idx()) else { return Ok(Cow::Borrowed(numa_nodes)) };
        if !page.shows(node.pods()) {
            return self.imagined(page, topology, node.pods()).map(Cow::Owned);
        }
        let lack = page.lack(topology);
        if lack.owned.is_empty() {
            return Ok(Cow::Borrowed(numa_nodes));
        }
        let mut left = numa_nodes.to_vec();
        left.iter_mut().for_each(|numa_node| numa_node.take(&lack.owned));
        Ok(Cow::Owned(left))
    }

    /// Returns the NUMA nodes as if other pods were on the node than are there.
    fn imagined(
        &self,
        page: &Page,
        topology: &Custom<NodeResourceTopology>,
        pods: &[Arc<PodInfo>],
    ) -> Result<Vec<NumaNode>, Stop> {
        let (mut left, lack) = (topology.numa_nodes.to_vec(), page.lack(topology));
        if self.preempts && lack.is_exact {
            let reported = page.pods().iter().filter(|pod| !lack.pods.contains(&pod.uid));
            give_back(&mut left, topology, &reported.collect::<Vec<_>>(), pods)?;
        }
        let is_contained = |pod: &PodInfo| {
            !lack.pods.contains(&pod.uid) && page.pods().iter().any(|known| known.uid == pod.uid)
        };
        for pod in pods.iter().filter(|pod| !is_contained(pod)) {
            let owned = owned(pod.derived.qos, &demand::of_pod(&pod.spec));
            left.iter_mut().for_each(|numa_node| numa_node.take(&owned));
        }
        Ok(left)
    }

    /// A pod that has started is in its node's topology, and no longer counts twice.
    fn after_pod(&self, _: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(old), new: Some(new) } = change else { return Ok(Hint::Queue) };
        let has_started = old.status.phase == Phase::Pending && new.status.phase != Phase::Pending;
        Ok(if has_started { Hint::Queue } else { Hint::Skip })
    }

    /// Wakes pods if the topology differs in what the plugin reads.
    fn after_topology(&self, _: &PodInfo, change: Changed<'_, NodeResourceTopology>) -> PluginResult<Hint> {
        Ok(match (change.old, change.new) {
            (Some(old), Some(new)) if old.object == new.object => Hint::Skip,
            _ => Hint::Queue,
        })
    }
}

/// Gives NUMA nodes back what pods own there that are gone. If it is not known where a pod is, it gives nothing back.
fn give_back(
    numa_nodes: &mut [NumaNode],
    topology: &NodeResourceTopology,
    reported: &[&Arc<PodInfo>],
    stay: &[Arc<PodInfo>],
) -> Result<(), Stop> {
    let Some(placement) = &topology.placement else { return Ok(()) };
    let id = |pod: &PodInfo, container: &Container| placement::id(&pod.namespace, &pod.name, &container.name);
    let ids = reported
        .iter()
        .flat_map(|pod| demand::exclusive(pod, topology).map(move |(container, _)| id(pod, container)));
    let Some(places) = placement.of(ids.collect()) else { return Ok(()) };
    let is_gone = |pod: &PodInfo| stay.iter().all(|other| other.uid != pod.uid);
    for pod in reported.iter().filter(|pod| is_gone(pod)) {
        for (container, own) in demand::exclusive(pod, topology) {
            let place = places.get(&id(pod, container));
            let mut homes = numa_nodes.iter_mut().filter(|numa_node| Some(&numa_node.id) == place);
            if !homes.all(|numa_node| numa_node.give_back(&own)) {
                let why = "eviction simulation in NRT is not possible: resource release request exceeds NUMA allocatable";
                return Err(Reject::evictable(why).into());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
