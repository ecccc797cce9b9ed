//! NetworkOverhead places the workloads of an application near each other, and [`TopologicalSort`] tries them in the
//! order in which they depend on each other.
//!
//! The plugins have the names, the arguments, the labels and the custom resources of the plugins of
//! [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins). `README.md` lists the differences.
//!
//! Reading order: [`objects`] (custom resources and labels), this file (extension points and hints), [`members`] (where
//! the pods of an application run), `costs`, `topological_sort`, [`args`].

pub mod args;
mod costs;
pub mod members;
pub mod objects;
mod topological_sort;

use std::sync::Arc;

use harbormaster::{api::Str, prelude::*};

use args::{Args, namespaces};
use costs::{Overhead, Partners, Shared, Tables};
use members::Members;
use objects::{AppGroup, NetworkTopology, group_of, workload_of};

pub use topological_sort::TopologicalSort;

const TOO_FAR: &str = "node(s) are too far from workloads that the pod depends on";

/// Places the workloads of an application near each other. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct NetworkOverhead {
    namespaces: Vec<Str>,
    weights_name: Str,
    topology_name: Str,
}

impl Plugin for NetworkOverhead {
    const NAME: &'static str = "NetworkOverhead";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let places = Action::ADD | Action::UPDATE_NODE_LABEL;
        Some(vec![
            Registration::hinted(EventResource::AssignedPod, Action::ALL, Self::after_pod),
            Registration::always(EventResource::Node, places),
            Registration::always(EventResource::of::<AppGroup>(), Action::ALL),
            Registration::always(EventResource::of::<NetworkTopology>(), Action::ALL),
        ])
    }
}

impl Build for NetworkOverhead {
    type Args = Args;

    fn build(args: Args, _: &BuildCycle) -> Result<Self, PluginError> {
        let namespaces = namespaces(args.namespaces);
        let weights_name = args.weights_name.unwrap_or_else(|| "UserDefined".into());
        let topology_name = args.network_topology_name.unwrap_or_else(|| "nt-default".into());
        Ok(Self { namespaces, weights_name, topology_name })
    }
}

impl Watches for NetworkOverhead {
    type Resources = (AppGroup, NetworkTopology);
}

impl Indexed for NetworkOverhead {
    type Index = Members;
}

impl PreFilter<WholeCluster, Shared> for NetworkOverhead {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<Shared>, Stop> {
        let Some(name) = group_of(&cx.pod.labels) else { return Ok(PreFiltered::Skip) };
        let (groups, topologies) = self.watched(cx.objects);
        let group = self.namespaces.iter().find_map(|namespace| groups.get(namespace, name));
        let group = group.ok_or_else(|| self.not_found("AppGroup", name))?;
        let dependencies = group.dependencies_of(workload_of(&cx.pod.labels));
        if dependencies.is_empty() {
            return Ok(PreFiltered::Skip);
        }
        let members: &Members = self.index(cx)?;
        let present = dependencies.iter().filter_map(|dependency| {
            Some((members.of(name, &dependency.workload.selector)?, dependency.max_network_cost))
        });
        let present: Vec<_> = present.collect();
        if present.is_empty() {
            return Ok(PreFiltered::Skip);
        }
        let topology = self.namespaces.iter().find_map(|space| topologies.get(space, &self.topology_name));
        let topology = topology.ok_or_else(|| self.not_found("NetworkTopology", &self.topology_name))?;
        let tables = Tables::of(topology, &self.weights_name);
        let mut partners = Partners::new(members.places());
        for (workload, max_cost) in present {
            partners.add(workload, max_cost, members.places(), &tables);
        }
        Ok(PreFiltered::state(Some(Arc::new(partners))))
    }
}

impl Filter<WholeCluster, Shared> for NetworkOverhead {
    fn filter(&self, cx: &Cycle<'_>, partners: &Shared, node: NodeRef<'_>) -> Verdict {
        let overhead = self.overhead(cx, partners, node.idx())?;
        if overhead.violated > overhead.satisfied { Err(Reject::evictable(TOO_FAR).into()) } else { Ok(()) }
    }

    fn lacks(&self, cx: &Cycle<'_>, partners: &Shared, node: NodeRef<'_>) -> Option<String> {
        let overhead = self.overhead(cx, partners, node.idx()).ok()?;
        Some(format!("near enough to {} pods, too far from {}", overhead.satisfied, overhead.violated))
    }
}

impl PreScore<WholeCluster, Shared, Shared> for NetworkOverhead {
    fn pre_score(&self, _: &Cycle<'_>, partners: &Shared, _: &NodeSet) -> PluginResult<PreScored<Shared>> {
        Ok(match partners {
            Some(partners) => PreScored::Continue(Some(partners.clone())),
            None => PreScored::Skip,
        })
    }
}

impl Score<WholeCluster, Shared> for NetworkOverhead {
    const NORMALIZE: Normalize = Normalize::Custom;

    /// Returns the costs, so the lowest score is the best.
    fn score(&self, cx: &Cycle<'_>, partners: &Shared, node: NodeRef<'_>) -> PluginResult<i64> {
        Ok(self.overhead(cx, partners, node.idx())?.cost)
    }

    fn score_batch(&self, cx: &Cycle<'_>, partners: &Shared, scores: &mut Scores<'_>) -> PluginResult<()> {
        let members: &Members = self.index(cx)?;
        for (row, score) in scores.iter_mut() {
            let overhead = partners.as_ref().map(|partners| partners.overhead(row, members.position_of(row)));
            *score = overhead.unwrap_or_default().cost;
        }
        Ok(())
    }

    fn normalize(
        &self,
        _: &Cycle<'_>,
        _: &Shared,
        candidates: &NodeSet,
        scores: &mut [i64],
    ) -> PluginResult<()> {
        let costs = || candidates.iter().map(|row| scores[row.at()]);
        let (Some(lowest), Some(highest)) = (costs().min(), costs().max()) else { return Ok(()) };
        if (lowest, highest) == (0, 0) {
            return Ok(());
        }
        let above = |cost: i64| i128::from(cost) - i128::from(lowest);
        let range = above(highest).max(1);
        for row in candidates {
            let share = above(scores[row.at()]) * 100 / range;
            scores[row.at()] = 100 - i64::try_from(share).unwrap_or(100);
        }
        Ok(())
    }
}

impl NetworkOverhead {
    /// Returns what it would mean for the pod to run on a node.
    fn overhead(&self, cx: &Cycle<'_>, partners: &Shared, row: NodeIdx) -> PluginResult<Overhead> {
        let Some(partners) = partners else { return Ok(Overhead::default()) };
        Ok(partners.overhead(row, self.index(cx)?.position_of(row)))
    }

    fn not_found(&self, kind: &str, name: &str) -> Reject {
        let namespaces = self.namespaces.join(", ");
        Reject::unresolvable(format!("{kind} {name} was not found (namespaces: {namespaces})"))
    }

    /// Wakes pods of the same application: their dependencies may be satisfied on other nodes now.
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old, new } = change else { return Ok(Hint::Queue) };
        let own = group_of(&pod.labels);
        let concerns =
            [old, new].into_iter().flatten().any(|other| own.is_some() && group_of(&other.labels) == own);
        Ok(if concerns { Hint::Queue } else { Hint::Skip })
    }
}

#[cfg(test)]
mod tests;
