//! The nodes that a constraint counts: `nodeAffinityPolicy` and `nodeTaintsPolicy`.

use harbormaster_api::{
    selector::RequiredNodeAffinity,
    taint::{Toleration, find_untolerated},
};
use harbormaster_framework::prelude::*;

use super::constraints::Constraint;
use crate::rows::both;

/// A pod's requirements on nodes, to the extent that constraints honor them.
#[derive(Clone, Debug, Default)]
pub(super) struct Inclusion {
    affinity: RequiredNodeAffinity,
    compare_numbers: bool,
}

impl Inclusion {
    /// Collects the requirements. `compare_numbers` is true if the `TaintTolerationComparisonOperators` feature gate
    /// is enabled.
    pub(super) fn new(pod: &PodInfo, compare_numbers: bool) -> Self {
        let spec = &pod.spec;
        let affinity = RequiredNodeAffinity::new(spec.node_selector.as_ref(), spec.node_affinity.as_ref());
        Self { affinity, compare_numbers }
    }

    /// Returns true if the constraint, which belongs to `pod`, counts the node.
    pub(super) fn admits(&self, constraint: &Constraint, pod: &PodInfo, node: NodeRef<'_>) -> bool {
        !(constraint.honors_affinity && self.excluded_by_affinity(node)
            || constraint.honors_taints && self.excluded_by_taints(&pod.spec.tolerations, node))
    }

    /// Returns the rows in `rows` that the policies of the given constraints exclude for `cx.pod`.
    pub(super) fn exclude(&self, cx: &Cycle<'_>, constraints: &[Constraint], rows: &NodeSet) -> Excluded {
        let mut excluded = Excluded::default();
        if !self.affinity.is_empty() && constraints.iter().any(|c| c.honors_affinity) {
            let out = rows.iter().filter(|row| self.excluded_by_affinity(cx.nodes.node(*row)));
            excluded.by_affinity = Some(out.collect());
        }
        if constraints.iter().any(|c| c.honors_taints) {
            let tolerations = &cx.pod.spec.tolerations;
            let tainted = both(rows, &cx.nodes.columns().tainted);
            let out = tainted.filter(|row| self.excluded_by_taints(tolerations, cx.nodes.node(*row)));
            excluded.by_taints = Some(out.collect());
        }
        excluded
    }

    fn excluded_by_affinity(&self, node: NodeRef<'_>) -> bool {
        let meets = |labels| self.affinity.matches(labels, node.name());
        !self.affinity.is_empty() && !node.labels().is_some_and(meets)
    }

    fn excluded_by_taints(&self, tolerations: &[Toleration], node: NodeRef<'_>) -> bool {
        find_untolerated(node.taints(), tolerations, self.compare_numbers, |t| t.effect.forbids()).is_some()
    }
}

/// Rows that each policy excludes; `None` if no constraint uses the policy or if it cannot exclude any row.
#[derive(Debug, Default)]
pub(super) struct Excluded {
    by_affinity: Option<NodeSet>,
    by_taints: Option<NodeSet>,
}

impl Excluded {
    /// Returns the sets of rows that the constraint does not count.
    pub(super) fn of(&self, constraint: &Constraint) -> impl Iterator<Item = &NodeSet> {
        let by_affinity = self.by_affinity.as_ref().filter(|_| constraint.honors_affinity);
        by_affinity.into_iter().chain(self.by_taints.as_ref().filter(|_| constraint.honors_taints))
    }
}
