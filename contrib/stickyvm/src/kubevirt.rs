//! The parts of KubeVirt's kinds that the plugin reads, and the path from a pod to its virtual machine.
//!
//! Each step follows the `ownerReference` with `controller: true` and requires that kind, API group and UID match. (The
//! article compares only the kind and looks up the owner by name.) A machine that was deleted and recreated under the
//! same name is a different machine.

use harbormaster::{
    api::{Pod, Str, pod::OwnerReference},
    prelude::*,
    serde::Deserialize,
};

/// Label that KubeVirt sets on the target pod of a live migration.
pub const MIGRATION: &str = "kubevirt.io/migrationJobUID";

/// A running virtual machine. It owns the pod.
#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
pub struct VirtualMachineInstance {}

/// A virtual machine, running or not.
#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
pub struct VirtualMachine {
    /// Node that was chosen for the machine but is not yet written to the annotation.
    #[serde(skip)]
    pub(crate) assumed: Option<Str>,
}

impl Resource for VirtualMachineInstance {
    const GROUP: &'static str = "kubevirt.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "VirtualMachineInstance";
    const PLURAL: &'static str = "virtualmachineinstances";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

impl Resource for VirtualMachine {
    const GROUP: &'static str = "kubevirt.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "VirtualMachine";
    const PLURAL: &'static str = "virtualmachines";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

/// Returns the instance that owns the pod. Returns `None` for other pods, and for targets of live migrations,
/// which belong to the same instance as the source pod but must run on another node.
pub fn instance_of(pod: &Pod) -> Option<&OwnerReference> {
    let owner = pod.controller.as_ref().filter(|owner| is_of::<VirtualMachineInstance>(owner));
    owner.filter(|_| pod.labels.get(MIGRATION).is_none())
}

/// Returns the machine that owns the instance, if any.
pub fn machine_of(instance: &Custom<VirtualMachineInstance>) -> Option<&OwnerReference> {
    instance.metadata.controller.as_ref().filter(|owner| is_of::<VirtualMachine>(owner))
}

/// Returns true if the reference names an object of the given kind, in any version.
fn is_of<R: Resource>(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    owner.kind == R::KIND && group == R::GROUP
}

/// Returns the pod's machine from the scheduler's cache, or `None` if the pod belongs to no machine or is the target of
/// a live migration.
///
/// # Errors
/// If an object is missing; the error names it.
pub fn machine<'a>(
    instances: Watched<'a, VirtualMachineInstance>,
    machines: Watched<'a, VirtualMachine>,
    pod: &Pod,
) -> Result<Option<&'a Custom<VirtualMachine>>, Stop> {
    let Some(owner) = instance_of(pod) else { return Ok(None) };
    let instance = instances.get(&pod.namespace, &owner.name);
    let instance = instance.filter(|found| found.metadata.uid == owner.uid);
    let Some(owner) = machine_of(instance.ok_or_else(|| not_found::<VirtualMachineInstance>(pod, owner))?)
    else {
        return Ok(None);
    };
    let machine = machines.get(&pod.namespace, &owner.name);
    let machine = machine.filter(|found| found.metadata.uid == owner.uid);
    Ok(Some(machine.ok_or_else(|| not_found::<VirtualMachine>(pod, owner))?))
}

/// Like [`machine`], but reads from the API server.
///
/// # Errors
/// If an object is missing (the error names it), or the API server returns an error.
pub async fn fetch_machine(api: &Api, pod: &Pod) -> Result<Option<Custom<VirtualMachine>>, Stop> {
    let Some(owner) = instance_of(pod) else { return Ok(None) };
    let instance = fetch_owner::<VirtualMachineInstance>(api, pod, owner).await?;
    let Some(owner) = machine_of(&instance) else { return Ok(None) };
    Ok(Some(fetch_owner(api, pod, owner).await?))
}

/// Returns an owner from the API server.
///
/// # Errors
/// If the owner is missing, or the API server returns an error.
pub(crate) async fn fetch_owner<R: Resource>(
    api: &Api,
    pod: &Pod,
    owner: &OwnerReference,
) -> Result<Custom<R>, Stop> {
    let found = api.get::<R>(&pod.namespace, &owner.name).await?;
    let found = found.filter(|found| found.metadata.uid == owner.uid);
    Ok(found.ok_or_else(|| not_found::<R>(pod, owner))?)
}

/// Returns a rejection for a missing object. Evicting pods does not help.
pub(crate) fn not_found<R: Resource>(pod: &Pod, owner: &OwnerReference) -> Reject {
    let (kind, namespace, name, uid) = (R::KIND, &pod.namespace, &owner.name, &owner.uid);
    Reject::unresolvable(format!("{kind} {namespace}/{name} with UID {uid} was not found"))
}
