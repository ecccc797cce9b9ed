//! Claims of groups (KEP-5729): a claim that both a pod and its group list is reserved for the group, so all members
//! share it.

use std::collections::BTreeSet;

use harbormaster_api::{
    Str,
    features::Feature,
    pod::PodClaim,
    protobuf::{Message, messages},
};
use harbormaster_framework::{prelude::*, resource::Watched};
use serde::Deserialize;

use super::{DynamicResources, PodDevices, bind};
use crate::devices::claim::{Consumer, GROUPS, GROUPS_API, is_reserved_for};

/// The claims of a PodGroup. Watched only with the feature gate `DRAWorkloadResourceClaims`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "WireGroup")]
pub struct GroupClaims {
    /// `spec.resourceClaims`
    pub entries: Vec<PodClaim>,
    /// `status.resourceClaimStatuses`: the names of entries, each with the name of its claim; `None` if no claim is
    /// needed.
    pub generated: Vec<(Str, Option<Str>)>,
}

impl Resource for GroupClaims {
    const GROUP: &'static str = GROUPS_API;
    const VERSION: &'static str = "v1beta1";
    const KIND: &'static str = "PodGroup";
    const PLURAL: &'static str = GROUPS;
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
    const GATE: Option<Feature> = Some(Feature::DRAWorkloadResourceClaims);
    const PROTOBUF: Option<&'static Message> = Some(&messages::groups::POD_GROUP);
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireGroup {
    spec: Option<WireSpec>,
    status: Option<WireStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    resource_claims: Option<Vec<WireEntry>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    resource_claim_statuses: Option<Vec<WireEntry>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireEntry {
    name: Str,
    resource_claim_name: Option<Str>,
    resource_claim_template_name: Option<Str>,
}

impl From<WireGroup> for GroupClaims {
    fn from(WireGroup { spec, status }: WireGroup) -> Self {
        let entries = spec.and_then(|spec| spec.resource_claims).into_iter().flatten();
        let generated = status.and_then(|status| status.resource_claim_statuses).into_iter().flatten();
        let entry = |WireEntry { name, resource_claim_name, resource_claim_template_name }| PodClaim {
            name,
            claim: resource_claim_name,
            template: resource_claim_template_name,
        };
        Self {
            entries: entries.map(entry).collect(),
            generated: generated.map(|entry| (entry.name, entry.resource_claim_name)).collect(),
        }
    }
}

impl DynamicResources {
    /// Returns the consumer for which a claim of a pod is reserved: the pod's group if the group has the same entry, and
    /// otherwise the pod.
    ///
    /// # Errors
    /// If the group does not exist.
    pub(super) fn consumer(
        &self,
        pod: &PodInfo,
        entry: &PodClaim,
        groups: Watched<'_, GroupClaims>,
    ) -> Result<Consumer, String> {
        let Some(name) = pod.spec.pod_group.as_ref().filter(|_| self.of_groups) else {
            return Ok(Consumer::pod(pod));
        };
        let missing = || format!("pod group object not found for pod group {}/{name}", pod.namespace);
        let group = groups.get(&pod.namespace, name).ok_or_else(missing)?;
        let is_of_group = group.entries.contains(entry);
        Ok(if is_of_group { Consumer::group(&group.metadata) } else { Consumer::pod(pod) })
    }

    /// Frees claims of a group that was rejected, so that the members can get devices elsewhere: first one claim of each
    /// member, then, if some member had none and no member is on a node, one claim of the group.
    pub(super) fn free_claims(
        &self,
        cx: &mut GroupPostFilterCycle<'_>,
        states: &[Option<&PodDevices>],
    ) -> PluginResult<GroupPostFiltered> {
        let mut freed: BTreeSet<String> = BTreeSet::new();
        let mut is_stuck = false;
        for (pod, state) in cx.members.iter().zip(states) {
            let Some(PodDevices(demand)) = state else { continue };
            match demand.as_ref().and_then(|demand| demand.free(pod)) {
                Some((calls, _)) => {
                    // Several members may have the same claim.
                    let is_new = calls.iter().all(|call| freed.insert(key(call)));
                    cx.calls.extend(calls.into_iter().filter(|_| is_new));
                }
                None => is_stuck = true,
            }
        }
        if is_stuck
            && self.of_groups
            && cx.group.scheduled == 0
            && let Some(result) = self.free_claim_of_group(cx, states, &freed)?
        {
            return Ok(result);
        }
        let reasons = vec!["deallocation and deletion of ResourceClaims completed".into()];
        Ok(GroupPostFiltered::NoHelp { reasons })
    }
}

impl DynamicResources {
    /// Takes the devices from a claim of the group that was unavailable on some node, or removes the group from the
    /// consumers of a claim. Returns `None` if there is nothing to do.
    fn free_claim_of_group(
        &self,
        cx: &mut GroupPostFilterCycle<'_>,
        states: &[Option<&PodDevices>],
        freed: &BTreeSet<String>,
    ) -> PluginResult<Option<GroupPostFiltered>> {
        let (uid, Some(member)) = (cx.group.uid.clone(), cx.members.first()) else { return Ok(None) };
        let demands = states.iter().flatten().filter_map(|PodDevices(demand)| demand.as_ref());
        let mut unavailable = demands.filter_map(|demand| demand.to_deallocate(&uid));
        if let Some(wanted) = unavailable.next() {
            // A pending claim has no devices in the API server.
            let call = (!wanted.is_pending).then(|| bind::deallocate(&wanted.claim.metadata));
            cx.calls.extend(call.filter(|call| !freed.contains(&key(call))));
            let reasons = vec!["deallocation of PodGroup ResourceClaim completed".into()];
            return Ok(Some(GroupPostFiltered::NoHelp { reasons }));
        }
        let (all, .., groups) = self.watched(cx.what_if.objects());
        let Some(group) = groups.get(&cx.group.id.namespace, &cx.group.id.name) else { return Ok(None) };
        for entry in &group.entries {
            let Some(name) = claim_name(group, entry)? else { continue };
            let namespace = &group.metadata.namespace;
            let missing = || format!("could not find ResourceClaim \"{namespace}/{name}\"");
            let claim = all.get(namespace, name).ok_or_else(missing)?;
            let is_own = claim.metadata.controller.as_ref().is_some_and(|owner| owner.uid == uid);
            let is_usable = entry.claim.is_some() || is_own;
            let has_devices = claim.status.allocation.is_some() && claim.in_flight.is_none();
            if is_usable && has_devices && is_reserved_for(claim, member, true) {
                let call = bind::release(&claim.metadata, &uid);
                cx.calls.push(call);
                let reasons = vec!["ResourceClaim unreserved for PodGroup".into()];
                return Ok(Some(GroupPostFiltered::Unresolvable { reasons }));
            }
        }
        Ok(None)
    }
}

/// Returns the name of the claim for an entry of a group; `None` if no claim is needed.
fn claim_name<'a>(group: &'a Custom<GroupClaims>, entry: &'a PodClaim) -> PluginResult<Option<&'a Str>> {
    let Metadata { namespace, name, .. } = &group.metadata;
    match entry {
        PodClaim { claim: Some(claim), .. } => Ok(Some(claim)),
        PodClaim { template: Some(_), .. } => {
            let generated = group.generated.iter().find(|(of, _)| *of == entry.name);
            let missing = || format!("PodGroup {namespace}/{name}: ResourceClaim not created yet");
            Ok(generated.ok_or_else(missing)?.1.as_ref())
        }
        PodClaim { name: of, .. } => {
            let why = "none of the supported fields are set";
            Err(format!("PodGroup {namespace}/{name}, spec.resourceClaim {of}: {why}").into())
        }
    }
}

/// Returns a text that identifies a request.
fn key(call: &ApiCall) -> String {
    format!("{:?} {:?}", call.verb, call.path)
}
