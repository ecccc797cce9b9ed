//! Defaults that the API server sets on new pods, as far as they affect scheduling.

use crate::{
    Labels, PodSpec, Str,
    pod::{PodAffinity, PodAffinityTerm, ResourceList},
    selector::{LabelSelector, Operator, Requirement},
};

/// Namespace of objects that do not name a namespace.
pub(super) const NAMESPACE: &str = "default";

/// Fills each container's missing requests from its limits.
pub(super) fn fill_requests(spec: &mut PodSpec) {
    for container in spec.containers.iter_mut().chain(&mut spec.init_containers) {
        for (name, amount) in &container.limits {
            insert_absent(&mut container.requests, name, *amount);
        }
    }
}

fn insert_absent(list: &mut ResourceList, name: &Str, amount: i64) {
    if let Err(at) = list.binary_search_by(|(n, _)| n.cmp(name)) {
        list.insert(at, (name.clone(), amount));
    }
}

/// Extends the selector of each affinity term and spread constraint: for each of its `matchLabelKeys` and
/// `mismatchLabelKeys` that is a label of the pod, adds an expression with the label's value (KEP-3633, KEP-3243).
pub(super) fn merge_label_keys(spec: &mut PodSpec, labels: &Labels) {
    for affinity in [&mut spec.pod_affinity, &mut spec.pod_anti_affinity].into_iter().flatten() {
        for term in terms(affinity) {
            if let Some(selector) = &mut term.label_selector {
                append(selector, &term.match_label_keys, &Operator::In, labels);
                append(selector, &term.mismatch_label_keys, &Operator::NotIn, labels);
            }
        }
    }
    for constraint in &mut spec.topology_spread {
        if let Some(selector) = &mut constraint.label_selector {
            append(selector, &constraint.match_label_keys, &Operator::In, labels);
        }
    }
}

fn terms(affinity: &mut PodAffinity) -> impl Iterator<Item = &mut PodAffinityTerm> {
    affinity.required.iter_mut().chain(affinity.preferred.iter_mut().map(|(_, term)| term))
}

fn append(selector: &mut LabelSelector, keys: &[Str], operator: &Operator, labels: &Labels) {
    for key in keys {
        if let Some(value) = labels.get(key) {
            let values = vec![value.clone()];
            selector.match_expressions.push(Requirement {
                key: key.clone(),
                operator: operator.clone(),
                values,
            });
        }
    }
}
