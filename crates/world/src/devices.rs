//! Resource claims of pods, as the resource claim controller treats them: claims lose their devices when their pods are
//! done; claims from templates are created for a pod and deleted with the pod.

use harbormaster_validation::value::{controller, list, name, namespace, present, text, uid};
use serde_json::{Value, json};

/// Resource name of claims.
pub const RESOURCE_CLAIMS: &str = "resourceclaims.resource.k8s.io";
/// Resource name of templates.
pub const RESOURCE_CLAIM_TEMPLATES: &str = "resourceclaimtemplates.resource.k8s.io";

/// Finalizer of allocated claims.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Annotation of a claim made from a template: the name of the entry in the pod's spec.
const ENTRY: &str = "resource.kubernetes.io/pod-claim-name";
/// Maximum length of the prefix of generated names, so that names have at most 63 characters.
const LONGEST_PREFIX: usize = 57;

/// An entry of a pod's `spec.resourceClaims`, with the name of the claim if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// The user creates the claim.
    Named(&'a str),
    /// The claim was created from a template.
    Generated {
        /// Name of the entry.
        entry: &'a str,
        /// Name of the template.
        template: &'a str,
        /// Name of the claim.
        claim: &'a str,
    },
    /// The claim has yet to be created from a template.
    Wanted {
        /// Name of the entry.
        entry: &'a str,
        /// Name of the template.
        template: &'a str,
    },
    /// The pod needs no claim for the entry.
    Needless,
}

impl<'a> Entry<'a> {
    /// Returns the name of the claim, if it is known.
    pub fn claim(self) -> Option<&'a str> {
        match self {
            Self::Named(claim) | Self::Generated { claim, .. } => Some(claim),
            Self::Wanted { .. } | Self::Needless => None,
        }
    }
}

/// Returns the entries of a pod's `spec.resourceClaims`.
pub fn entries(pod: &Value) -> impl Iterator<Item = Entry<'_>> {
    let statuses = list(pod, "/status/resourceClaimStatuses");
    list(pod, "/spec/resourceClaims").iter().map(move |of| {
        let (entry, template) = (text(of, "/name"), text(of, "/resourceClaimTemplateName"));
        if template.is_empty() {
            return Entry::Named(text(of, "/resourceClaimName"));
        }
        match statuses.iter().find(|status| text(status, "/name") == entry) {
            None => Entry::Wanted { entry, template },
            Some(status) => match text(status, "/resourceClaimName") {
                "" => Entry::Needless,
                claim => Entry::Generated { entry, template, claim },
            },
        }
    })
}

/// Returns true if a pod no longer needs its claims: it has finished, or it was deleted before it had a node.
pub fn is_done(pod: &Value) -> bool {
    let is_ending = present(pod, "/metadata/deletionTimestamp").is_some();
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
        || (is_ending && text(pod, "/spec/nodeName").is_empty())
}

/// Returns a new claim for an entry of a pod's `spec.resourceClaims`. The claim has no name yet, only `generateName`.
pub fn of_template(pod: &Value, entry: &str, template: &Value) -> Value {
    let labels = template.pointer("/spec/metadata/labels").cloned().unwrap_or_default();
    let mut annotations = template.pointer("/spec/metadata/annotations").cloned().unwrap_or_default();
    annotations[ENTRY] = entry.into();
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": namespace(pod),
            "generateName": prefix(name(pod), entry),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences":
                [{"apiVersion": "v1", "kind": "Pod", "name": name(pod), "uid": uid(pod), "controller": true}],
        },
        "spec": template["spec"]["spec"],
    })
}

/// Returns the prefix of generated names. Long names of pods and entries are shortened in proportion.
fn prefix(pod: &str, entry: &str) -> String {
    let prefix = format!("{pod}-{entry}-");
    if prefix.len() <= LONGEST_PREFIX {
        return prefix;
    }
    let part = |text: &str| text.chars().take(text.len() * LONGEST_PREFIX / prefix.len()).collect::<String>();
    format!("{}-{}", part(pod), part(entry))
}

/// Returns true if a claim was created for the pod.
pub fn is_for(pod: &Value, claim: &Value) -> bool {
    controller(claim).is_some_and(|owner| text(owner, "/uid") == uid(pod))
}

/// Returns true if a claim was created for the given entry of a pod's spec.
pub fn is_for_entry(pod: &Value, entry: &str, claim: &Value) -> bool {
    is_for(pod, claim) && claim["metadata"]["annotations"][ENTRY] == entry
}

/// Returns the entry for a pod in `status.reservedFor`.
pub fn consumer(pod: &Value) -> Value {
    json!({"resource": "pods", "name": name(pod), "uid": uid(pod)})
}

/// Returns true if a claim is allocated but not reserved for the pod.
pub fn lacks_consumer(pod: &Value, claim: &Value) -> bool {
    let consumers = list(claim, "/status/reservedFor");
    present(claim, "/status/allocation").is_some()
        && !consumers.iter().any(|consumer| text(consumer, "/uid") == uid(pod))
}

/// Necessary changes of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// The new status, if consumers are gone or devices are given back.
    pub status: Option<Value>,
    /// True to remove the finalizer.
    pub unprotect: bool,
    /// True to delete the claim.
    pub delete: bool,
}

/// Returns the necessary changes to a claim; `pod` finds pods by name in the claim's namespace.
///
/// A claim that loses its last consumer also loses its devices, so that the next consumer can get devices elsewhere. A
/// claim that was created for a pod is deleted once the pod is gone or no longer needs it.
pub fn upkeep<'a>(claim: &Value, pod: impl Fn(&str) -> Option<&'a Value>) -> Upkeep {
    let uses = |consumer: &Value| {
        let is_pod = text(consumer, "/apiGroup").is_empty() && text(consumer, "/resource") == "pods";
        let still = |pod: &Value| uid(pod) == text(consumer, "/uid") && !is_done(pod);
        !is_pod || pod(text(consumer, "/name")).is_some_and(still)
    };
    let consumers = list(claim, "/status/reservedFor");
    let remaining: Vec<Value> = consumers.iter().filter(|consumer| uses(consumer)).cloned().collect();
    let (is_unused, is_released) = (remaining.is_empty(), remaining.len() < consumers.len());
    let is_protected = list(claim, "/metadata/finalizers").iter().any(|finalizer| finalizer == FINALIZER);
    let is_ending = present(claim, "/metadata/deletionTimestamp").is_some();
    let is_allocated = present(claim, "/status/allocation").is_some();
    let gives_back = is_unused && is_protected && (is_released || is_ending);

    let mut status = claim.get("status").cloned().unwrap_or_else(|| json!({}));
    if let Some(status) = status.as_object_mut().filter(|_| is_released || (gives_back && is_allocated)) {
        status.remove("reservedFor");
        if !is_unused {
            status.insert("reservedFor".to_owned(), remaining.into());
        }
        if gives_back {
            status.remove("allocation");
        }
    }
    let without_devices = present(&status, "/allocation").is_none();
    let is_orphan = owner(claim).is_some_and(|owner| match pod(text(owner, "/name")) {
        Some(pod) => uid(pod) != text(owner, "/uid") || (is_unused && is_done(pod)),
        None => true,
    });
    Upkeep {
        unprotect: is_protected && without_devices && (is_released || gives_back),
        status: (claim.get("status") != Some(&status) && (is_released || gives_back)).then_some(status),
        delete: is_orphan && !is_ending,
    }
}

/// Returns the necessary changes to a claim once the pod with the given UID is gone. All other pods are assumed to run.
pub fn upkeep_without(claim: &Value, gone: &str) -> Upkeep {
    let users = list(claim, "/status/reservedFor").iter().chain(owner(claim));
    let others = users.filter(|user| text(user, "/uid") != gone);
    let others: Vec<Value> =
        others.map(|user| json!({"metadata": {"name": user["name"], "uid": user["uid"]}})).collect();
    upkeep(claim, |wanted| others.iter().find(|pod| name(pod) == wanted))
}

/// Records an allocation, if there is a new one, and reserves the claim for a pod, as a scheduler does.
pub fn allot(claim: &mut Value, allocation: Option<Value>, pod: Value) {
    if !claim["status"].is_object() {
        claim["status"] = json!({});
    }
    if let Some(allocation) = allocation {
        let mut finalizers = list(claim, "/metadata/finalizers").to_vec();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.into());
            claim["metadata"]["finalizers"] = finalizers.into();
        }
        claim["status"]["allocation"] = allocation;
    }
    let mut consumers = list(claim, "/status/reservedFor").to_vec();
    if !consumers.iter().any(|consumer| consumer["uid"] == pod["uid"]) {
        consumers.push(pod);
        claim["status"]["reservedFor"] = consumers.into();
    }
}

/// Returns the reference to the pod that controls a claim.
fn owner(claim: &Value) -> Option<&Value> {
    let is_pod = |owner: &&Value| text(owner, "/apiVersion") == "v1" && text(owner, "/kind") == "Pod";
    controller(claim).filter(is_pod)
}

/// Removes the finalizer that protects claims with devices.
pub fn unprotect(claim: &mut Value) {
    if let Some(finalizers) = claim.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
}

#[cfg(test)]
mod tests;
