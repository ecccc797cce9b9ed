//! PreFilter and Filter.

use harbormaster_framework::prelude::*;

use super::{
    InterPodAffinity,
    counts::{Counts, Lookup, TermKind},
    terms,
};
use crate::pod_index::PodIndex;

/// Reason for nodes where the pod's required affinity is not satisfied.
pub const REASON_AFFINITY: &str = "node(s) didn't match pod affinity rules";
/// Reason for nodes whose domain contains a pod that the pod's anti-affinity excludes.
pub const REASON_ANTI: &str = "node(s) didn't match pod anti-affinity rules";
const REASON_EXISTING_ANTI: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// The checks, in order.
const CHECKS: [(TermKind, Fix, &str); 3] = [
    (TermKind::Affinity, Fix::NothingHelps, REASON_AFFINITY),
    (TermKind::Anti, Fix::EvictionMayHelp, REASON_ANTI),
    (TermKind::ExistingAnti, Fix::EvictionMayHelp, REASON_EXISTING_ANTI),
];

fn reject((_, fix, reason): (TermKind, Fix, &'static str)) -> Reject {
    Reject { fix, reasons: vec![reason.into()] }
}

impl PreFilter<WholeCluster, Counts> for InterPodAffinity {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<Counts>, Stop> {
        let (index, spec) = (self.index(cx)?, &cx.pod.spec);
        if let Err(error) = terms::check(spec) {
            return Err(Reject::unresolvable(format!("parsing pod: {error}")).into());
        }
        let required = !terms::required(&spec.pod_affinity).is_empty()
            || !terms::required(&spec.pod_anti_affinity).is_empty();
        if !required && no_term_excludes(cx, index) {
            return Ok(PreFiltered::Skip);
        }
        let counts = Counts::new(cx, index, self.required(cx.pod))?;
        if !required && counts.has_no_existing_anti() {
            return Ok(PreFiltered::Skip);
        }
        Ok(PreFiltered::state(counts))
    }

    fn add_pod(
        &self,
        cx: &Cycle<'_>,
        state: &mut Counts,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        state.change(cx, self.index(cx)?, pod, node, 1)
    }

    fn remove_pod(
        &self,
        cx: &Cycle<'_>,
        state: &mut Counts,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        state.change(cx, self.index(cx)?, pod, node, -1)
    }
}

/// Returns true if no pod on a node has a required anti-affinity term that selects the pod. Cheap, because most pods
/// are not selected by any term.
fn no_term_excludes(cx: &Cycle<'_>, index: &PodIndex) -> bool {
    index.terms_about(cx.objects, cx.pod).all(|term| term.anti.is_empty())
}

impl Filter<WholeCluster, Counts> for InterPodAffinity {
    fn filter(&self, cx: &Cycle<'_>, state: &Counts, node: NodeRef<'_>) -> Verdict {
        let lookup = Lookup::new(cx, self.index(cx)?, state)?;
        let failed = CHECKS.into_iter().find(|(of, ..)| lookup.rejects(*of, node.idx()));
        failed.map_or(Ok(()), |check| Err(reject(check).into()))
    }

    fn filter_batch(&self, cx: &Cycle<'_>, state: &Counts, sweep: &mut Sweep<'_>) -> PluginResult<()> {
        let lookup = Lookup::new(cx, self.index(cx)?, state)?;
        let mut left = sweep.rows().clone();
        for check in CHECKS.into_iter().filter(|(of, ..)| lookup.can_reject(*of)) {
            let failed = lookup.rejected_rows(check.0, &left);
            sweep.reject_each(failed.iter(), &reject(check));
            left.subtract(&failed);
        }
        Ok(())
    }
}
