//! KubeVirt's kinds, as far as they are read, and the way from a pod to its virtual machine.
//!
//! Every step is the `ownerReference` with `controller: true`; it counts if kind, API group and UID are right. (The article
//! compares the kind alone, and follows the name.) A machine that was deleted and made again under its name is another one.

use harbormaster::{
    api::{Pod, Str, pod::OwnerReference},
    prelude::*,
    serde::Deserialize,
};

/// The label by which KubeVirt marks a pod as the target of a live migration.
pub const MIGRATION: &str = "kubevirt.io/migrationJobUID";

/// A machine that runs; its pod is its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
pub struct VirtualMachineInstance {}

/// A machine, whether it runs or not.
#[derive(Clone, Debug, Deserialize)]
#[serde(crate = "harbormaster::serde")]
pub struct VirtualMachine {
    /// The node that was decided for it and is not written yet.
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

/// The instance that manages the pod. `None` for pods of others, and for targets of live migrations: they belong to the
/// same instance as the pod that they leave, and must go anywhere but to its node.
pub fn instance_of(pod: &Pod) -> Option<&OwnerReference> {
    let owner = pod.controller.as_ref().filter(|owner| is_of::<VirtualMachineInstance>(owner));
    owner.filter(|_| pod.labels.get(MIGRATION).is_none())
}

/// The machine that manages the instance; `None` if it stands alone or something else manages it.
pub fn machine_of(instance: &Custom<VirtualMachineInstance>) -> Option<&OwnerReference> {
    instance.metadata.controller.as_ref().filter(|owner| is_of::<VirtualMachine>(owner))
}

/// Whether the reference names an object of that kind, in whichever version.
fn is_of<R: Resource>(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    owner.kind == R::KIND && group == R::GROUP
}

/// The pod's machine as the scheduler knows it; `None` if it has none.
///
/// # Errors
/// Names what is missing.
pub fn machine<'a>(objects: &'a Objects, pod: &Pod) -> Result<Option<&'a Custom<VirtualMachine>>, Stop> {
    let Some(owner) = instance_of(pod) else { return Ok(None) };
    let instance = objects.get::<VirtualMachineInstance>(&pod.namespace, &owner.name)?;
    let instance = instance.filter(|found| found.metadata.uid == owner.uid);
    let Some(owner) = machine_of(instance.ok_or_else(|| missing::<VirtualMachineInstance>(pod, owner))?)
    else {
        return Ok(None);
    };
    let machine = objects.get::<VirtualMachine>(&pod.namespace, &owner.name)?;
    let machine = machine.filter(|found| found.metadata.uid == owner.uid);
    Ok(Some(machine.ok_or_else(|| missing::<VirtualMachine>(pod, owner))?))
}

/// The same as the API server has it now.
///
/// # Errors
/// Names what is missing; or as the API server answered.
pub async fn machine_now(api: &Api, pod: &Pod) -> Result<Option<Custom<VirtualMachine>>, Stop> {
    let Some(owner) = instance_of(pod) else { return Ok(None) };
    let instance = now::<VirtualMachineInstance>(api, pod, owner).await?;
    let Some(owner) = machine_of(&instance) else { return Ok(None) };
    Ok(Some(now(api, pod, owner).await?))
}

/// An owner as the API server has it now.
///
/// # Errors
/// Says that it is missing; or as the API server answered.
pub(crate) async fn now<R: Resource>(
    api: &Api,
    pod: &Pod,
    owner: &OwnerReference,
) -> Result<Custom<R>, Stop> {
    let found = api.get::<R>(&pod.namespace, &owner.name).await?;
    let found = found.filter(|found| found.metadata.uid == owner.uid);
    Ok(found.ok_or_else(|| missing::<R>(pod, owner))?)
}

/// Evicting pods does not bring it back.
pub(crate) fn missing<R: Resource>(pod: &Pod, owner: &OwnerReference) -> Reject {
    let (kind, namespace, name, uid) = (R::KIND, &pod.namespace, &owner.name, &owner.uid);
    Reject::unresolvable(format!("{kind} {namespace}/{name} with UID {uid} was not found"))
}
