//! Writes the annotation that names a machine's node, once.
//!
//! The patch requires that the machine's resource version is unchanged, so concurrent writers conflict. The plugin
//! never removes the annotation, not even if the binding fails: a binding whose response was lost looks like a failed
//! one, and it is worse to forget the node of a running machine than to retry on a node where the machine has not run.
//! Users remove the annotation to release the machine.

use harbormaster::{
    api::{Pod, Str, pod::OwnerReference},
    prelude::*,
    serde_json::json,
};

use crate::kubevirt::{VirtualMachine, fetch_owner, not_found};

/// Maximum number of attempts to write while the machine keeps changing.
const TRIES: usize = 10;

/// Returns the node in the annotation.
pub fn annotated_node<'a>(machine: &'a Custom<VirtualMachine>, annotation: &str) -> Option<&'a Str> {
    machine.metadata.annotations.get(annotation).filter(|node| !node.is_empty())
}

/// Returns the machine's node: the annotated node if there is one, otherwise the assumed node.
pub fn pinned_node<'a>(machine: &'a Custom<VirtualMachine>, annotation: &str) -> Option<&'a Str> {
    annotated_node(machine, annotation).or(machine.assumed.as_ref())
}

/// A machine without an annotated node, at the resource version that was read.
#[derive(Clone, Debug)]
pub struct UnpinnedMachine {
    machine: OwnerReference,
    version: Str,
}

impl UnpinnedMachine {
    /// Returns the machine if the annotation has to be written, or `None` if it already names the node.
    ///
    /// # Errors
    /// If the annotation names another node.
    pub fn of(
        machine: &Custom<VirtualMachine>,
        annotation: &str,
        node: &str,
    ) -> Result<Option<Self>, Reject> {
        match annotated_node(machine, annotation) {
            Some(written) if *written == node => Ok(None),
            Some(_) => Err(pinned_elsewhere()),
            None => {
                let Metadata { name, uid, resource_version, .. } = &machine.metadata;
                let machine =
                    OwnerReference { name: name.clone(), uid: uid.clone(), ..OwnerReference::default() };
                Ok(Some(Self { machine, version: resource_version.clone() }))
            }
        }
    }

    /// Writes the annotation, unless it already names the node.
    ///
    /// # Errors
    /// If the annotation has been set to another node in the meantime, if the machine no longer exists or keeps
    /// changing, or if a request fails.
    pub async fn write(self, api: &Api, pod: &Pod, annotation: &str, node: &str) -> Verdict {
        let Self { machine, mut version } = self;
        for _ in 0..TRIES {
            let metadata = json!({ "resourceVersion": version, "annotations": { annotation: node } });
            let patch = json!({ "metadata": metadata });
            match api.patch::<VirtualMachine>(&pod.namespace, &machine.name, patch).await {
                Ok(_) => return Ok(()),
                Err(failure) if failure.is_not_found() => {
                    return Err(not_found::<VirtualMachine>(pod, &machine).into());
                }
                Err(failure) if failure.is_conflict() => {}
                Err(failure) => return Err(failure.into()),
            }
            match Self::of(&fetch_owner(api, pod, &machine).await?, annotation, node)? {
                None => return Ok(()),
                Some(changed) => version = changed.version,
            }
        }
        let (namespace, name) = (&pod.namespace, &machine.name);
        Err(format!(
            "VirtualMachine {namespace}/{name} changed {TRIES} times while its node was being recorded"
        )
        .into())
    }
}

/// Returns the article's rejection. Evicting pods from other nodes does not help.
pub fn pinned_elsewhere() -> Reject {
    Reject::unresolvable("already stick to another node")
}
