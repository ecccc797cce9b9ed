//! Defaults that the API server sets on new pods, as far as they affect scheduling.

use crate::{
    Labels, PodSpec, Str,
    pod::{PodAffinity, PodAffinityTerm, ResourceList},
    requests::{aggregate, listed},
    resources::{CPU, MEMORY, is_hugepages, is_pod_level},
    selector::{LabelSelector, Operator, Requirement},
};

/// Namespace of objects that do not name a namespace.
pub(super) const NAMESPACE: &str = "default";

/// Fills each container's missing requests from its limits. In a pod with pod-level limits, also fills the missing
/// pod-level requests: first cpu and memory from the containers' requests; the pod-level limits then supply those that
/// are still missing (KEP-2837). `pod_level_limits` is `None` if the pod has no pod-level resources.
pub(super) fn fill_requests(spec: &mut PodSpec, pod_level_limits: Option<ResourceList>) {
    for container in spec.containers.iter_mut().chain(&mut spec.init_containers) {
        for (name, amount) in &container.limits {
            insert_absent(&mut container.requests, name, *amount);
        }
    }
    if let Some(mut limits) = pod_level_limits {
        if limits.is_empty() && spec.pod_level_requests.is_empty() {
            return;
        }
        fill_hugepages(spec, &mut limits);
        fill_pod_level(spec, &limits);
    }
}

/// Derives missing pod-level limits for hugepages from the containers' limits, except for hugepages that the pod-level
/// requests name.
fn fill_hugepages(spec: &PodSpec, limits: &mut ResourceList) {
    let containers = spec.containers.iter().chain(&spec.init_containers);
    let names: Vec<&Str> =
        containers.flat_map(|c| &c.limits).map(|(name, _)| name).filter(|name| is_hugepages(name)).collect();
    for name in names {
        if listed(&spec.pod_level_requests, name).is_none() {
            let total = aggregate(spec, |container, _| listed(&container.limits, name).unwrap_or(0));
            insert_absent(limits, name, total);
        }
    }
}

fn fill_pod_level(spec: &mut PodSpec, limits: &ResourceList) {
    if limits.is_empty() {
        return;
    }
    let mut requests = std::mem::take(&mut spec.pod_level_requests);
    for name in [CPU, MEMORY] {
        let containers = spec.containers.iter().chain(&spec.init_containers);
        let requested = containers.flat_map(|c| &c.requests).find(|(n, _)| *n == name);
        if let Some((name, _)) = requested {
            let total = aggregate(spec, |container, _| listed(&container.requests, name).unwrap_or(0));
            insert_absent(&mut requests, name, total);
        }
    }
    for (name, limit) in limits.iter().filter(|(name, _)| is_pod_level(name)) {
        insert_absent(&mut requests, name, *limit);
    }
    spec.pod_level_requests = requests;
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
