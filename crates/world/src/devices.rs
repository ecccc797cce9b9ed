//! Resource claims of pods and of groups of pods, as the resource claim controller treats them: claims lose their devices
//! when their pods are done and their groups are gone; claims from templates are created for a pod or a group, and
//! deleted with it.
//!
//! Pods and groups list their claims in the same fields, so most functions take either, as the user of a claim.

use harbormaster_validation::value::{controller, list, name, namespace, present, text, uid};
use serde_json::{Value, json};

/// Resource name of claims.
pub const RESOURCE_CLAIMS: &str = "resourceclaims.resource.k8s.io";
/// Resource name of groups of pods.
pub const POD_GROUPS: &str = "podgroups.scheduling.k8s.io";
/// Resource name of templates.
pub const RESOURCE_CLAIM_TEMPLATES: &str = "resourceclaimtemplates.resource.k8s.io";

/// Finalizer of allocated claims.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Annotation of a claim made from a template: the name of the entry in the pod's spec.
const ENTRY: &str = "resource.kubernetes.io/pod-claim-name";
/// Maximum length of the prefix of generated names, so that names have at most 63 characters.
const LONGEST_PREFIX: usize = 57;

/// An entry of a user's `spec.resourceClaims`, with the name of the claim if that is known.
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
    /// The user needs no claim for the entry.
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

/// Returns the entries of a user's `spec.resourceClaims`.
pub fn entries(user: &Value) -> impl Iterator<Item = Entry<'_>> {
    let statuses = list(user, "/status/resourceClaimStatuses");
    list(user, "/spec/resourceClaims").iter().map(move |of| {
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

/// Returns true if the object is a group of pods.
fn is_group(user: &Value) -> bool {
    user["kind"] == "PodGroup"
}

/// Returns the group to which a pod belongs, in the pod's namespace; empty if the pod is on its own.
pub fn group_of(pod: &Value) -> &str {
    text(pod, "/spec/schedulingGroup/podGroupName")
}

/// Returns true if the group has the same entry as the pod, so that the claim belongs to the group.
pub fn is_of_group(pod: &Value, entry: &str, group: &Value) -> bool {
    let find =
        |user: &Value| list(user, "/spec/resourceClaims").iter().find(|of| of["name"] == entry).cloned();
    let names = |of: Value| [of["resourceClaimName"].clone(), of["resourceClaimTemplateName"].clone()];
    match (find(pod), find(group)) {
        (Some(own), Some(other)) => names(own) == names(other),
        _ => false,
    }
}

/// Returns a new claim for an entry of a user's `spec.resourceClaims`. The claim has no name yet, only `generateName`.
pub fn of_template(user: &Value, entry: &str, template: &Value) -> Value {
    let (api, kind) = match is_group(user) {
        true => ("scheduling.k8s.io/v1beta1", "PodGroup"),
        false => ("v1", "Pod"),
    };
    let labels = template.pointer("/spec/metadata/labels").cloned().unwrap_or_default();
    let mut annotations = template.pointer("/spec/metadata/annotations").cloned().unwrap_or_default();
    annotations[ENTRY] = entry.into();
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": namespace(user),
            "generateName": prefix(name(user), entry),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences":
                [{"apiVersion": api, "kind": kind, "name": name(user), "uid": uid(user), "controller": true}],
        },
        "spec": template["spec"]["spec"],
    })
}

/// Returns the prefix of generated names. Long names of users and entries are shortened in proportion.
fn prefix(user: &str, entry: &str) -> String {
    let prefix = format!("{user}-{entry}-");
    if prefix.len() <= LONGEST_PREFIX {
        return prefix;
    }
    let part = |text: &str| text.chars().take(text.len() * LONGEST_PREFIX / prefix.len()).collect::<String>();
    format!("{}-{}", part(user), part(entry))
}

/// Returns true if a claim was created for the user.
pub fn is_for(user: &Value, claim: &Value) -> bool {
    controller(claim).is_some_and(|owner| text(owner, "/uid") == uid(user))
}

/// Returns true if a claim was created for the given entry of a user's spec.
pub fn is_for_entry(user: &Value, entry: &str, claim: &Value) -> bool {
    is_for(user, claim) && claim["metadata"]["annotations"][ENTRY] == entry
}

/// Returns true if a claim was created for the pod's group.
pub fn is_for_group_of(pod: &Value, claim: &Value) -> bool {
    let is_group = |owner: &Value| {
        text(owner, "/kind") == "PodGroup" && text(owner, "/apiVersion").starts_with("scheduling.k8s.io/")
    };
    let name = group_of(pod);
    !name.is_empty() && controller(claim).is_some_and(|owner| is_group(owner) && text(owner, "/name") == name)
}

/// Returns the entry for a user in `status.reservedFor`.
pub fn consumer(user: &Value) -> Value {
    match is_group(user) {
        true => json!({
            "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": name(user), "uid": uid(user),
        }),
        false => json!({"resource": "pods", "name": name(user), "uid": uid(user)}),
    }
}

/// Returns true if a claim is allocated but not reserved for the pod or its group.
pub fn lacks_consumer(pod: &Value, claim: &Value) -> bool {
    let is_group = |consumer: &Value| is_group_consumer(consumer) && text(consumer, "/name") == group_of(pod);
    let mut consumers = list(claim, "/status/reservedFor").iter();
    present(claim, "/status/allocation").is_some()
        && !consumers.any(|consumer| text(consumer, "/uid") == uid(pod) || is_group(consumer))
}

/// Returns true if an entry of `status.reservedFor` is for a group of pods.
fn is_group_consumer(consumer: &Value) -> bool {
    text(consumer, "/apiGroup") == "scheduling.k8s.io" && text(consumer, "/resource") == "podgroups"
}

/// Finds the users of claims of one namespace by name.
pub trait Users<'a> {
    /// Returns a pod.
    fn pod(&self, name: &str) -> Option<&'a Value>;

    /// Returns a group of pods; `None` if claims of groups are not supported or the group does not exist.
    fn group(&self, name: &str) -> Option<&'a Value>;

    /// Returns true if claims of groups are supported.
    fn has_groups(&self) -> bool;
}

impl<'a, F: Fn(&str) -> Option<&'a Value>> Users<'a> for F {
    fn pod(&self, name: &str) -> Option<&'a Value> {
        self(name)
    }

    fn group(&self, _: &str) -> Option<&'a Value> {
        None
    }

    fn has_groups(&self) -> bool {
        false
    }
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

/// Returns the necessary changes to a claim; `users` finds pods and groups by name in the claim's namespace.
///
/// A claim that loses its last consumer also loses its devices, so that the next consumer can get devices elsewhere. A
/// claim that was created for a pod is deleted once the pod is gone or no longer needs it. A claim that was created for
/// a group is deleted with the group.
pub fn upkeep<'a>(claim: &Value, users: impl Users<'a>) -> Upkeep {
    let uses = |consumer: &Value| {
        let (name, is_same) = (text(consumer, "/name"), |user: &Value| uid(user) == text(consumer, "/uid"));
        if is_group_consumer(consumer) {
            return !users.has_groups() || users.group(name).is_some_and(is_same);
        }
        let is_pod = text(consumer, "/apiGroup").is_empty() && text(consumer, "/resource") == "pods";
        !is_pod || users.pod(name).is_some_and(|pod| is_same(pod) && !is_done(pod))
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
    let of_pod = owner(claim, "v1", "Pod").map(|owner| match users.pod(text(owner, "/name")) {
        Some(pod) => uid(pod) != text(owner, "/uid") || (is_unused && is_done(pod)),
        None => true,
    });
    let of_group = owner(claim, "scheduling.k8s.io/v1beta1", "PodGroup").map(|owner| {
        let group = users.group(text(owner, "/name"));
        users.has_groups() && group.is_none_or(|group| uid(group) != text(owner, "/uid"))
    });
    let is_orphan = of_pod.or(of_group).unwrap_or(false);
    Upkeep {
        unprotect: is_protected && without_devices && (is_released || gives_back),
        status: (claim.get("status") != Some(&status) && (is_released || gives_back)).then_some(status),
        delete: is_orphan && !is_ending,
    }
}

/// Returns the necessary changes to a claim once the pod with the given UID is gone. All other pods are assumed to run,
/// and all groups to exist.
pub fn upkeep_without(claim: &Value, gone: &str) -> Upkeep {
    let users = list(claim, "/status/reservedFor").iter().chain(owner(claim, "v1", "Pod"));
    let others = users.filter(|user| text(user, "/uid") != gone);
    let others: Vec<Value> =
        others.map(|user| json!({"metadata": {"name": user["name"], "uid": user["uid"]}})).collect();
    upkeep(claim, |wanted: &str| others.iter().find(|pod| name(pod) == wanted))
}

/// Records an allocation, if there is a new one, and reserves the claim for a consumer, as a scheduler does.
pub fn allot(claim: &mut Value, allocation: Option<Value>, consumer: Value) {
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
    if !consumers.iter().any(|known| known["uid"] == consumer["uid"]) {
        consumers.push(consumer);
        claim["status"]["reservedFor"] = consumers.into();
    }
}

/// Returns the reference to the object of this kind that controls a claim.
fn owner<'a>(claim: &'a Value, api: &str, kind: &str) -> Option<&'a Value> {
    controller(claim).filter(|owner| text(owner, "/apiVersion") == api && text(owner, "/kind") == kind)
}

/// Removes the finalizer that protects claims with devices.
pub fn unprotect(claim: &mut Value) {
    if let Some(finalizers) = claim.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
}

#[cfg(test)]
mod tests;
