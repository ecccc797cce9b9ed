//! Where the pod may go.

use harbormaster_framework::prelude::*;

use super::{
    InterPodAffinity,
    counts::{Counts, Lookup, Of},
    terms,
};
use crate::pod_index::PodIndex;

/// No node where the pod's own required affinity holds.
pub const REASON_AFFINITY: &str = "node(s) didn't match pod affinity rules";
/// A pod there, or in the same domain, that the pod's own anti-affinity excludes.
pub const REASON_ANTI: &str = "node(s) didn't match pod anti-affinity rules";
const REASON_ANTI_OF_OTHERS: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// The checks in order.
const CHECKS: [(Of, Fix, &str); 3] = [
    (Of::Affinity, Fix::NothingHelps, REASON_AFFINITY),
    (Of::Anti, Fix::EvictionMayHelp, REASON_ANTI),
    (Of::AntiOfOthers, Fix::EvictionMayHelp, REASON_ANTI_OF_OTHERS),
];

fn reject((_, fix, reason): (Of, Fix, &'static str)) -> Reject {
    Reject { fix, reasons: vec![reason.into()] }
}

impl PreFilter for InterPodAffinity {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<Self::FilterState>, Stop> {
        let (index, spec) = (cx.index()?, &cx.pod.spec);
        if let Err(error) = terms::check(spec) {
            return Err(Reject::unresolvable(format!("parsing pod: {error}")).into());
        }
        let required = !terms::required(&spec.pod_affinity).is_empty()
            || !terms::required(&spec.pod_anti_affinity).is_empty();
        if !required && index_is_silent(cx, index) {
            return Ok(PreFiltered::Skip);
        }
        let counts = Counts::new(cx, index)?;
        if !required && counts.nobody_objects() {
            return Ok(PreFiltered::Skip);
        }
        Ok(PreFiltered::state(counts))
    }

    fn add_pod(
        &self,
        cx: &Cycle<'_>,
        state: &mut Self::FilterState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        state.change(cx, pod, node, 1)
    }

    fn remove_pod(
        &self,
        cx: &Cycle<'_>,
        state: &mut Self::FilterState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        state.change(cx, pod, node, -1)
    }
}

/// The cheap way to see that nobody objects: most pods are not spoken of at all.
fn index_is_silent(cx: &Cycle<'_>, index: &PodIndex) -> bool {
    index.terms_about(cx.objects, cx.pod).all(|term| term.anti.is_empty())
}

impl Filter for InterPodAffinity {
    fn filter(&self, cx: &Cycle<'_>, state: &Self::FilterState, node: NodeRef<'_>) -> Verdict {
        let lookup = Lookup::new(cx, state)?;
        let failed = CHECKS.into_iter().find(|(of, ..)| lookup.rejects(*of, node.idx()));
        failed.map_or(Ok(()), |check| Err(reject(check).into()))
    }

    fn filter_batch(
        &self,
        cx: &Cycle<'_>,
        state: &Self::FilterState,
        sweep: &mut Sweep<'_>,
    ) -> PluginResult<()> {
        let lookup = Lookup::new(cx, state)?;
        let mut left = sweep.rows().clone();
        for check in CHECKS.into_iter().filter(|(of, ..)| lookup.matters(*of)) {
            let failed = lookup.rejected_of(check.0, &left);
            sweep.reject_each(failed.iter(), &reject(check));
            left.subtract(&failed);
        }
        Ok(())
    }
}
