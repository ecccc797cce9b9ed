//! Pod subresources with side effects: `binding` and `eviction`.

use serde_json::{Value, json};

use crate::{
    kinds::Kind,
    shelf::Range,
    status::{About, Failure, FieldError, Result},
    store::{Deletion, Manner, Store},
    time::now,
    value::{default, entries, list, map, number, remove, text},
};
use harbormaster_validation::selector::label_selector_matches;

/// Binds a pod to the node that a `v1 Binding` names.
pub(crate) fn bind(store: &Store, namespace: &str, name: &str, binding: &Value, dry_run: bool) -> Result<()> {
    let pods = store.kind("pods")?;
    if text(binding, "/metadata/name") != name {
        return Err(Failure::bad_request("name in URL does not match name in Binding object"));
    }
    let (target, node) = (text(binding, "/target/kind"), text(binding, "/target/name"));
    let about = About { group: "", plural: "bindings", kind: "Binding", name };
    if !matches!(target, "" | "Node") {
        let error = FieldError::unsupported("target.kind", target, &["Node", "<empty>"]);
        return Err(Failure::internal(error.to_string()));
    }
    if node.is_empty() {
        return Err(Failure::invalid(about, &[FieldError::required("target.name", "")]));
    }
    let about = About { group: "", plural: "pods/binding", kind: "Pod", name };
    store.modify(&pods, namespace, name, Manner::whole(dry_run), |old| {
        for (field, path) in [("UID", "/metadata/uid"), ("ResourceVersion", "/metadata/resourceVersion")] {
            let (wanted, found) = (text(binding, path), text(old, path));
            if !wanted.is_empty() && wanted != found {
                let why = format!(
                    "Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
                );
                return Err(Failure::conflict(pods.about(name), &why));
            }
        }
        bindable(old, name).map_err(|why| Failure::conflict(about, &why))?;
        let mut new = old.clone();
        new["spec"]["nodeName"] = node.into();
        remove(&mut new["status"], "nominatedNodeName");
        for field in ["annotations", "labels"] {
            for (key, value) in entries(binding, &format!("/metadata/{field}")) {
                new["metadata"][field][key.as_str()] = value.clone();
            }
        }
        let condition = json!({
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": null,
        });
        set_condition(&mut new, condition);
        Ok(new)
    })?;
    Ok(())
}

fn bindable(pod: &Value, name: &str) -> std::result::Result<(), String> {
    let node = text(pod, "/spec/nodeName");
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if !node.is_empty() {
        return Err(format!("pod {name} is already assigned to node \"{node}\""));
    }
    if !list(pod, "/spec/schedulingGates").is_empty() {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

/// Adds a condition, or replaces the one of the same type. The transition time changes only if the status does.
fn set_condition(object: &mut Value, mut condition: Value) {
    condition["lastTransitionTime"] = now().to_rfc3339().into();
    default(object, "status", json!({}));
    default(&mut object["status"], "conditions", json!([]));
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|old| old["type"] == condition["type"]) {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].take();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

/// Evicts a pod if its disruption budgets allow it.
pub(crate) fn evict(
    store: &Store,
    namespace: &str,
    name: &str,
    eviction: &Value,
    how: &Deletion,
) -> Result<()> {
    let pods = store.kind("pods")?;
    if text(eviction, "/metadata/name") != name {
        return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
    }
    let key = crate::object::key(namespace, name);
    let pod = pods.shelf.get(&key).ok_or_else(|| Failure::not_found(pods.about(name)))?;
    let value = pod.value();
    let phase = text(&value, "/status/phase");
    let counts = !matches!(phase, "Succeeded" | "Failed" | "Pending")
        && value.pointer("/metadata/deletionTimestamp").is_none();
    if counts {
        let budgets = store.kind("poddisruptionbudgets.policy")?;
        let page = budgets.shelf.list(&Range { namespace, ..Range::ALL }, |_| true).unwrap_or_default();
        let protecting: Vec<_> = page
            .objects
            .iter()
            .filter(|budget| label_selector_matches(budget.value().pointer("/spec/selector"), &pod.labels))
            .collect();
        match protecting.as_slice() {
            [] => {}
            [budget] => spend(store, &budgets, namespace, budget.name(), name, how.dry_run)?,
            _ => {
                let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(Failure::internal(message));
            }
        }
    }
    if !how.dry_run {
        store.modify(&pods, namespace, name, Manner::whole(false), |old| {
            let mut new = old.clone();
            let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": null,
            });
            set_condition(&mut new, condition);
            Ok(new)
        })?;
    }
    store.delete_in(&pods, namespace, name, how).map(|_| ())
}

/// Writes the `DisruptionAllowed` condition.
fn set_allowed(budget: &mut Value, allowed: bool) {
    let (status, reason) = if allowed { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let condition = json!({
        "type": "DisruptionAllowed",
        "status": status,
        "reason": reason,
        "message": "",
        "observedGeneration": budget.pointer("/status/observedGeneration").cloned().unwrap_or(json!(0)),
    });
    set_condition(budget, condition);
}

/// Subtracts one disruption from a budget, or refuses the eviction if the budget allows none.
fn spend(
    store: &Store,
    budgets: &Kind,
    namespace: &str,
    budget: &str,
    pod: &str,
    dry_run: bool,
) -> Result<()> {
    store.modify(budgets, namespace, budget, Manner::whole(dry_run), |old| {
        let number = |pointer: &str| number(old, pointer);
        const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
        let refused =
            |cause: &str| Failure::new(429, "TooManyRequests", REFUSED).with_cause("DisruptionBudget", cause);
        if number("/status/observedGeneration") < number("/metadata/generation") {
            let cause = format!("The disruption budget {budget} is still being processed by the server.");
            return Err(refused(&cause).with_retry_after(10));
        }
        let (allowed, needed, healthy) = (
            number("/status/disruptionsAllowed"),
            number("/status/desiredHealthy"),
            number("/status/currentHealthy"),
        );
        if allowed <= 0 {
            let cause = if healthy <= needed {
                format!(
                    "The disruption budget {budget} needs {needed} healthy pods and has {healthy} currently"
                )
            } else {
                format!("The disruption budget {budget} does not allow evicting pods currently")
            };
            return Err(refused(&cause));
        }
        let mut new = old.clone();
        new["status"]["disruptionsAllowed"] = json!(allowed - 1);
        if let Some(pods) = map(&mut new["status"], "disruptedPods") {
            pods.insert(pod.to_owned(), now().to_rfc3339().into());
        }
        set_allowed(&mut new, allowed > 1);
        Ok(new)
    })?;
    Ok(())
}
