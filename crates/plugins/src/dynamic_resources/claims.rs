//! The claims of a pod.

use harbormaster_api::{Pod, Str, pod::PodClaim};
use harbormaster_framework::resource::{Custom, Metadata, Watched};

use crate::devices::{ResourceClaim, claim::GROUPS_API};

/// Name of one of a pod's claims, as the pod or its status gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ClaimName<'a> {
    /// The pod names the claim itself.
    Named(&'a Str),
    /// The claim was generated for the pod from a template.
    Generated(&'a Str),
    /// The controller decided that the pod needs no claim.
    NotNeeded,
}

/// A claim of a pod, with its entry in the pod's spec.
pub(super) type ClaimOfEntry<'p, 'a> = (&'p PodClaim, &'a Custom<ResourceClaim>);

/// Returns the claims of a pod, in the order of its spec, or the reason why the pod cannot be scheduled yet. With claims
/// `of_groups`, a claim may also have been created for the pod's group.
pub(super) fn of<'p, 'a>(
    pod: &'p Pod,
    claims: Watched<'a, ResourceClaim>,
    of_groups: bool,
) -> Result<Vec<ClaimOfEntry<'p, 'a>>, String> {
    let found = pod.spec.resource_claims.iter().map(|entry| {
        let claim = one(pod, entry, claims, of_groups)?;
        Ok(claim.map(|claim| (entry, claim)))
    });
    found.filter_map(Result::transpose).collect()
}

/// Returns true if the pod uses the claim with this metadata.
pub(super) fn names(pod: &Pod, claim: &Metadata) -> bool {
    let mut entries = pod.spec.resource_claims.iter();
    claim.namespace == pod.namespace
        && entries.any(|entry| match name(pod, entry) {
            Ok(ClaimName::Named(name) | ClaimName::Generated(name)) => *name == claim.name,
            Ok(ClaimName::NotNeeded) | Err(_) => false,
        })
}

/// Returns the claim of one entry; `None` if the pod needs no claim for it.
fn one<'a>(
    pod: &Pod,
    entry: &PodClaim,
    claims: Watched<'a, ResourceClaim>,
    of_groups: bool,
) -> Result<Option<&'a Custom<ResourceClaim>>, String> {
    let (name, is_generated) = match name(pod, entry)? {
        ClaimName::Named(name) => (name, false),
        ClaimName::Generated(name) => (name, true),
        ClaimName::NotNeeded => return Ok(None),
    };
    let found = claims.get(&pod.namespace, name);
    let claim = found.ok_or_else(|| format!("could not find ResourceClaim \"{}/{name}\"", pod.namespace))?;
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(format!("resourceclaim {name:?} is being deleted"));
    }
    if is_generated && !is_made_for(claim, pod) {
        let why = match &pod.spec.pod_group {
            Some(group) if of_groups && is_made_for_group(claim, group) => return Ok(Some(claim)),
            Some(group) if of_groups => format!("neither Pod nor PodGroup {group} is the owner"),
            _ => "Pod is not owner".to_owned(),
        };
        let (namespace, pod_name) = (&pod.namespace, &pod.name);
        return Err(format!(
            "ResourceClaim {namespace}/{name} was not created for Pod {namespace}/{pod_name} ({why})"
        ));
    }
    Ok(Some(claim))
}

fn name<'a>(pod: &'a Pod, entry: &'a PodClaim) -> Result<ClaimName<'a>, String> {
    let (namespace, pod_name) = (&pod.namespace, &pod.name);
    match entry {
        PodClaim { claim: Some(name), .. } => Ok(ClaimName::Named(name)),
        PodClaim { template: Some(_), name, .. } => match pod.status.resource_claims.get(name) {
            Some(generated) if generated.is_empty() => Ok(ClaimName::NotNeeded),
            Some(generated) => Ok(ClaimName::Generated(generated)),
            None => Err(format!("pod \"{namespace}/{pod_name}\": ResourceClaim not created yet")),
        },
        PodClaim { name, .. } => Err(format!(
            "pod \"{namespace}/{pod_name}\", spec.resourceClaim {name:?}: none of the supported fields are set"
        )),
    }
}

/// Returns true if the claim was generated for the pod.
fn is_made_for(claim: &Custom<ResourceClaim>, pod: &Pod) -> bool {
    claim.metadata.controller.as_ref().is_some_and(|owner| owner.uid == pod.uid)
}

/// Returns true if the claim was generated for the group with this name. The version of its API does not matter.
fn is_made_for_group(claim: &Custom<ResourceClaim>, group: &Str) -> bool {
    claim.metadata.controller.as_ref().is_some_and(|owner| {
        let api = owner.api_version.split_once('/').map(|(api, _)| api);
        owner.name == *group && owner.kind == "PodGroup" && api == Some(GROUPS_API)
    })
}
