//! Checks of changes to an existing pod.

use std::collections::BTreeSet;

use harbormaster_api::labels::subdomain_errors;
use serde_json::Value;

use super::{Errors, checks::check_form, meta::label_errors, pod_checks};
use crate::{
    FieldError,
    value::{entries, list, list_mut, text},
};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
     `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be \
     set to 1 if it was previously negative)";

pub(super) fn check(old: &Value, pod: &Value, errors: &mut Errors) {
    check_claim_names(pod, errors);
    check_extended_claim(pod, errors);
    if old.get("spec") == pod.get("spec") {
        return;
    }
    pod_checks::check_pod(pod, "", errors);
    let (before, after) = (old["spec"].clone(), pod["spec"].clone());
    for containers in ["containers", "initContainers"] {
        let (old, new) = (list(&before, &format!("/{containers}")), list(&after, &format!("/{containers}")));
        if old.len() != new.len() {
            let why = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{containers}"), why));
            return;
        }
    }
    check_tolerations(&before, &after, errors);
    check_gates(&before, &after, errors);
    check_deadline(&before, &after, errors);
    let mut munged = after;
    for containers in ["containers", "initContainers"] {
        let images: Vec<Value> =
            list(&before, &format!("/{containers}")).iter().map(|c| c["image"].clone()).collect();
        for (container, image) in list_mut(&mut munged, &format!("/{containers}")).iter_mut().zip(images) {
            put(container, "image", image);
        }
    }
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        put(&mut munged, name, before[name].clone());
    }
    let negative = before.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|s| s < 0);
    if negative && munged.get("terminationGracePeriodSeconds") == Some(&Value::from(1)) {
        put(&mut munged, "terminationGracePeriodSeconds", before["terminationGracePeriodSeconds"].clone());
    }
    if !list(&before, "/schedulingGates").is_empty() {
        narrow_while_gated(&before, &mut munged, errors);
    }
    if munged != before {
        let why = format!(
            "pod updates may not change fields other than {UPDATABLE}\n{}",
            difference(&before, &munged)
        );
        errors.push(FieldError::forbidden("spec", why));
    }
}

/// Checks the names of the claims that were generated for the pod.
fn check_claim_names(pod: &Value, errors: &mut Errors) {
    let field = "status.resourceClaimStatuses";
    let statuses = list(pod, "/status/resourceClaimStatuses");
    for (i, status) in statuses.iter().enumerate() {
        let (name, place) = (text(status, "/name"), format!("{field}[{i}]"));
        if !list(pod, "/spec/resourceClaims").iter().any(|claim| text(claim, "/name") == name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(FieldError::invalid(format!("{place}.name"), name, why));
        }
        if statuses[..i].iter().any(|earlier| text(earlier, "/name") == name) {
            errors.push(FieldError::duplicate(format!("{place}.name"), name));
        }
        if let Some(claim) = status["resourceClaimName"].as_str() {
            check_form(claim, &format!("{place}.resourceClaimName"), subdomain_errors, errors);
        }
    }
}

/// Checks what the scheduler wrote about the claim that it made for the pod's extended resources.
fn check_extended_claim(pod: &Value, errors: &mut Errors) {
    let (field, status) =
        ("status.extendedResourceClaimStatus", &pod["status"]["extendedResourceClaimStatus"]);
    if status.is_null() {
        return;
    }
    let mappings = list(status, "/requestMappings");
    if mappings.is_empty() {
        let why = "at least one request mapping is required";
        errors.push(FieldError::required(format!("{field}.requestMappings"), why));
    }
    let containers = list(pod, "/spec/initContainers").iter().chain(list(pod, "/spec/containers"));
    for (i, mapping) in mappings.iter().enumerate() {
        let place = format!("{field}.requestMappings[{i}]");
        let parts = ["containerName", "resourceName", "requestName"];
        let [container, resource, request] = parts.map(|part| text(mapping, &format!("/{part}")));
        match containers.clone().find(|known| text(known, "/name") == container) {
            None => {
                let why =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.push(FieldError::invalid(format!("{place}.containerName"), container, why));
            }
            Some(known) if known["resources"]["requests"].get(resource).is_none() => {
                let why = "must match the extended resource name of an entry in spec.initContainers.resources.requests \
                           or spec.containers.resources.requests";
                errors.push(FieldError::invalid(format!("{place}.resourceName"), resource, why));
            }
            Some(_) => {}
        }
        check_form(request, &format!("{field}.requestName"), label_errors, errors);
        if mappings[..i].contains(mapping) {
            for part in parts {
                errors.push(FieldError::duplicate(
                    format!("{place}.{part}"),
                    text(mapping, &format!("/{part}")),
                ));
            }
        }
    }
    match text(status, "/resourceClaimName") {
        "" => errors.push(FieldError::required(format!("{field}.resourceClaimName"), "")),
        claim => check_form(claim, &format!("{field}.resourceClaimName"), subdomain_errors, errors),
    }
}

fn put(value: &mut Value, name: &str, to: Value) {
    if let Some(map) = value.as_object_mut() {
        if to.is_null() {
            map.remove(name)
        } else {
            map.insert(name.to_owned(), to)
        };
    }
}

/// Describes the fields that differ, for the error message.
fn difference(before: &Value, after: &Value) -> String {
    let names: BTreeSet<&String> =
        entries(before, "").chain(entries(after, "")).map(|(name, _)| name).collect();
    let changed = names.into_iter().filter(|name| before[*name] != after[*name]);
    changed.map(|name| format!("{name}: {} -> {}", before[name], after[name])).collect::<Vec<_>>().join("\n")
}

/// Checks that existing tolerations differ at most in `tolerationSeconds`. New tolerations are allowed.
fn check_tolerations(before: &Value, after: &Value, errors: &mut Errors) {
    let mut kept = list(after, "/tolerations").to_vec();
    for toleration in &mut kept {
        put(toleration, "tolerationSeconds", Value::Null);
    }
    for toleration in list(before, "/tolerations") {
        let mut toleration = toleration.clone();
        put(&mut toleration, "tolerationSeconds", Value::Null);
        if !kept.contains(&toleration) {
            let why = "existing toleration can not be modified except its tolerationSeconds";
            errors.push(FieldError::forbidden("spec.tolerations", why));
            return;
        }
    }
}

/// Checks that scheduling gates are only removed.
fn check_gates(before: &Value, after: &Value, errors: &mut Errors) {
    let old = list(before, "/schedulingGates");
    for (i, gate) in
        list(after, "/schedulingGates").iter().enumerate().filter(|(_, gate)| !old.contains(gate))
    {
        let why =
            format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "/name"));
        errors.push(FieldError::forbidden(format!("spec.schedulingGates[{i}].name"), why));
    }
}

fn check_deadline(before: &Value, after: &Value, errors: &mut Errors) {
    let seconds = |spec: &Value| spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    match (seconds(before), seconds(after)) {
        (Some(old), Some(new)) if new > old => {
            let why = "must be less than or equal to previous value";
            errors.push(FieldError::invalid("spec.activeDeadlineSeconds", new, why));
        }
        (Some(_), None) => {
            let why = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid("spec.activeDeadlineSeconds", Value::Null, why));
        }
        (_, Some(new)) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            let why = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid("spec.activeDeadlineSeconds", new, why));
        }
        _ => {}
    }
}

/// Allows an update to narrow down the nodes that a gated pod fits: the node selector may grow, and the node affinity
/// may be set or gain expressions.
fn narrow_while_gated(before: &Value, munged: &mut Value, errors: &mut Errors) {
    let (old, new) = (before["nodeSelector"].clone(), munged["nodeSelector"].clone());
    if !entries(&old, "").all(|(key, value)| new[key] == *value) {
        let why = "only additions are allowed to spec.nodeSelector (no mutations or deletions)";
        errors.push(FieldError::invalid("spec.nodeSelector", new, why));
    }
    put(munged, "nodeSelector", old);
    let terms = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let (old, new) = (list(before, terms), list(munged, terms));
    let narrower = old.is_empty()
        || (old.len() == new.len()
            && old.iter().zip(new).all(|(old, new)| {
                ["/matchExpressions", "/matchFields"]
                    .into_iter()
                    .all(|part| list(old, part).iter().all(|e| list(new, part).contains(e)))
            }));
    if narrower {
        let affinity = before["affinity"].clone();
        put(munged, "affinity", affinity);
    }
}
