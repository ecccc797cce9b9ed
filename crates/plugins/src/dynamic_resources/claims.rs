//! The claims of a pod.

use harbormaster_api::{Pod, Str, pod::PodClaim};
use harbormaster_framework::resource::{Custom, Metadata, Watched};

use crate::devices::ResourceClaim;

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

/// Returns the claims of a pod, in the order of its spec, or the reason why the pod cannot be scheduled yet.
pub(super) fn of<'a>(
    pod: &Pod,
    claims: Watched<'a, ResourceClaim>,
) -> Result<Vec<&'a Custom<ResourceClaim>>, String> {
    let found = pod.spec.resource_claims.iter().map(|entry| one(pod, entry, claims));
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
        let (namespace, pod_name) = (&pod.namespace, &pod.name);
        return Err(format!(
            "ResourceClaim {namespace}/{name} was not created for Pod {namespace}/{pod_name} (Pod is not owner)"
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
