//! Pod groups: a deleted group remains until none of its pods is unfinished, as with the PodGroup protection
//! controller.

use std::collections::HashSet;

use harbormaster_apiserver::Store;
use harbormaster_validation::admission::PROTECTION;
use serde_json::Value;

use crate::{
    fields::{is_ending, is_finished, list, name, namespace, text},
    mirror::Mirror,
    sandbox::{SandboxError, carry_on},
};

pub(super) use harbormaster_world::devices::POD_GROUPS;

/// Stand-in for the PodGroup protection controller.
#[derive(Debug)]
pub(super) struct PodGroups {
    /// `None` if the API server does not serve pod groups.
    groups: Option<Mirror>,
}

impl PodGroups {
    /// # Errors
    /// If the resource cannot be watched.
    pub(super) fn new(store: &Store) -> Result<Self, SandboxError> {
        let groups = store.serves(POD_GROUPS).then(|| Mirror::new(store, POD_GROUPS)).transpose()?;
        Ok(Self { groups })
    }

    pub(super) async fn changed(&mut self) {
        match &mut self.groups {
            Some(groups) => groups.changed().await,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn catch_up(&mut self) {
        if let Some(groups) = &mut self.groups {
            groups.catch_up().await;
            groups.take_gone();
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.groups.iter().flat_map(Mirror::all)
    }

    /// Removes the protection of deleted groups that no unfinished pod names.
    pub(super) fn reconcile(&self, store: &Store, pods: &Mirror) {
        let is_protected = |group: &&Value| list(group, "/metadata/finalizers").contains(&PROTECTION.into());
        let mut deleted = self.all().filter(|group| is_ending(group)).filter(is_protected).peekable();
        if deleted.peek().is_none() {
            return;
        }
        let unfinished = pods.all().filter(|pod| !is_finished(pod));
        let in_use: HashSet<(&str, &str)> =
            unfinished.map(|pod| (namespace(pod), text(pod, "/spec/schedulingGroup/podGroupName"))).collect();
        for group in deleted.filter(|group| !in_use.contains(&(namespace(group), name(group)))) {
            let written = store.update(POD_GROUPS, namespace(group), name(group), |group| {
                if let Some(finalizers) =
                    group.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut)
                {
                    finalizers.retain(|finalizer| finalizer != PROTECTION);
                }
            });
            carry_on("The PodGroup protection controller", written.map(drop));
        }
    }
}
