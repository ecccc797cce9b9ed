//! PodGroup (`scheduling.x-k8s.io/v1alpha1`), and the label that makes a pod its member.

use harbormaster::{
    api::{Pod, Str},
    prelude::*,
    serde::Deserialize,
};

/// Label whose value is the name of the pod's group.
pub const LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// A group of pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct PodGroup {
    /// `spec`
    pub spec: PodGroupSpec,
}

/// `spec` of a [`PodGroup`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", default)]
pub struct PodGroupSpec {
    /// `minMember`: number of pods without which none of them runs.
    pub min_member: u32,
}

impl Resource for PodGroup {
    const GROUP: &'static str = "scheduling.x-k8s.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "PodGroup";
    const PLURAL: &'static str = "podgroups";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

/// Returns the name of the pod's group.
pub fn group_of(pod: &Pod) -> Option<&Str> {
    pod.labels.get(LABEL).filter(|name| !name.is_empty())
}

/// Returns true if both pods belong to the same group.
pub fn are_members(a: &Pod, b: &Pod) -> bool {
    a.namespace == b.namespace && group_of(a).is_some_and(|group| group_of(b) == Some(group))
}
