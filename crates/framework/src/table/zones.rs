//! The order in which nodes are visited: round robin over zones.

use harbormaster_api::{
    Labels, Str,
    node::{LABEL_REGION, LABEL_REGION_BETA, LABEL_ZONE, LABEL_ZONE_BETA},
};

use crate::nodeset::NodeIdx;

/// Returns the zone of a node from its region and zone labels; the beta labels take precedence. Empty if both region
/// and zone are missing or empty.
pub fn zone_key(labels: &Labels) -> Str {
    let pick = |beta: &str, stable: &str| labels.get(beta).or_else(|| labels.get(stable)).cloned();
    let region = pick(LABEL_REGION_BETA, LABEL_REGION).unwrap_or_default();
    let zone = pick(LABEL_ZONE_BETA, LABEL_ZONE).unwrap_or_default();
    if region.is_empty() && zone.is_empty() { Str::default() } else { format!("{region}:\0:{zone}").into() }
}

/// Zones in the order in which they were first seen, each with its nodes in the order in which they joined.
#[derive(Debug, Default)]
pub(super) struct ZoneOrder(Vec<(Str, Vec<NodeIdx>)>);

impl ZoneOrder {
    pub(super) fn add(&mut self, zone: Str, row: NodeIdx) {
        match self.0.iter_mut().find(|(z, _)| *z == zone) {
            Some((_, rows)) => rows.push(row),
            None => self.0.push((zone, vec![row])),
        }
    }

    pub(super) fn remove(&mut self, zone: &str, row: NodeIdx) {
        let Some(at) = self.0.iter().position(|(z, _)| z == zone) else { return };
        self.0[at].1.retain(|r| *r != row);
        if self.0[at].1.is_empty() {
            self.0.remove(at);
        }
    }

    /// Returns the first node of every zone, then the second of every zone, and so on.
    pub(super) fn round_robin(&self) -> Vec<NodeIdx> {
        let longest = self.0.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
        (0..longest).flat_map(|at| self.0.iter().filter_map(move |(_, rows)| rows.get(at).copied())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_visited_round_robin_over_zones_in_first_seen_order() {
        let mut order = ZoneOrder::default();
        for (zone, row) in [("b", 0), ("b", 1), ("a", 2), ("b", 3), ("a", 4)] {
            order.add(zone.into(), NodeIdx(row));
        }
        assert_eq!(order.round_robin(), [0, 2, 1, 4, 3].map(NodeIdx));
        order.remove("b", NodeIdx(0));
        assert_eq!(order.round_robin(), [1, 2, 3, 4].map(NodeIdx));
    }

    #[test]
    fn beta_zone_labels_win_even_when_empty() {
        let labels: Labels = [(LABEL_ZONE, "z"), (LABEL_ZONE_BETA, "")].into_iter().collect();
        assert_eq!(zone_key(&labels), "");
        let labels: Labels = [(LABEL_ZONE, "z"), (LABEL_REGION, "r")].into_iter().collect();
        assert_eq!(zone_key(&labels), "r:\0:z");
    }
}
