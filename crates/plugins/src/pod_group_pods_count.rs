//! PodGroupPodsCount: prefers the placement in which most members of a group get nodes (KEP-5732).
//!
//! # What it does
//! Extension point: PlacementScore.
//!
//! # Rejects when
//! It never rejects.
//!
//! # Scores by
//! The number of members that have nodes already or would get one, relative to the placement with the largest number.
//!
//! # Requeued by
//! Nothing.
//!
//! # Differs from kube-scheduler
//! It does not differ.

use harbormaster_framework::prelude::*;

/// Prefers placements for many members. See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct PodGroupPodsCount;

impl Plugin for PodGroupPodsCount {
    const NAME: &'static str = "PodGroupPodsCount";
    const MAY_BLOCK: bool = false;
    implemented_points!();
}

impl PlacementScore for PodGroupPodsCount {
    fn score_placement(&self, cx: &GroupCycle<'_>, proposed: &ProposedPlacement<'_>) -> PluginResult<i64> {
        Ok((cx.group.scheduled + proposed.assignments.len()) as i64)
    }

    fn normalize_placements(&self, _: &GroupCycle<'_>, scores: &mut [i64]) -> PluginResult<()> {
        let most = scores.iter().copied().max().unwrap_or(0);
        if most == 0 {
            return Err("no pods from pod group are assigned to any of the candidate placements".into());
        }
        scores.iter_mut().for_each(|score| *score = *score * 100 / most);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use harbormaster_framework::group::GroupId;
    use harbormaster_testkit::{cluster, node, pod};

    use super::*;

    /// Normalized scores of placements in which these numbers of members would get nodes.
    fn scores(scheduled: usize, proposed: &[usize]) -> PluginResult<Vec<i64>> {
        let nodes = cluster([node("n")], []);
        let id = GroupId { namespace: "default".into(), name: "g".into() };
        let group = PodGroup { id, uid: "u".into(), generation: 1, spec: GroupSpec::default() };
        let group = GroupView { group: &group, pods: 9, scheduled };
        let (nodes, objects) = (nodes.nodes(), nodes.objects());
        let cx = GroupCycle { group, members: &[], scheduled: &[], nodes, objects };
        let one = Assignment { pod: Arc::clone(&pod("p").info()), row: NodeIdx(0) };
        let score = |count: &usize| {
            let (placement, assignments) = (GroupPlacement::default(), vec![one.clone(); *count]);
            let proposed = ProposedPlacement { placement: &placement, assignments: &assignments };
            PodGroupPodsCount.score_placement(&cx, &proposed)
        };
        let mut scores = proposed.iter().map(score).collect::<PluginResult<Vec<i64>>>()?;
        PodGroupPodsCount.normalize_placements(&cx, &mut scores)?;
        Ok(scores)
    }

    #[test]
    fn scores_are_relative_to_the_placement_with_most_members_and_truncated() {
        for (scheduled, proposed, expected) in [
            (0, &[3, 1, 0][..], &[100, 33, 0][..]),
            (0, &[2, 2], &[100, 100]),
            (3, &[3, 1], &[100, 66]),
            (1, &[0, 0], &[100, 100]),
        ] {
            assert_eq!(scores(scheduled, proposed).unwrap(), expected, "{scheduled} {proposed:?}");
        }
    }

    #[test]
    fn placements_without_any_member_are_an_error() {
        let error = scores(0, &[0, 0]).unwrap_err().to_string();
        assert_eq!(error, "no pods from pod group are assigned to any of the candidate placements");
    }
}
