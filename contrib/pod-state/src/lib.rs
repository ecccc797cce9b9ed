//! PodState: prefers nodes that pods are leaving, and avoids nodes that other pods are expected on.
//!
//! The plugin has the name of the plugin of [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins),
//! and gives the same scores. `README.md` lists the differences.

use harbormaster::{api::Str, prelude::*};

/// Prefers nodes that pods are leaving. See the [crate's documentation](crate).
#[derive(Clone, Copy, Debug, Default)]
pub struct PodState;

/// Number of terminating pods of each row. Rows past the end have none.
#[derive(Debug, Default)]
pub struct TerminatingPods(Vec<usize>);

impl TerminatingPods {
    fn on(&self, row: NodeIdx) -> usize {
        self.0.get(row.at()).copied().unwrap_or(0)
    }
}

/// Rows past the end are equal to rows without terminating pods.
impl PartialEq for TerminatingPods {
    fn eq(&self, other: &Self) -> bool {
        let rows = self.0.len().max(other.0.len());
        (0..rows).map(NodeIdx::from).all(|row| self.on(row) == other.on(row))
    }
}

impl Index for TerminatingPods {
    fn pod_joined(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        if pod.is_terminating() {
            if self.0.len() <= row.at() {
                self.0.resize(row.at() + 1, 0);
            }
            self.0[row.at()] += 1;
        }
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        if pod.is_terminating()
            && let Some(count) = self.0.get_mut(row.at())
        {
            *count = count.saturating_sub(1);
        }
    }
}

impl Plugin for PodState {
    const NAME: &'static str = "PodState";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    /// Scores depend on no part of the pod.
    fn reads(&self, _: RowPod<'_>, _: &mut Reads) {}
}

impl Indexed for PodState {
    type Index = TerminatingPods;
}

/// A pod that begins to terminate changes its row, but one that is nominated does not. There are few nominated pods, so
/// all of their nodes are one fact, and all scores are computed again when it changes.
impl ReadsCluster for PodState {
    fn reads_cluster(&self, cx: &Cycle<'_>, reads: &mut Reads) -> PluginResult<()> {
        let mut nodes: Vec<&Str> = cx.nominations.iter().map(|(node, _)| node).collect();
        nodes.sort_unstable();
        reads.of(&nodes);
        Ok(())
    }
}

impl Score<Row> for PodState {
    const NORMALIZE: Normalize = Normalize::MinMax;

    fn score(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        let Some(cluster) = cx.cluster() else { return Ok(0) };
        let leaving = self.index(&cluster)?.on(node.idx());
        let expected = cluster.nominations.on(node.name()).len();
        Ok(leaving as i64 - expected as i64)
    }
}

#[cfg(test)]
mod tests {
    use harbormaster::testkit::{
        PodBuilder, Trial, answers_are_repeatable, batch_equals_single, cluster, index_equals_rebuilt_one,
        node, nominate, pod, random::Dice, reads_are_complete, row_scope_holds, scores_are_valid,
    };

    use super::*;

    /// Returns the scores of nodes with these numbers of terminating and nominated pods, and one running pod each.
    fn scores(nodes: &[(usize, usize)]) -> Vec<i64> {
        let name = |at: usize| format!("n{at}");
        let pods = |kind: &'static str,
                    how_many: fn(&(usize, usize)) -> usize|
         -> Vec<(PodBuilder, String)> {
            let of_node =
                |(at, node)| (0..how_many(node)).map(move |n| (pod(&format!("{kind}-{at}-{n}")), name(at)));
            nodes.iter().enumerate().flat_map(of_node).collect()
        };
        let leaving = pods("leaving", |node| node.0).into_iter().map(|(pod, on)| pod.terminating().on(&on));
        let running = pods("running", |_| 1).into_iter().map(|(pod, on)| pod.on(&on));
        let mut there = cluster((0..nodes.len()).map(|at| node(&name(at))), leaving.chain(running));
        let expected = pods("expected", |node| node.1).into_iter();
        nominate(&mut there, expected.map(|(pod, on)| pod.nominated_to(&on).priority(-1)));
        Trial::of(PodState).scores(&there, &pod("p").info()).unwrap().unwrap()
    }

    #[test]
    fn terminating_pods_count_for_a_node_and_nominated_pods_against_it() {
        assert_eq!(scores(&[(6, 0), (3, 0), (0, 0)]), [100, 50, 0]);
        assert_eq!(scores(&[(0, 0), (0, 3), (0, 6)]), [100, 50, 0]);
        assert_eq!(scores(&[(5, 0), (3, 1), (2, 1), (0, 1)]), [100, 50, 33, 0]);
        assert_eq!(scores(&[(2, 2), (0, 0)]), [0, 0]);
    }

    #[test]
    fn the_index_follows_all_changes() {
        let some = |dice: &mut Dice, name: &str| {
            if dice.one_in(2) { dice.pod(name).terminating() } else { dice.pod(name) }
        };
        for seed in 0..20 {
            index_equals_rebuilt_one::<TerminatingPods>(seed, |dice, name| dice.node(name), some);
        }
    }

    #[test]
    fn it_passes_the_conformance_checks() {
        for seed in 0..10 {
            let mut dice = Dice::new(seed);
            let mut nodes = dice.cluster(6);
            let expected = pod("expected").nominated_to("n1");
            nominate(&mut nodes, dice.one_in(2).then_some(expected));
            let (pod, meanwhile) = (dice.pod("p").info(), dice.pod("meanwhile").info());
            let trial = Trial::of(PodState);
            answers_are_repeatable(&trial, &nodes, &pod, &meanwhile);
            batch_equals_single(&trial, &nodes, &pod);
            scores_are_valid(&trial, &nodes, &pod);
            row_scope_holds(&trial, &mut nodes, &pod, &meanwhile);
            assert!(reads_are_complete(&trial, &nodes, &[pod, meanwhile]) > 0, "no pods were compared");
        }
    }
}
