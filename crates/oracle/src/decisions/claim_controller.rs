//! The parts of the resource claim controller and the garbage collector that matter to a scheduler, as requests that
//! the player makes one after the other. The real controllers would make them at any time.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::paths::path;
use crate::generate::devices::admitted::FINALIZER;

/// Returns the claim for an entry of `spec.resourceClaims` of a pod or a group that names a template.
pub(super) fn claim_for(user: &Value, entry: &Value, template: &Value) -> Value {
    let metadata = &user["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (user_name, entry) = (text(&metadata["name"]), text(&entry["name"]));
    let owner = json!({
        "apiVersion": user["apiVersion"], "kind": user["kind"], "name": user_name, "uid": metadata["uid"],
        "controller": true, "blockOwnerDeletion": true,
    });
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            // The real controller adds a random suffix.
            "name": format!("{user_name}-{entry}"),
            "namespace": metadata["namespace"],
            "annotations": {"resource.kubernetes.io/pod-claim-name": entry},
            "ownerReferences": [owner],
        },
        "spec": template["spec"]["spec"],
    })
}

/// Returns the entry of the pod's `status.resourceClaimStatuses` for an entry of its spec, if the pod shares the claim
/// with its group.
pub(super) fn claim_of_group(group: &Value, entry: &Value) -> Option<Value> {
    let all = |of: &'static str, field: &'static str| group[of][field].as_array().into_iter().flatten();
    all("spec", "resourceClaims").find(|of_group| *of_group == entry)?;
    all("status", "resourceClaimStatuses").find(|status| status["name"] == entry["name"]).cloned()
}

/// Work on a claim whose pods are gone.
pub(super) enum Cleanup {
    /// Set `status.reservedFor` to the remaining consumers. If there are none, the devices become free.
    Release {
        /// Path of the claim.
        path: String,
        /// Merge patch of the status.
        patch: Value,
    },
    /// Delete the claim, which has no devices.
    Delete {
        /// Path of the claim.
        path: String,
    },
}

/// Returns work on a claim that refers to a deleted pod or group, or that is being deleted itself. `users` are the UIDs
/// of existing pods and groups.
pub(super) fn cleanup<'a>(
    mut claims: impl Iterator<Item = &'a Value>,
    users: &BTreeSet<&str>,
) -> Option<Cleanup> {
    claims.find_map(|claim| {
        let is_gone = |user: &Value| user["uid"].as_str().is_some_and(|uid| !users.contains(uid));
        let consumers = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
        let mut left = consumers.clone();
        left.retain(|consumer| !is_gone(consumer));
        let is_deleted = !claim["metadata"]["deletionTimestamp"].is_null();
        if left.len() < consumers.len()
            || is_deleted && left.is_empty() && claim["status"]["allocation"].is_object()
        {
            let mut status = json!({"reservedFor": left});
            if left.is_empty() {
                status["allocation"] = Value::Null;
                status["devices"] = Value::Null;
            }
            return Some(Cleanup::Release { path: path(claim), patch: json!({"status": status}) });
        }
        let mut owners = claim["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        (is_deleted && left.is_empty() || owners.any(is_gone)).then(|| Cleanup::Delete { path: path(claim) })
    })
}

/// Returns the patch that removes the finalizer of `claim` unless the claim has changed meanwhile. `None` if the claim
/// has devices or no finalizers.
pub(super) fn without_finalizer(claim: &Value) -> Option<Value> {
    let metadata = &claim["metadata"];
    let mut finalizers = metadata["finalizers"].as_array()?.clone();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    claim["status"]["allocation"].is_null().then(
        || json!({"metadata": {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A claim with these consumers, owned by the pod `owner`.
    fn claim(consumers: &[&str], owner: &str, is_deleted: bool) -> Value {
        let consumers: Vec<Value> = consumers.iter().map(|uid| json!({"uid": uid})).collect();
        let mut claim = json!({
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "ownerReferences": [{"uid": owner}]},
            "status": {"reservedFor": consumers},
        });
        if is_deleted {
            claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        claim
    }

    #[test]
    fn claims_are_released_before_they_are_deleted() {
        for (consumers, owner, is_deleted, expected) in [
            (&["here", "there"][..], "here", false, "keep"),
            (&["here", "gone"], "here", false, r#"{"status":{"reservedFor":[{"uid":"here"}]}}"#),
            (&["gone"], "gone", false, r#"{"status":{"allocation":null,"devices":null,"reservedFor":[]}}"#),
            (&[], "gone", false, "delete"),
            (&[], "here", true, "delete"),
            (&["here"], "here", true, "keep"),
        ] {
            let claim = claim(consumers, owner, is_deleted);
            let found = match cleanup([&claim].into_iter(), &["here", "there"].into()) {
                None => "keep".to_owned(),
                Some(Cleanup::Delete { .. }) => "delete".to_owned(),
                Some(Cleanup::Release { patch, .. }) => patch.to_string(),
            };
            assert_eq!(found, expected, "{consumers:?} {owner} {is_deleted}");
        }
    }
}
