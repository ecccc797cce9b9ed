//! NodeAffinity: selects nodes by label or name.
//!
//! # What it does
//! Extension points: PreFilter, Filter, PreScore, Score. Applies `spec.nodeSelector` and `spec.affinity.nodeAffinity`
//! of the pod, and the `addedAffinity` argument, which applies to every pod of the profile.
//!
//! # Rejects when
//! - The node does not match `addedAffinity`: `node(s) didn't match scheduler-enforced node affinity`.
//! - The node does not match the pod's node selector or does not match its required affinity: `node(s) didn't match
//!   Pod's node affinity/selector`. A term with a syntax error matches nothing.
//! - Every required term names nodes, but no node can satisfy any term: `pod affinity terms conflict`.
//!
//! No eviction resolves any of these. If every required term names nodes (`matchFields` on `metadata.name`), only the
//! named nodes are considered.
//!
//! # Scores by
//! The sum of the weights of all matching preferred terms, both the pod's and those of `addedAffinity`. The sums are
//! scaled so that the largest among the candidates becomes 100. A pod is not scored if neither it nor `addedAffinity`
//! has preferred terms.
//!
//! # Requeued by
//! A new node that matches; a change to a node's labels after which the node matches the pod's node selector and
//! required affinity and before which it did not. In both cases, the node must also match `addedAffinity`.
//!
//! # Differs from kube-scheduler
//! No differences.

use std::{collections::BTreeSet, sync::Arc};

use harbormaster_api::{
    Labels, Node, PodSpec, Str,
    args::NodeAffinityArgs,
    selector::{self, NodeSelectorTerm, Operator, ParsedNodeSelector, ParsedPreferred, RequiredNodeAffinity},
};
use harbormaster_framework::prelude::*;

use crate::sign;

const REASON_POD: &str = "node(s) didn't match Pod's node affinity/selector";
const REASON_ADDED: &str = "node(s) didn't match scheduler-enforced node affinity";
const REASON_CONFLICT: &str = "pod affinity terms conflict";
/// Field with the node's name.
const FIELD_NAME: &str = "metadata.name";

/// Selects nodes by label or name. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct NodeAffinity {
    added_required: Option<ParsedNodeSelector>,
    added_preferred: Option<ParsedPreferred>,
}

impl Plugin for NodeAffinity {
    const NAME: &'static str = "NodeAffinity";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        let actions = Action::ADD | Action::UPDATE_NODE_LABEL;
        Some(vec![Registration::hinted(EventResource::Node, actions, Self::after_node)])
    }

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&pod.spec.node_selector).of(&pod.spec.node_affinity);
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        Ok(sign::node_affinity(pod).into())
    }
}

impl Build for NodeAffinity {
    type Args = NodeAffinityArgs;

    fn build(args: Self::Args, _: &BuildCycle) -> Result<Self, PluginError> {
        let Some(added) = args.added_affinity.as_ref().map(selector::NodeAffinity::from) else {
            return Ok(Self { added_required: None, added_preferred: None });
        };
        let added_required = added.required.as_ref().map(ParsedNodeSelector::new);
        if let Some(error) = added_required.as_ref().and_then(ParsedNodeSelector::error) {
            return Err(format!(
                "parsing addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: {error}"
            )
            .into());
        }
        let preferred = added.preferred.filter(|terms| !terms.is_empty());
        let added_preferred =
            preferred.map(|terms| ParsedPreferred::new(&terms)).transpose().map_err(|error| {
                format!("parsing addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: {error}")
            })?;
        Ok(Self { added_required, added_preferred })
    }
}

impl PreFilter<Row, Arc<RequiredNodeAffinity>> for NodeAffinity {
    fn pre_filter(&self, cx: &RowCycle<'_>) -> Result<PreFiltered<Arc<RequiredNodeAffinity>>, Stop> {
        let spec = &cx.pod.spec;
        let terms = spec.node_affinity.as_ref().and_then(|a| a.required.as_ref()).map(|r| &r.terms);
        if terms.is_none() && self.added_required.is_none() && spec.node_selector.is_none() {
            return Ok(PreFiltered::Skip);
        }
        let state = Arc::new(required_affinity(spec));
        let Some(names) = terms.filter(|terms| !terms.is_empty()).and_then(|terms| named_nodes(terms)) else {
            return Ok(PreFiltered::state(state));
        };
        if names.is_empty() {
            return Err(Reject::unresolvable(REASON_CONFLICT).into());
        }
        let only = names.iter().filter_map(|name| cx.nodes.find(name)).collect();
        Ok(PreFiltered::Continue { state, only: Some(only) })
    }
}

impl Filter<Row, Arc<RequiredNodeAffinity>> for NodeAffinity {
    fn filter(&self, _: &RowCycle<'_>, state: &Arc<RequiredNodeAffinity>, node: NodeRef<'_>) -> Verdict {
        self.rejection_reason(state, node).map_or(Ok(()), |reason| Err(Reject::unresolvable(reason).into()))
    }

    fn filter_batch(
        &self,
        cx: &RowCycle<'_>,
        state: &Arc<RequiredNodeAffinity>,
        sweep: &mut Sweep<'_>,
    ) -> PluginResult<()> {
        let rows = sweep.rows();
        let rejected_for = |wanted: &'static str| {
            rows.iter().filter(move |row| self.rejection_reason(state, cx.nodes.node(*row)) == Some(wanted))
        };
        if self.added_required.is_some() {
            sweep.reject_each(rejected_for(REASON_ADDED), &Reject::unresolvable(REASON_ADDED));
        }
        sweep.reject_each(rejected_for(REASON_POD), &Reject::unresolvable(REASON_POD));
        Ok(())
    }
}

impl PreScore<Row, (), ParsedPreferred> for NodeAffinity {
    fn pre_score(&self, cx: &RowCycle<'_>, (): &(), _: &NodeSet) -> PluginResult<PreScored<ParsedPreferred>> {
        let preferred = preferences(&cx.pod.spec)?;
        if preferred.is_none() && self.added_preferred.is_none() {
            return Ok(PreScored::Skip);
        }
        Ok(PreScored::Continue(preferred.unwrap_or_default()))
    }
}

impl Score<Row, ParsedPreferred> for NodeAffinity {
    const NORMALIZE: Normalize = Normalize::Proportional { reverse: false };

    fn score(&self, _: &RowCycle<'_>, state: &ParsedPreferred, node: NodeRef<'_>) -> PluginResult<i64> {
        let Some(object) = node.object() else { return Ok(0) };
        let score = |terms: &ParsedPreferred| terms.score(&object.labels, &object.name);
        let added = self.added_preferred.as_ref().map_or(0, score);
        Ok(added + score(state))
    }
}

fn required_affinity(spec: &PodSpec) -> RequiredNodeAffinity {
    RequiredNodeAffinity::new(spec.node_selector.as_ref(), spec.node_affinity.as_ref())
}

fn preferences(spec: &PodSpec) -> PluginResult<Option<ParsedPreferred>> {
    let terms = spec.node_affinity.as_ref().and_then(|a| a.preferred.as_ref());
    Ok(terms.map(|terms| ParsedPreferred::new(terms)).transpose()?)
}

/// Returns the union of the nodes that the terms name, or `None` if a term does not select nodes by name. A term names
/// the nodes that are in all of its lists of names.
fn named_nodes(terms: &[NodeSelectorTerm]) -> Option<BTreeSet<&Str>> {
    let mut all = BTreeSet::new();
    for term in terms {
        let by_name = term.match_fields.iter().filter(|r| r.key == FIELD_NAME && r.operator == Operator::In);
        let lists = by_name.map(|r| r.values.iter().collect::<BTreeSet<_>>());
        all.extend(lists.reduce(|a, b| &a & &b)?);
    }
    Some(all)
}

impl NodeAffinity {
    fn rejection_reason(
        &self,
        required_affinity: &RequiredNodeAffinity,
        node: NodeRef<'_>,
    ) -> Option<&'static str> {
        let nothing = Labels::default();
        let (labels, name) = (node.labels().unwrap_or(&nothing), node.name());
        if self.added_required.as_ref().is_some_and(|added| !added.matches(labels, name)) {
            return Some(REASON_ADDED);
        }
        (!required_affinity.matches(labels, name)).then_some(REASON_POD)
    }

    fn after_node(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Node { old, new: Some(new) } = change else { return Ok(Hint::Queue) };
        if self.added_required.as_ref().is_some_and(|added| !added.matches(&new.labels, &new.name)) {
            return Ok(Hint::Skip);
        }
        if !matches(&pod.spec, new)? {
            return Ok(Hint::Skip);
        }
        let matched_before = match old {
            Some(old) => matches(&pod.spec, old)?,
            None => false,
        };
        Ok(if matched_before { Hint::Skip } else { Hint::Queue })
    }
}

/// Returns true if the node satisfies the pod's required affinity. Unlike Filter, returns an error if a term has a
/// syntax error and no term matches.
fn matches(spec: &PodSpec, node: &Node) -> PluginResult<bool> {
    if required_affinity(spec).matches(&node.labels, &node.name) {
        return Ok(true);
    }
    let selected = spec.node_selector.as_ref().is_none_or(|s| s.subset_of(&node.labels));
    let required = spec.node_affinity.as_ref().and_then(|a| a.required.as_ref()).filter(|_| selected);
    match required.and_then(|r| ParsedNodeSelector::new(r).error()) {
        Some(error) => Err(error.into()),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests;
