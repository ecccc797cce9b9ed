//! Writing down the node of a machine, once and for all.
//!
//! The annotation is written under the condition that the machine is still the version that was looked at, so of two that
//! write at once one learns of the other. It is never taken away here, not even when the pod then fails to be bound: a binding
//! whose answer was lost looks the same as one that failed, and a machine that forgot where it runs would be worse than one that
//! is tried again on a node where it has not run yet. Whoever wants to let it go removes the annotation.

use harbormaster::{
    api::{Pod, Str, pod::OwnerReference},
    prelude::*,
    serde_json::json,
};

use crate::kubevirt::{VirtualMachine, missing, now};

/// How often it is tried while others keep changing the machine.
const TRIES: usize = 10;

/// The node that the annotation names, as the API server has it.
pub fn written<'a>(machine: &'a Custom<VirtualMachine>, annotation: &str) -> Option<&'a Str> {
    machine.metadata.annotations.get(annotation).filter(|node| !node.is_empty())
}

/// The node of the machine: what is written, or else what was decided.
pub fn remembered<'a>(machine: &'a Custom<VirtualMachine>, annotation: &str) -> Option<&'a Str> {
    written(machine, annotation).or(machine.assumed.as_ref())
}

/// A machine for which no node is written yet, in the version that was looked at.
#[derive(Clone, Debug)]
pub struct Unwritten {
    machine: OwnerReference,
    version: Str,
}

impl Unwritten {
    /// `None` if the node is written already.
    ///
    /// # Errors
    /// When another node is.
    pub fn of(
        machine: &Custom<VirtualMachine>,
        annotation: &str,
        node: &str,
    ) -> Result<Option<Self>, Reject> {
        match written(machine, annotation) {
            Some(written) if *written == node => Ok(None),
            Some(_) => Err(elsewhere()),
            None => {
                let Metadata { name, uid, resource_version, .. } = &machine.metadata;
                let machine =
                    OwnerReference { name: name.clone(), uid: uid.clone(), ..OwnerReference::default() };
                Ok(Some(Self { machine, version: resource_version.clone() }))
            }
        }
    }

    /// Writes the node, unless it turns out to be there.
    ///
    /// # Errors
    /// When another node was written meanwhile, or the machine is gone; or as the API server answered.
    pub async fn write(self, api: &Api, pod: &Pod, annotation: &str, node: &str) -> Verdict {
        let Self { machine, mut version } = self;
        for _ in 0..TRIES {
            let metadata = json!({ "resourceVersion": version, "annotations": { annotation: node } });
            let patch = json!({ "metadata": metadata });
            match api.patch::<VirtualMachine>(&pod.namespace, &machine.name, patch).await {
                Ok(_) => return Ok(()),
                Err(failure) if failure.is_not_found() => {
                    return Err(missing::<VirtualMachine>(pod, &machine).into());
                }
                Err(failure) if failure.is_conflict() => {}
                Err(failure) => return Err(failure.into()),
            }
            match Self::of(&now(api, pod, &machine).await?, annotation, node)? {
                None => return Ok(()),
                Some(changed) => version = changed.version,
            }
        }
        let (namespace, name) = (&pod.namespace, &machine.name);
        Err(format!("VirtualMachine {namespace}/{name} changed {TRIES} times while its node was written")
            .into())
    }
}

/// In the article's words. Evicting pods from the other nodes does not help.
pub fn elsewhere() -> Reject {
    Reject::unresolvable("already stick to another node")
}
