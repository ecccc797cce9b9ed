//! Chapter 6. Halls: places a crew in one hall of the data center, on as few nodes as possible.

use std::collections::{BTreeMap, BTreeSet};

use harbormaster::{api::Str, prelude::*};

/// Label of a node with the name of its hall.
const HALL: &str = "example.com/hall";

/// Keeps crews together.
#[derive(Default)]
pub struct Halls;

impl Plugin for Halls {
    const NAME: &'static str = "Halls";
    implemented_points!();
}

fn hall_of(node: NodeRef<'_>) -> Option<Str> {
    node.labels()?.get(HALL).cloned()
}

impl PlacementGenerate for Halls {
    fn generate_placements(&self, cx: &GroupCycle<'_>) -> Result<Vec<GroupPlacement>, Stop> {
        let node_of = |member: &ScheduledMember| Some(cx.nodes.node(cx.nodes.find(&member.node)?));
        let chosen = cx.scheduled.iter().find_map(|member| hall_of(node_of(member)?));
        let mut halls: BTreeMap<Str, NodeSet> = BTreeMap::new();
        for node in cx.nodes.nodes() {
            if let Some(hall) = hall_of(node)
                && chosen.as_ref().is_none_or(|chosen| *chosen == hall)
            {
                halls.entry(hall).or_default().insert(node.idx());
            }
        }
        Ok(halls.into_iter().map(|(name, nodes)| GroupPlacement { name, nodes }).collect())
    }
}

impl PlacementScore for Halls {
    fn score_placement(&self, _: &GroupCycle<'_>, proposed: &ProposedPlacement<'_>) -> PluginResult<i64> {
        let nodes: BTreeSet<NodeIdx> = proposed.assignments.iter().map(|one| one.row).collect();
        Ok(nodes.len() as i64)
    }

    fn normalize_placements(&self, _: &GroupCycle<'_>, scores: &mut [i64]) -> PluginResult<()> {
        let fewest = scores.iter().copied().min().unwrap_or(0);
        scores.iter_mut().for_each(|nodes| *nodes = 100 * fewest / (*nodes).max(1));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use harbormaster::{Scheduler, simulation::Source};

    use super::*;
    use crate::Crews;

    #[test]
    fn a_crew_is_placed_in_the_hall_where_it_needs_the_fewest_nodes() {
        let config = include_str!("../halls/scheduler.yaml");
        let builder = Scheduler::builder().plugin::<Crews>().plugin::<Halls>();
        let scheduler = builder.config("scheduler.yaml", config).build().unwrap();
        let files = [include_str!("../crew/definition.yaml"), include_str!("../halls/cluster.yaml")];
        let sources = files.map(|text| Source { name: "halls.yaml".to_owned(), text: text.to_owned() });
        let simulation = scheduler.simulate(&sources).unwrap();
        let nodes: BTreeSet<_> =
            simulation.report.pods.iter().map(|pod| pod.node.as_deref().unwrap_or("none")).collect();
        assert_eq!(nodes, BTreeSet::from(["south-1", "south-2"]));
    }
}
