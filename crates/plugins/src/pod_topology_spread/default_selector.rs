//! The selector of default constraints.

use harbormaster_api::{
    Labels, Str,
    object::{Workload, WorkloadKind},
    selector::{LabelSelector, Operator, Requirement},
};
use harbormaster_framework::prelude::*;

/// Returns the conjunction of the selectors of the pod's services and controller, or an empty selector if there are
/// none.
pub(super) fn default_selector(pod: &PodInfo, objects: &Objects) -> LabelSelector {
    let services = objects.services(&pod.namespace).filter_map(|service| service.selector.as_ref());
    let matching = services.filter(|selector| selector.subset_of(&pod.labels));
    let mut pairs: Vec<(Str, Str)> = matching.flat_map(owned).collect();
    let mut match_expressions = Vec::new();
    match controller(pod, objects) {
        Some(Workload { kind: WorkloadKind::ReplicationController, selector: Some(own), .. }) => {
            pairs.extend(owned(&own.match_labels));
        }
        Some(Workload { selector: Some(own), .. }) if own.check().is_ok() => {
            // The labels are not merged, so if a service requires another value of a label, nothing matches.
            match_expressions.extend(owned(&own.match_labels).map(equals));
            match_expressions.extend(own.match_expressions.iter().cloned());
        }
        _ => {}
    }
    LabelSelector { match_labels: pairs.into_iter().collect(), match_expressions }
}

fn owned(labels: &Labels) -> impl Iterator<Item = (Str, Str)> + '_ {
    labels.iter().map(|(key, value)| (key.clone(), value.clone()))
}

fn equals((key, value): (Str, Str)) -> Requirement {
    Requirement { key, operator: Operator::In, values: vec![value] }
}

/// Returns the pod's controller if it exists and is of a kind that selects pods.
fn controller<'a>(pod: &PodInfo, objects: &'a Objects) -> Option<&'a Workload> {
    let owner = pod.controller.as_ref()?;
    let kind = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("v1", "ReplicationController") => WorkloadKind::ReplicationController,
        ("apps/v1", "ReplicaSet") => WorkloadKind::ReplicaSet,
        ("apps/v1", "StatefulSet") => WorkloadKind::StatefulSet,
        _ => return None,
    };
    objects.workload(kind, &pod.namespace, &owner.name)
}
