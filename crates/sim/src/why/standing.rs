//! Comparison of a placed pod's node with the next best.

use serde::Serialize;

use crate::explanation::{FittingNodes, PodExplanation};

/// A node that fits, as the pod's scores rank it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RankedNode {
    /// Name of the node.
    pub node: String,
    /// The sum of the weighted scores.
    pub total: i64,
}

/// The scores of the pod's node and of the best other node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// The pod's node; `None` if it does not fit the pod.
    pub own: Option<RankedNode>,
    /// The best other node.
    pub rival: Option<RankedNode>,
    /// Number of nodes that fit.
    pub fits: usize,
    /// Number of nodes with a better score than the pod's node.
    pub better: usize,
    /// Plugins whose scores differ between the two nodes, the largest difference first.
    pub plugins: Vec<Contrast>,
}

/// The scores of one plugin for the two nodes, with its weight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contrast {
    /// Name of the plugin.
    pub plugin: String,
    /// Score of the pod's node.
    pub own: i64,
    /// Score of the best other node.
    pub rival: i64,
}

impl Standing {
    /// Compares the scores of `node` with those of the other nodes.
    pub(super) fn of(node: &str, said: &PodExplanation) -> Self {
        let is_own = |name: &String| name == node;
        let own = said.fits.iter().find(|group| group.nodes.iter().any(is_own));
        // The groups are sorted, the best first.
        let other = |group: &FittingNodes| group.nodes.iter().find(|name| !is_own(name)).cloned();
        let rival = said.fits.iter().find_map(|group| Some((group, other(group)?)));
        let better = own.map_or(0, |own| {
            let better = said.fits.iter().filter(|group| group.total > own.total);
            better.map(|group| group.nodes.len()).sum()
        });
        let plugins = match (own, &rival) {
            (Some(own), Some((rival, _))) => contrasts(own, rival),
            _ => Vec::new(),
        };
        Self {
            own: own.map(|group| RankedNode { node: node.to_owned(), total: group.total }),
            rival: rival.map(|(group, node)| RankedNode { node, total: group.total }),
            fits: said.fits.iter().map(|group| group.nodes.len()).sum(),
            better,
            plugins,
        }
    }
}

fn contrasts(own: &FittingNodes, rival: &FittingNodes) -> Vec<Contrast> {
    let score =
        |group: &FittingNodes, plugin: &str| group.plugins.get(plugin).map_or(0, |score| score.weighted);
    let names: std::collections::BTreeSet<&str> =
        own.plugins.keys().chain(rival.plugins.keys()).map(|name| name.as_ref()).collect();
    let all = names.into_iter().map(|plugin| Contrast {
        plugin: plugin.to_owned(),
        own: score(own, plugin),
        rival: score(rival, plugin),
    });
    let mut differing: Vec<Contrast> = all.filter(|one| one.own != one.rival).collect();
    differing.sort_by_key(|one| std::cmp::Reverse(one.own.abs_diff(one.rival)));
    differing
}

#[cfg(test)]
mod tests {
    use crate::explanation::PluginScore;

    use super::*;

    fn group(total: i64, scores: &[(&'static str, i64)], nodes: &[&str]) -> FittingNodes {
        let score = |weighted| PluginScore { weighted, ..PluginScore::default() };
        FittingNodes {
            total,
            plugins: scores.iter().map(|(name, weighted)| ((*name).into(), score(*weighted))).collect(),
            nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn the_node_is_compared_with_the_best_other_node() {
        let said = PodExplanation {
            fits: vec![
                group(90, &[("A", 50), ("B", 40)], &["n1"]),
                group(70, &[("A", 30), ("B", 40)], &["n2", "n3"]),
            ],
            ..PodExplanation::default()
        };
        let node = |node: &str, total| Some(RankedNode { node: node.to_owned(), total });
        for (own, expected) in [
            ("n1", (node("n1", 90), node("n2", 70), 0, vec![("A", 50, 30)])),
            ("n2", (node("n2", 70), node("n1", 90), 1, vec![("A", 30, 50)])),
            ("gone", (None, node("n1", 90), 0, vec![])),
        ] {
            let standing = Standing::of(own, &said);
            let plugins = standing.plugins.iter().map(|one| (one.plugin.as_str(), one.own, one.rival));
            let told = (standing.own.clone(), standing.rival.clone(), standing.better, plugins.collect());
            assert_eq!((told, standing.fits), (expected, 3));
        }
    }
}
